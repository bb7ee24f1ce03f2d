// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// wreck does something to the whole cluster, counts it and says so.
func (a *actor) wreck(name faultKind, act func() error) error {
	began := time.Now()
	if err := act(); err != nil {
		return err // perhaps nobody leads, or all replicas are down already
	}
	a.ledger.inject(name)
	a.say("%s (%.1f s)", name, time.Since(began).Seconds())
	return nil
}

// down draws for how long something is down.
func (a *actor) down() time.Duration {
	return 500*time.Millisecond + time.Duration(a.random.Int64N(int64(2*time.Second)))
}

// outage is a wreck during which the API server is down.
func (a *actor) outage(name faultKind, act func() error) error {
	began := time.Now()
	err := a.wreck(name, act)
	a.ledger.write(func(p *page) {
		p.episodes = append(p.episodes, episode{oracle.Between(began, time.Now()), string(name)})
	})
	return err
}

type step = func(context.Context) error

// restart stops something, and starts it again after a while.
func (a *actor) restart(ctx context.Context, stop, start step) error {
	if err := stop(ctx); err != nil {
		return err
	}
	pause(ctx, a.down())
	return start(ctx)
}

func (a *actor) restartServer(ctx context.Context) error {
	return a.outage(serverRestarted, func() error {
		return a.restart(ctx, a.cluster.StopAPIServer, a.cluster.StartAPIServer)
	})
}

func (a *actor) restartEtcd(ctx context.Context) error {
	return a.outage("etcd restarted", func() error { return a.restart(ctx, a.cluster.StopEtcd, a.cluster.StartEtcd) })
}

func (a *actor) restartStorage(ctx context.Context) error {
	return a.outage("etcd and API server restarted", func() error {
		if err := a.cluster.StopAPIServer(ctx); err != nil {
			return err
		}
		if err := a.restart(ctx, a.cluster.StopEtcd, a.cluster.StartEtcd); err != nil {
			return err
		}
		return a.cluster.StartAPIServer(ctx)
	})
}

// killOne kills the replica that leads, or one that does not.
func killOne(name faultKind, which func(leads bool) bool) func(*actor, context.Context) error {
	return func(a *actor, _ context.Context) error {
		return a.wreck(name, func() error {
			leader, ok := a.ledger.leader()
			if !ok {
				return errNotRunning
			}
			for _, r := range a.replicas {
				if which(r.name == leader.replica) {
					return r.kill(2*time.Second + a.down())
				}
			}
			return errNotRunning
		})
	}
}

// clockOutlived is the least time for which all replicas stay down when they end together, so that the eviction clock,
// which is fresh for 30 s, is stale for a few seconds before one is up again.
const clockOutlived = 35 * time.Second

// endAll ends all replicas at once, if all run: one that comes up a moment later would continue.
func endAll(name faultKind, end func(*replica, time.Duration) error) func(*actor, context.Context) error {
	return func(a *actor, _ context.Context) error {
		return a.wreck(name, func() error {
			if slices.ContainsFunc(a.replicas, func(r *replica) bool { return !r.running() }) {
				return errNotRunning
			}
			down := clockOutlived + a.down()
			var group errgroup.Group
			for _, r := range a.replicas {
				group.Go(func() error { return end(r, down) })
			}
			return group.Wait()
		})
	}
}

// afterStorm does something right after a storm of taints.
func afterStorm(do func(*actor, context.Context) error) func(*actor, context.Context) error {
	return func(a *actor, ctx context.Context) error {
		return errors.Join(a.storm(ctx), do(a, ctx))
	}
}

// changeWeather changes the intensity of faults.
func changeWeather(now intensity) func(*actor, context.Context) error {
	return func(a *actor, _ context.Context) error {
		for _, r := range a.replicas {
			r.proxy.weather.set(now)
		}
		a.say("weather: %s", now.name)
		return nil
	}
}

// farthestClock is the most by which the clock of a replica is wrong.
const farthestClock = 5 * time.Minute

// wrongClock sets the wall clock of a replica ahead or behind, and sets it right after a while. The other replica, the
// API server and the observer have the clock of this machine.
func wrongClock(sign int) func(*actor, context.Context) error {
	return func(a *actor, ctx context.Context) error {
		r := pick(a.random, a.replicas...)
		// The leader is picked three times as often as the standby, because a wrong clock does not affect a standby at once.
		leader, led := a.ledger.leader()
		i := slices.IndexFunc(a.replicas, func(r *replica) bool { return r.name == leader.replica })
		if led && i >= 0 && a.chance(0.5) {
			r = a.replicas[i]
		}
		defer a.setClock(r, 0)
		a.setClock(r, time.Duration(sign)*a.clockError())
		a.wait(ctx, a.pace()/2, a.pace()*3/2)
		if a.chance(0.5) && ctx.Err() == nil { // a wrong clock may step to another wrong time
			a.setClock(r, time.Duration(pick(a.random, 1, -1))*a.clockError())
			a.wait(ctx, a.pace()/2, a.pace()*3/2)
		}
		return nil
	}
}

// clockError draws by how much a clock is wrong: by seconds or by minutes.
func (a *actor) clockError() time.Duration {
	farthest := min(a.duration/2, farthestClock)
	if a.chance(0.5) {
		return farthest
	}
	return 2*time.Second + time.Duration(a.random.Int64N(int64(farthest)))
}

func (a *actor) setClock(r *replica, offset time.Duration) {
	// Actions from now on can use the new time; earlier actions used the old one.
	a.ledger.wind(r.name, offset, time.Now())
	r.clock.Set(offset)
	switch {
	case offset > 0:
		a.ledger.inject(clockAhead)
		a.say("the clock of %s is %s ahead", r.name, offset.Round(time.Second))
	case offset < 0:
		a.ledger.inject(clockBehind)
		a.say("the clock of %s is %s behind", r.name, -offset.Round(time.Second))
	}
}
