// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stage assembles the parts of Taintkeeper's controllers, so that they run in a manager, and in a test
// without one. The parts are stages, which are controllers of controller-runtime and run in the leader alone, and
// what feeds them, which runs in every replica.
package stage

import (
	"context"
	"fmt"
	"math"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Play is everything that runs together.
type Play struct {
	everywhere []manager.Runnable
	leading    []manager.Runnable
}

// Everywhere adds what runs in every replica, so that a standby is warm: watches and events.
func (p *Play) Everywhere(run ...func(context.Context) error) {
	for _, f := range run {
		p.everywhere = append(p.everywhere, manager.RunnableFunc(f))
	}
}

// Leading adds what runs in the leader.
func (p *Play) Leading(stages ...manager.Runnable) { p.leading = append(p.leading, stages...) }

// Run runs everything, without a manager or an election, until the context ends. It returns the first
// error, after which everything is stopped.
func (p *Play) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, runnables := range [][]manager.Runnable{p.everywhere, p.leading} {
		for _, runnable := range runnables {
			group.Go(func() error { return runnable.Start(ctx) })
		}
	}
	return group.Wait()
}

// AddTo adds everything to a manager.
func (p *Play) AddTo(mgr manager.Manager) error {
	for _, runnable := range p.everywhere {
		if err := mgr.Add(inEveryReplica{runnable}); err != nil {
			return err
		}
	}
	for _, runnable := range p.leading {
		if err := mgr.Add(runnable); err != nil {
			return err
		}
	}
	return nil
}

// New makes a stage that takes its requests from a source. Several of one name may live in one process.
func New[request comparable](logger logr.Logger, name string, options controller.TypedOptions[request], from source.TypedSource[request]) (manager.Runnable, error) {
	options.SkipNameValidation = new(true)
	options.Logger = logger
	options.CacheSyncTimeout = math.MaxInt64 // the watches keep trying, and /readyz says that they do
	c, err := controller.NewTypedUnmanaged(name, options)
	if err != nil {
		return nil, fmt.Errorf("make controller %s: %w", name, err)
	}
	if err := c.Watch(from); err != nil {
		return nil, fmt.Errorf("connect controller %s: %w", name, err)
	}
	return c, nil
}

// inEveryReplica makes a runnable that does not wait for an election.
type inEveryReplica struct{ manager.Runnable }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (inEveryReplica) NeedLeaderElection() bool { return false }
