// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"context"
	"testing"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Replica is the manager of one of several replicas: it knows what runs in every replica, and what in the leader.
type Replica struct {
	manager.Manager

	everywhere, leader []manager.Runnable
}

// Add implements manager.Manager.
func (r *Replica) Add(runnable manager.Runnable) error {
	if elected, ok := runnable.(manager.LeaderElectionRunnable); ok && !elected.NeedLeaderElection() {
		r.everywhere = append(r.everywhere, runnable)
		return nil
	}
	r.leader = append(r.leader, runnable)
	return nil
}

// StandsBy runs what runs in every replica until the test ends. The returned function makes the replica the leader.
func (r *Replica) StandsBy(t *testing.T) (leads func()) {
	t.Helper()
	Run(t, "the standby", func(ctx context.Context) error { return runAll(ctx, r.everywhere) })
	return func() {
		Run(t, "the new leader", func(ctx context.Context) error { return runAll(ctx, r.leader) })
	}
}

func runAll(ctx context.Context, all []manager.Runnable) error {
	var group errgroup.Group
	for _, runnable := range all {
		group.Go(func() error { return runnable.Start(ctx) })
	}
	return group.Wait()
}
