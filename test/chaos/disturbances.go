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
)

// faultKind names what happens, as the report counts it.
type faultKind string

// disturbance is one thing that happens to the cluster, and how often compared with the others of its table.
type disturbance struct {
	weight int
	name   faultKind
	do     func(*actor, context.Context) error
}

// The tables of all disturbances. Those of different tables happen at the same time, see [stage.lanes].
var (
	// What people do who taint nodes and run pods.
	users = []disturbance{
		{20, "a node is tainted", (*actor).taint},
		{17, "a node is untainted", (*actor).untaint},
		{4, "a timeAdded is changed", (*actor).retime},
		{4, "a taint goes and comes again at once", (*actor).taintAgain},
		{30, "a pod is created", (*actor).createPod},
		{5, "a pod is deleted", (*actor).deletePod},
		{7, "a pod is replaced by one with its name", (*actor).replacePod},
		{6, "a pod tolerates more", (*actor).tolerateMore},
		{7, "a pod tolerates for another time", (*actor).tolerateOtherwise},
	}
	// What controllers do again and again, as the node-lifecycle controller does, which is off here because all nodes are
	// healthy.
	controllers = []disturbance{
		{2, swapped, (*actor).fallSick},
		{1, rewritten, (*actor).rewrite},
	}
	// What happens to the reviews by the admission webhook while many pods that it guards must leave.
	reviews = []disturbance{
		{1, slowReview, obstruct(slowReview)},
		{1, hungReview, obstruct(hungReview)},
		{1, refusedReview, obstruct(refusedReview)},
	}
	// What happens to the wall clock of a replica.
	clocks = []disturbance{
		{1, clockAhead, wrongClock(1)},
		{1, clockBehind, wrongClock(-1)},
	}
	// What happens to the whole cluster at once.
	wrecks = []disturbance{
		{2, "leader killed", killOne("leader killed", func(leads bool) bool { return leads })},
		{1, "standby killed", killOne("standby killed", func(leads bool) bool { return !leads })},
		{1, serverRestarted, (*actor).restartServer},
		{1, "etcd restarted", (*actor).restartEtcd},
		{1, "etcd and API server restarted", (*actor).restartStorage},
	}
	// What happens to the whole cluster, too, where the built-in evicts: all replicas end together, so that it evicts for
	// a while and works off its backlog.
	endings = []disturbance{
		{1, allKilled, endAll(allKilled, (*replica).kill)},
		{1, killedInStorm, afterStorm(endAll(killedInStorm, (*replica).kill))},
		{1, stoppedInStorm, afterStorm(endAll(stoppedInStorm, (*replica).stopFor))},
	}
	// How often the faults of calls and watches happen.
	weathers = []disturbance{
		{1, "calm", changeWeather(calm)},
		{1, "mild", changeWeather(mild)},
		{1, "storm", changeWeather(storm)},
	}
	// kube-scheduler's work, see there.
	binding = []disturbance{{1, "pods are bound", (*actor).bindPods}}
)

// fault is something that can happen to a call or to the watches of a replica, and how often compared with the others
// of its table.
type fault struct {
	weight int
	name   faultKind
	can    func(callKind) bool // happen to such a call
}

var (
	callFaults = []fault{
		{1, delayedCall, anyCall},
		{1, delayedAnswer, anyCall},
		{1, droppedCall, anyCall},
		{1, droppedAnswer, func(kind callKind) bool { return !isWatch(kind) }},
		{1, tooMany, anyCall},
		{1, internalError, anyCall},
		{1, unavailable, anyCall},
		{1, conflict, isChange},
	}
	watchFaults = []fault{
		{2, cutWatch, isWatch},
		{1, cutAll, isWatch},
		{1, stalledWatch, isWatch},
		{1, refusedWatch, isWatch},
	}
)

const (
	delayedCall   faultKind = "call delayed"
	delayedAnswer faultKind = "answer delayed"
	droppedCall   faultKind = "call dropped"
	droppedAnswer faultKind = "answer dropped after the call was carried out"
	conflict      faultKind = "409"
	tooMany       faultKind = "429 with Retry-After"
	internalError faultKind = "500"
	unavailable   faultKind = "503"

	cutWatch     faultKind = "watch cut"
	cutAll       faultKind = "all watches cut at once"
	stalledWatch faultKind = "watch stalled"
	refusedWatch faultKind = "watch refused"

	slowReview    faultKind = "admission slow"
	hungReview    faultKind = "admission hanging"
	refusedReview faultKind = "admission refused"

	clockAhead  faultKind = "clock of a replica set ahead"
	clockBehind faultKind = "clock of a replica set behind"

	swapped   faultKind = "not-ready and unreachable swapped"
	rewritten faultKind = "taint rewritten with the current time"

	serverRestarted faultKind = "API server restarted"
	allKilled       faultKind = "all replicas killed, and kept down until the eviction clock is stale"
	killedInStorm   faultKind = "all replicas killed right after a storm, and kept down until the eviction clock is stale"
	stoppedInStorm  faultKind = "all replicas stopped right after a storm"
)

