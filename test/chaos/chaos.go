// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// Numbers of the sources of randomness; those below are the proxies'.
const (
	weatherSource = iota + 100
	wreckerSource
	schedulerSource
	electionSource
	webhookSource
	gatekeeperSource
	controllersSource
	clockSource
	stormSource
	firstTroublemaker
)

// troublemakers is how many make trouble at the same time.
const troublemakers = 2

// chaos lets everything happen at once for the duration of the run, and then plays the finale.
func (s *stage) chaos(ctx context.Context) error {
	lasting, cancel := context.WithTimeout(ctx, s.duration)
	defer cancel()
	group, lasting := errgroup.WithContext(lasting)
	group.Go(func() error { s.changeWeather(lasting, s.source(weatherSource)); return nil })
	for _, r := range s.replicas {
		group.Go(func() error { r.proxy.disturb(lasting); return nil })
	}
	for i := range uint64(troublemakers) {
		t := s.troublemaker(firstTroublemaker+i, string(rune('a'+i)))
		group.Go(func() error { return t.run(lasting, t.users()) })
	}
	again := s.troublemaker(controllersSource, "c")
	group.Go(func() error { return again.run(lasting, again.controllers()) })
	gates := &gatekeeper{
		troublemaker: s.troublemaker(gatekeeperSource, "g"), webhook: s.webhook, ledger: s.ledger, say: s.say, length: s.pace(),
	}
	group.Go(func() error { return gates.run(lasting) })
	clocks := &timekeeper{
		replicas: s.replicas, ledger: s.ledger, random: s.source(clockSource), say: s.say,
		farthest: min(s.duration/2, farthestClock), length: s.pace(),
	}
	group.Go(func() error { clocks.run(lasting); return nil })
	binds := &scheduler{client: s.client, random: s.source(schedulerSource), nodes: s.nodes}
	group.Go(func() error { return binds.run(lasting) })
	wrecks := &wrecker{
		cluster: s.cluster, replicas: s.replicas, ledger: s.ledger, random: s.source(wreckerSource),
		say: s.say, plays: s.disruptions(), done: s.done, storm: s.troublemaker(stormSource, "s").storm,
	}
	group.Go(func() error { return wrecks.run(lasting, s.pace()) })
	if err := group.Wait(); err != nil {
		return err
	}
	return s.finale(ctx, wrecks)
}

func (s *stage) troublemaker(source uint64, series string) *troublemaker {
	return &troublemaker{client: s.client, observer: s.observer, nodes: s.nodes, random: s.source(source), series: series}
}

// finale lets pods become due while the API server is down. Nothing happens afterwards that could draw attention to
// them, so a pod that is forgotten then stays forgotten.
func (s *stage) finale(ctx context.Context, wrecks *wrecker) error {
	s.say("the finale: half of the nodes are tainted, and the API server goes down")
	for _, r := range s.replicas {
		r.proxy.weather.set(storm)
	}
	t := s.troublemaker(firstTroublemaker+troublemakers, "z")
	for _, name := range s.nodes[:len(s.nodes)/2] {
		if err := t.changeNode(ctx, name, t.set(t.finalTaints()...)); err != nil {
			return err
		}
	}
	return wrecks.play(ctx, restartServer)
}

// pace is the time between two disruptions, so that a short run has some, too.
func (s *stage) pace() time.Duration {
	const slowest = 15 * time.Second
	return min(s.duration/5, slowest)
}

// changeWeather changes the intensity of faults until the context ends. It begins calm.
func (s *stage) changeWeather(ctx context.Context, random *rand.Rand) {
	shortest := min(s.duration/16, 6*time.Second)
	next := []intensity{calm, mild, storm}
	for ctx.Err() == nil {
		for _, now := range next {
			for _, r := range s.replicas {
				r.proxy.weather.set(now)
			}
			s.say("weather: %s", now.name)
			pause(ctx, shortest+time.Duration(random.Int64N(int64(shortest))))
			if ctx.Err() != nil {
				return
			}
		}
		random.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
	}
}

// calmDown ends all faults, and returns the instant.
func (s *stage) calmDown() time.Time {
	for _, r := range s.replicas {
		r.proxy.weather.set(calm)
		r.proxy.watches.release()
	}
	s.say("the faults have ended; waiting for recovery")
	return time.Now()
}

const (
	// longestRecovery is longer than what the faults can still cause: a watch whose reflector waits a minute before it
	// lists again, then an eviction that waits for 30 s, and some more until it counts as lost.
	longestRecovery = 150 * time.Second
	// calmFor is how long no pod must have been overdue before the recovery counts as complete.
	calmFor = 6 * time.Second
)

// awaitRecovery waits until no pod is overdue, or for the longest that this can take.
func (s *stage) awaitRecovery(ctx context.Context) {
	const look = time.Second
	ctx, cancel := context.WithTimeout(ctx, longestRecovery)
	defer cancel()
	quiet := time.Now()
	for ctx.Err() == nil && time.Since(quiet) < calmFor {
		pause(ctx, look)
		if s.overdue() > 0 {
			quiet = time.Now()
		}
	}
}

// overdue counts the pods that must leave now, according to what the watch has brought.
func (s *stage) overdue() int {
	now := time.Now()
	overdue := 0
	for _, stretch := range s.observer.history(audited{}, now, now).stretches() {
		if stretch.open && now.Sub(stretch.due) > haste {
			overdue++
		}
	}
	return overdue
}
