// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// farthestClock is the most by which the clock of a replica is wrong.
const farthestClock = 5 * time.Minute

// timekeeper sets the wall clocks of the replicas, one at a time. The other replica, the API server and the observer
// have the clock of this machine.
type timekeeper struct {
	replicas []*replica
	ledger   *ledger
	random   *rand.Rand
	say      func(format string, args ...any)
	farthest time.Duration
	length   time.Duration // about how long a clock is wrong; all are right for twice as long
}

// run sets clocks until the context ends, and then sets all of them right.
func (k *timekeeper) run(ctx context.Context) {
	defer func() {
		for _, r := range k.replicas {
			k.set(r, 0)
		}
	}()
	for ctx.Err() == nil {
		k.pause(ctx)
		r := k.victim()
		for range 1 + k.random.IntN(2) { // a wrong clock may step to another wrong time
			if ctx.Err() != nil {
				return
			}
			k.set(r, k.offset())
			k.pause(ctx)
		}
		k.set(r, 0)
		k.pause(ctx)
	}
}

func (k *timekeeper) pause(ctx context.Context) {
	pause(ctx, time.Duration((0.5+k.random.Float64())*float64(k.length)))
}

// victim picks a replica, the leader three times as often as the standby, because a wrong clock does not affect a
// standby at once.
func (k *timekeeper) victim() *replica {
	picked := pick(k.random, k.replicas...)
	if leader, ok := k.ledger.leader(); ok && k.random.IntN(2) == 0 {
		for _, r := range k.replicas {
			if r.name == leader.replica {
				return r
			}
		}
	}
	return picked
}

// offset draws the error of a clock: ahead or behind, by seconds or by minutes.
func (k *timekeeper) offset() time.Duration {
	offset := k.farthest
	if k.random.IntN(2) == 0 {
		offset = 2*time.Second + time.Duration(k.random.Int64N(int64(k.farthest)))
	}
	if k.random.IntN(2) == 0 {
		return -offset
	}
	return offset
}

func (k *timekeeper) set(r *replica, offset time.Duration) {
	// Actions from now on can use the new time; earlier actions used the old one.
	k.ledger.wind(r.name, offset, time.Now())
	r.clock.Set(offset)
	switch {
	case offset > 0:
		k.ledger.inject(clockAhead)
		k.say("the clock of %s is %s ahead", r.name, offset.Round(time.Second))
	case offset < 0:
		k.ledger.inject(clockBehind)
		k.say("the clock of %s is %s behind", r.name, -offset.Round(time.Second))
	}
}
