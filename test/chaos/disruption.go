// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// disruption is something that happens to the whole cluster at once.
type disruption string

const (
	killLeader     disruption = "leader killed"
	killStandby    disruption = "standby killed"
	restartServer  disruption = "API server restarted"
	restartEtcd    disruption = "etcd restarted"
	restartStorage disruption = "etcd and API server restarted"
	killAll        disruption = "all replicas killed, and kept down until the eviction clock is stale"
	killInStorm    disruption = "all replicas killed right after a storm, and kept down until the eviction clock is stale"
	stopInStorm    disruption = "all replicas stopped right after a storm"
)

// Those that are always played, and those that are played in a cluster whose built-in controller evicts too, in the
// order in which they are reported.
var (
	disruptions         = []disruption{killLeader, killStandby, restartServer, restartEtcd, restartStorage}
	disruptionsOfEnding = []disruption{killAll, killInStorm, stopInStorm}
)

// isOutage reports whether the API server is down meanwhile.
func (d disruption) isOutage() bool {
	return slices.Contains([]disruption{restartServer, restartEtcd, restartStorage}, d)
}

// round is one round of disruptions in random order, with the leader twice.
func round(random *rand.Rand, plays []disruption) []disruption {
	all := append([]disruption{killLeader}, plays...)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// wrecker restarts the API server and etcd, and kills replicas.
type wrecker struct {
	cluster  *localcluster.Cluster
	replicas []*replica
	ledger   *ledger
	random   *rand.Rand
	say      func(format string, args ...any)
	plays    []disruption
	storm    func(ctx context.Context) error // makes many pods due at once, and may end it
	done     map[disruption]int
}

// run disrupts until the context ends, with the given time between two disruptions. It finishes a disruption that has
// begun.
func (w *wrecker) run(ctx context.Context, pace time.Duration) error {
	pause(ctx, pace/2)
	for ctx.Err() == nil {
		for _, next := range round(w.random, w.plays) {
			if ctx.Err() != nil {
				break
			}
			if err := w.play(context.WithoutCancel(ctx), next); err != nil {
				return fmt.Errorf("%s: %w", next, err)
			}
			pause(ctx, time.Duration((0.5+w.random.Float64())*float64(pace)))
		}
	}
	return nil
}

func (w *wrecker) play(ctx context.Context, next disruption) error {
	began := time.Now()
	err := w.act(ctx, next)
	if errors.Is(err, errNotRunning) { // nobody leads, or all replicas are down already
		return nil
	}
	w.done[next]++
	w.say("%s (%.1f s)", next, time.Since(began).Seconds())
	if next.isOutage() {
		w.ledger.tell(string(next), began, time.Now())
	}
	return err
}

func (w *wrecker) act(ctx context.Context, next disruption) error {
	const atLeast = 500 * time.Millisecond
	down := atLeast + time.Duration(w.random.Int64N(int64(2*time.Second)))
	switch next {
	case killLeader, killStandby:
		return w.kill(next, 2*time.Second+down)
	case killAll:
		return w.endAll(func(r *replica) error { return r.kill(clockOutlived + down) })
	case killInStorm:
		return errors.Join(w.storm(ctx), w.endAll(func(r *replica) error { return r.kill(clockOutlived + down) }))
	case stopInStorm:
		return errors.Join(w.storm(ctx), w.endAll(func(r *replica) error { return r.leave(clockOutlived + down) }))
	case restartServer:
		return w.outage(ctx, down, w.cluster.StopAPIServer, w.cluster.StartAPIServer)
	case restartEtcd:
		return w.outage(ctx, down, w.cluster.StopEtcd, w.cluster.StartEtcd)
	default:
		return w.outage(ctx, 0, w.cluster.StopAPIServer, func(ctx context.Context) error {
			if err := w.outage(ctx, down, w.cluster.StopEtcd, w.cluster.StartEtcd); err != nil {
				return err
			}
			return w.cluster.StartAPIServer(ctx)
		})
	}
}

func (w *wrecker) outage(ctx context.Context, down time.Duration, stop, start func(context.Context) error) error {
	if err := stop(ctx); err != nil {
		return err
	}
	pause(ctx, down)
	return start(ctx)
}

// kill kills the replica that leads, or one that does not.
func (w *wrecker) kill(which disruption, down time.Duration) error {
	leader, ok := w.ledger.leader()
	if !ok {
		return errNotRunning
	}
	for _, r := range w.replicas {
		if (r.name == leader.replica) == (which == killLeader) {
			return r.kill(down)
		}
	}
	return errNotRunning
}

// clockOutlived is the least time for which all replicas stay down when they are killed together, so that the eviction
// clock, which is fresh for 30 s, is stale for a few seconds before one is up again.
const clockOutlived = 35 * time.Second

// endAll ends all replicas at once, if all run: one that comes up a moment later would continue.
func (w *wrecker) endAll(end func(*replica) error) error {
	if slices.ContainsFunc(w.replicas, func(r *replica) bool { return !r.running() }) {
		return errNotRunning
	}
	var group errgroup.Group
	for _, r := range w.replicas {
		group.Go(func() error { return end(r) })
	}
	return group.Wait()
}
