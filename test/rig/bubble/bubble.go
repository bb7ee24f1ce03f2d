// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bubble is a cluster in virtual time, in a bubble of testing/synctest: an API server over client-go's fake
// clientset, with watches that tests can disturb, nodes and their kubelets, pods, a record of calls, and functions that
// run controllers and disturb them. The packages of the controllers add what only they need. It knows no cache, because
// the tests of the caches use it; package caches starts those.
package bubble

import (
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Run runs a controller, and returns when everything that can happen has happened. The controller is stopped when the
// test ends or stop is called. If it ends with an error, the test fails and names it.
func Run(t *testing.T, who string, controller func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- controller(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s ended with: %v", who, err)
		}
	})
	t.Cleanup(stop)
	synctest.Wait()
	return stop
}

// Main runs the tests of a package.
func Main(m *testing.M) { os.Exit(Tests{m}.Run()) }

// Tests are the tests of a package. Of client-go's error handlers, it keeps only the one that logs: the other sleeps
// until a little after the previous error of the process, and real or another bubble's time can be years ahead of a
// bubble's, so that what met an error would be paused.
type Tests struct{ *testing.M }

// Run runs the tests.
func (t Tests) Run() int {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	return t.M.Run()
}

// Pass lets virtual time pass, and returns when everything that can happen has happened.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// clock hears what the API server's clock shows.
type clock interface{ Heard(date, asked time.Time) }

// Tell tells a clock that the API server's clock agrees with the bubble's, more precisely than a Date can.
func Tell(clock clock) {
	now := time.Now()
	clock.Heard(now, now)
	clock.Heard(now.Add(-time.Second), now)
}

// KeepTelling tells a clock the time repeatedly until the context ends, so that it stays known to a few milliseconds.
func KeepTelling(ctx context.Context, clock clock) {
	ticker := time.NewTicker(4 * time.Second)
	defer ticker.Stop()
	for ctx.Err() == nil {
		Tell(clock)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// TellTime makes every answer of a client tell a clock the time, so that tests can name instants. Tests about the
// imprecision of a Date use answers of their own.
func TellTime(client *fake.Clientset, clock clock) {
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		Tell(clock)
		return false, nil, nil
	})
	client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		Tell(clock)
		return false, nil, nil
	})
}

// Notes are notifications that a test has not looked at yet. The zero value is empty. They are safe for concurrent use.
type Notes[T any] struct {
	mu  sync.Mutex
	all []T
}

// Write adds a notification.
func (n *Notes[T]) Write(told T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, told)
}

// Take returns what was added since its last call.
func (n *Notes[T]) Take() []T {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.all
	n.all = nil
	return taken
}

// ReconcileErrors returns how many errors controller-runtime has counted for a controller, in all tests of this
// process.
func ReconcileErrors(t *testing.T, controller string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_errors_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == controller {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

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