func anyCall(callKind) bool { return true }

func isWatch(kind callKind) bool { return kind == watchPods || kind == watchNodes }

// isChange reports whether a call can get a conflict.
func isChange(kind callKind) bool {
	return kind == deletePod || kind == patchPod || kind == patchNode || kind == electCall
}

// faultKinds are the kinds that count as faults, in the order in which they are reported.
func faultKinds() []faultKind {
	var all []faultKind
	for _, table := range [][]fault{callFaults, watchFaults} {
		for _, f := range table {
			all = append(all, f.name)
		}
	}
	for _, table := range [][]disturbance{reviews, clocks, controllers} {
		for _, d := range table {
			all = append(all, d.name)
		}
	}
	return all
}

// drawFault draws one of the faults that can happen to a kind of call.
func drawFault(random *rand.Rand, table []fault, kind callKind) faultKind {
	var deck []faultKind
	for _, f := range table {
		for range f.weight {
			if f.can(kind) {
				deck = append(deck, f.name)
			}
		}
	}
	return pick(random, deck...)
}

// actor disturbs the cluster at random, directly at the API server and at the processes.
type actor struct {
	*stage

	random *rand.Rand
	series string // begins the names of its pods
	made   int    // pods, for their names
}

// actor makes one with a source of randomness of its own.
func (s *stage) actor(source uint64, series string) *actor {
	return &actor{stage: s, random: s.source(source), series: series}
}

// lane is a table of which one thing happens after the other.
type lane struct {
	table             []disturbance
	first             time.Duration // the pause before the first
	shortest, longest time.Duration // the pause after each
	// toTheEnd says that a disturbance that has begun is finished even if the run ends meanwhile.
	toTheEnd bool
}

// lanes are everything that happens at the same time.
func (s *stage) lanes() []lane {
	whole := wrecks
	if s.coexist {
		whole = slices.Concat(wrecks, endings)
	}
	const busy, idle = 20 * time.Millisecond, 180 * time.Millisecond
	weather := min(s.duration/16, 6*time.Second)
	return []lane{
		{table: users, shortest: busy, longest: idle},
		{table: users, shortest: busy, longest: idle},
		{table: controllers, shortest: busy, longest: idle},
		{table: reviews}, // which pause themselves
		{table: clocks, first: s.pace(), shortest: s.pace(), longest: 3 * s.pace()},
		{table: whole, first: s.pace() / 2, shortest: s.pace() / 2, longest: s.pace() * 3 / 2, toTheEnd: true},
		{table: weathers, first: weather, shortest: weather, longest: 2 * weather},
		{table: binding, shortest: 200 * time.Millisecond, longest: 200 * time.Millisecond},
	}
}

// pace is the time between two disruptions, so that a short run has some, too.
func (s *stage) pace() time.Duration { return min(s.duration/5, 15*time.Second) }

// run plays a lane until the context ends: each disturbance as often as its weight says, in random order, and then all
// of them again. So each of them happens in a short run, too.
func (a *actor) run(ctx context.Context, l lane) error {
	doing := ctx
	if l.toTheEnd {
		doing = context.WithoutCancel(ctx)
	}
	var deck []disturbance
	for _, d := range l.table {
		for range d.weight {
			deck = append(deck, d)
		}
	}
	pause(ctx, l.first)
	for i := 0; ctx.Err() == nil; i++ {
		if i%len(deck) == 0 {
			a.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		next := deck[i%len(deck)]
		err := next.do(a, doing)
		if err != nil && !errors.Is(err, errNotRunning) && doing.Err() == nil {
			return fmt.Errorf("%s: %w", next.name, err)
		}
		a.wait(ctx, l.shortest, l.longest)
	}
	return nil
}

func (a *actor) chance(share float64) bool { return a.random.Float64() < share }

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// wait waits for a random time.
func (a *actor) wait(ctx context.Context, shortest, longest time.Duration) {
	pause(ctx, shortest+time.Duration(a.random.Int64N(int64(longest-shortest)+1)))
}
