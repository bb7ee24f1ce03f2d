// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stage assembles the parts of Taintkeeper's controllers, so that they run in a manager or, in tests, without
// one. The parts are stages, which are controllers of controller-runtime and run only in the leader, and what feeds
// them, which runs in every replica.
package stage

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Parts are all parts that run together. The zero value has none.
type Parts struct {
	everyReplica []manager.Runnable
	leader       []manager.Runnable
}

// InEveryReplica adds what runs in every replica, so that a standby is warm: watches and events.
func (p *Parts) InEveryReplica(run ...func(context.Context) error) {
	for _, f := range run {
		p.everyReplica = append(p.everyReplica, manager.RunnableFunc(f))
	}
}

// InLeader adds what runs only in the leader: everything that changes nodes, pods or rules.
func (p *Parts) InLeader(stages ...manager.Runnable) { p.leader = append(p.leader, stages...) }

// Run runs everything, without a manager or an election, until the context ends. What runs in the leader
// ends before what feeds it. Run returns the first error, after which everything is stopped.
func (p *Parts) Run(ctx context.Context) error {
	feeding, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	every, feeding := errgroup.WithContext(feeding)
	start(feeding, every, p.everyReplica)

	leading, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(feeding, end)() // a feeding part has failed
	leader, leading := errgroup.WithContext(leading)
	start(leading, leader, p.leader)
	leader.Go(func() error { <-leading.Done(); return nil })

	err := leader.Wait()
	stop()
	return cmp.Or(err, every.Wait())
}

func start(ctx context.Context, in *errgroup.Group, runnables []manager.Runnable) {
	for _, runnable := range runnables {
		in.Go(func() error { return runnable.Start(ctx) })
	}
}

// AddTo adds everything to a manager.
func (p *Parts) AddTo(mgr manager.Manager) error {
	for _, runnable := range p.everyReplica {
		if err := mgr.Add(feeding{runnable}); err != nil {
			return err
		}
	}
	for _, runnable := range p.leader {
		if err := mgr.Add(runnable); err != nil {
			return err
		}
	}
	return nil
}

// newStage makes a stage that takes its requests from a source. A process may have several of the same name.
func newStage[request comparable](
	logger logr.Logger, name string, options controller.TypedOptions[request], from source.TypedSource[request],
) (manager.Runnable, error) {
	options.SkipNameValidation = new(true)
	options.Logger = logger
	options.CacheSyncTimeout = math.MaxInt64 // the watches keep trying, and /readyz reports it
	c, err := controller.NewTypedUnmanaged(name, options)
	if err != nil {
		return nil, fmt.Errorf("make controller %s: %w", name, err)
	}
	if err := c.Watch(from); err != nil {
		return nil, fmt.Errorf("connect controller %s: %w", name, err)
	}
	return manager.RunnableFunc(func(ctx context.Context) error {
		err := c.Start(ctx)
		if ctx.Err() != nil { // the process ended while it waited, which is not a failure
			return nil //nolint:nilerr // the context has ended
		}
		return err
	}), nil
}

// Add makes a stage that takes its requests from a source, and adds it to what runs in the leader.
func Add[request comparable](
	to *Parts, logger logr.Logger, name string, options controller.TypedOptions[request], from Source[request],
) error {
	stage, err := newStage(logger, name, options, from)
	if err == nil {
		to.InLeader(stage)
	}
	return err
}

// Source is where a stage takes its requests from.
type Source[request comparable] struct {
	// Of says in the log what the requests are about.
	Of string
	// To begins to add requests to the stage's queue, and returns at once.
	To func(queue workqueue.TypedRateLimitingInterface[request])
	// Wait returns when requests can be answered, or why they never can be. No request is answered before.
	Wait func(ctx context.Context) error
}

// String names the source in the log.
func (s Source[request]) String() string { return s.Of }

// Start implements source.TypedSource.
func (s Source[request]) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	s.To(queue)
	return nil
}

// WaitForSync implements source.TypedSyncingSource.
func (s Source[request]) WaitForSync(ctx context.Context) error { return s.Wait(ctx) }

// Register registers metrics. A nil Registerer takes none.
func Register(registerer prometheus.Registerer, all ...prometheus.Collector) error {
	if registerer == nil {
		return nil
	}
	for _, collector := range all {
		if err := registerer.Register(collector); err != nil {
			return fmt.Errorf("register the metrics: %w", err)
		}
	}
	return nil
}

// feeding is a runnable that a manager treats as a cache. Caches run in every replica, and end after what runs in the
// leader. Otherwise the manager would first end what feeds the leader (controller-runtime, pkg/manager/internal.go).
type feeding struct{ manager.Runnable }

// GetCache is how the manager recognizes a cache.
func (feeding) GetCache() cache.Cache { return synced{} }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (feeding) NeedLeaderElection() bool { return false }

// synced is a cache that needs no waiting, because each stage waits for what it needs.
type synced struct{ cache.Cache }

// WaitForCacheSync implements cache.Cache.
func (synced) WaitForCacheSync(context.Context) bool { return true }

// QuietErrors returns a logger that writes errors at level 1. It is for controllers whose reconcilers log persistent
// failures themselves, because controller-runtime logs each error that a reconciler returns, which in an outage is one
// for every node and try.
func QuietErrors(logger logr.Logger) logr.Logger {
	if logger.GetSink() == nil { // it discards
		return logger
	}
	return logger.WithSink(quiet{logger.GetSink()})
}

type quiet struct{ logr.LogSink }

// Error implements logr.LogSink.
func (q quiet) Error(err error, message string, keysAndValues ...any) {
	const level = 1
	if q.Enabled(level) {
		q.Info(level, message, append(slices.Clip(keysAndValues), "error", err)...)
	}
}

// WithValues implements logr.LogSink.
func (q quiet) WithValues(keysAndValues ...any) logr.LogSink {
	return quiet{q.LogSink.WithValues(keysAndValues...)}
}

// WithName implements logr.LogSink.
func (q quiet) WithName(name string) logr.LogSink { return quiet{q.LogSink.WithName(name)} }
