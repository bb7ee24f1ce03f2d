// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backlog holds the pods that must leave their nodes, and says which eviction to try next and which to cancel.
//
//  1. At most 16 evictions are in flight for less than 250 ms, and at most 64 for longer (slow).
//  2. When a 65th becomes slow, the youngest slow one of the group with the most slow ones is cancelled.
//  3. Groups take turns, pod by pod. Within a group the order is: earliest due, then lowest priority, with pods of one
//     node together.
//  4. A group hangs when one of its tries times out or is cancelled to make room, until a try that began later is
//     answered.
//  5. Retries, and all evictions of groups that hang, have priority in 4 of the 16 places and get no others.
//  6. In a group that hangs, first tries come before retries. Retries are first come, first served.
//  7. An eviction that was refused or failed waits for its own backoff. At most 50 of these are retried per second.
//
// There are two lanes, each with limits, groups and turns of its own: pods to delete, and pods about which the Eviction
// API is asked. The limits of the second also bound how many evictions of one group are in flight. A pod changes lanes
// when its answer changes, as a new eviction; a try in flight is withdrawn and ends first. A held pod that was asked
// about stays in its lane, because it would lose the backoff of its tries.
//
// A group is a namespace, because what hangs is a webhook, and webhooks select by namespace and labels, never by node.
// Together, 1 and 2 keep at most 80 of the 98 seats that the API server gives to all controllers (workload-high), so
// calls of other controllers get through.
//
// With G other groups that have due pods, the k-th due pod of a group begins within (G+1)k/48 s: 12 places serve groups
// that do not hang, and each is free again after 250 ms. n groups that begin to hang delay the others by n/48 s, once.
// The oldest slow eviction is never cancelled, so each group that hangs finds out when it no longer does.
//
// A Backlog makes no calls and has no clock, goroutine, lock or logger. The caller passes instants in.
package backlog

import (
	"errors"
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/instant"

	"k8s.io/apimachinery/pkg/types"
)

// Limits bound the evictions that are in flight.
type Limits struct {
	Prompt   int           // in flight for less than Patience
	Retries  int           // of these, retries and evictions of groups that hang
	Slow     int           // in flight for longer than Patience
	Patience time.Duration // the longest that a prompt eviction takes
	Pace     time.Duration // between two retries of evictions that were refused or failed
	PerGroup int           // in flight in one group; 0 is no limit
}

// AskLimits are the limits of evictions that ask, which have places of their own because a call may take 10 s by
// design. A namespace has at most two in flight, so one with a webhook that hangs leaves room for the others, and those
// that take long move to slow places. With deletes and the two reads of package policies, at most 98 calls are in
// flight, for which the API server has 98 seats.
var AskLimits = Limits{
	Prompt: 8, Retries: 4, Slow: 8, PerGroup: 2, Patience: time.Second, Pace: 20 * time.Millisecond,
}

// Lane is the way in which a pod leaves.
type Lane int

// The lanes.
const (
	Delete Lane = iota // it is deleted
	Ask                // the Eviction API is asked about it
)

// Lanes are the limits of each lane.
type Lanes [2]Limits

// LimitsFor returns the limits for a number of places, which must be at least 1. With 16 places, at most 80 evictions
// are in flight.
func LimitsFor(places int) Limits {
	return Limits{
		Prompt: places, Retries: max(places/4, 1), Slow: 4 * places,
		Patience: 250 * time.Millisecond, Pace: 20 * time.Millisecond,
	}
}

const (
	// movesPerCall bounds how many evictions one call of Next moves from one order to another, so that it takes at most a
	// few milliseconds even if very many pods are due at once.
	movesPerCall = 1000
	// rememberRefusal is how long a refusal counts for a pod that may stay. Otherwise a taint that comes and goes would
	// repeat the refused call each time.
	rememberRefusal = 10 * time.Minute
)

// group is a set of evictions that hang together.
type group struct {
	lane             *lane
	name             string
	members          int
	inFlight         int
	hangs            bool
	judged           time.Time // when the try began that decided whether it hangs
	served           int       // its last turn
	firsts           ordered[*Eviction]
	retries          ordered[*Eviction]
	atReady, atTurns int
}

// Backlog is not safe for concurrent use. Set, Next and Done take O(log n) for each pod that they touch.
type Backlog struct {
	there func(types.UID) bool
	nodes map[string]map[types.UID]*Eviction
	lanes [2]*lane
	turn  Lane // whose turn it is to begin, if both can
}

// lane has the evictions of one lane.
type lane struct {
	limits   Limits
	groups   map[string]*group
	pending  ordered[*Eviction] // may not be tried yet
	failed   ordered[*Eviction] // wait for their backoff
	spared   ordered[*Eviction] // were refused, and may stay
	ready    ordered[*group]    // have first tries, and do not hang
	careful  ordered[*group]    // have retries, or hang
	inFlight []*Eviction        // in the order in which they began
	turns    int                // taken so far
	paced    time.Time          // no failed eviction is retried before this instant
	begun    time.Time          // the last try
}

// New returns an empty Backlog. It calls there to ask whether a pod that need not leave still exists. If not, its try
// in flight is not withdrawn: the API server is about to answer it, or never will.
func New(limits Lanes, there func(types.UID) bool) *Backlog {
	b := &Backlog{there: there, nodes: map[string]map[types.UID]*Eviction{}}
	inTurn := func(a, b *group) bool { return a.served < b.served }
	for i := range b.lanes {
		b.lanes[i] = &lane{
			limits: limits[i], groups: map[string]*group{},
			pending: evictions(sooner), failed: evictions(sooner), spared: evictions(refusedSooner),
			ready:   ordered[*group]{at: func(g *group) *int { return &g.atReady }, less: inTurn},
			careful: ordered[*group]{at: func(g *group) *int { return &g.atTurns }, less: inTurn},
		}
	}
	return b
}

// Set replaces what is known about a node. It returns the evictions of pods that may stay now, and the evictions in
// flight that must be cancelled because their pods need not leave now. An eviction in flight whose pod may stay is in
// both.
func (b *Backlog) Set(node string, leaving []Leaving, now time.Time) (stay, cancel []*Eviction) {
	known := b.nodes[node]
	next := make(map[types.UID]*Eviction, len(leaving))
	for _, l := range leaving {
		e := known[l.UID]
		if e == nil {
			e = &Eviction{Node: node, group: b.lanes[l.Lane].join(l.Group)}
		}
		next[l.UID] = e
		if b.update(e, l, now) {
			cancel = append(cancel, e)
		}
	}
	for uid, e := range known {
		if next[uid] != nil {
			continue
		}
		if !e.unwanted {
			stay = append(stay, e)
		}
		remembered, inFlight := b.withdraw(e)
		if remembered {
			next[uid] = e
		}
		if inFlight {
			cancel = append(cancel, e)
		}
	}
	b.remember(node, next)
	return stay, cancel
}

// update applies what is known about a pod that must leave, and reports whether its try in flight must be cancelled.
func (b *Backlog) update(e *Eviction, l Leaving, now time.Time) (cancel bool) {
	if e.Lane == Ask && !l.Answer.Free() {
		l.Lane = Ask
	}
	if b.lanes[l.Lane] != e.group.lane {
		return b.change(e, l)
	}
	same, ready := !e.unwanted && e.equal(l), l.mayBeTried(now)
	news := e.unsure || l.Due.Sub(e.Due).Abs() >= time.Second
	e.Leaving, e.unwanted = l, false
	if e.inFlight {
		return !ready && e.cancel(ErrWithdrawn)
	}
	if !same || e.unsure && ready {
		b.goOn(e, ready, news)
	}
	return false
}

// change applies that a pod leaves in another way, and reports whether its try in flight must be cancelled first.
func (b *Backlog) change(e *Eviction, l Leaving) (cancel bool) {
	e.Leaving, e.unwanted = l, false
	if e.inFlight {
		return b.there(e.UID) && e.cancel(ErrWithdrawn)
	}
	b.move(e)
	return false
}

// move begins an eviction in another lane.
func (b *Backlog) move(e *Eviction) {
	b.take(e)
	e.group.leave()
	e.group = b.lanes[e.Lane].join(e.Group)
	b.renew(e, e.Leaving.from())
}

// goOn makes an eviction wait again after a change of its pod. It remains the same eviction as long as it may be tried.
// A postponed first try is due at once if there is news. An eviction that was tried keeps its backoff while it is held.
func (b *Backlog) goOn(e *Eviction, ready, news bool) {
	waits, lane := e.in, e.group.lane
	b.take(e)
	same := ready && waits != nil && !e.began.IsZero()
	switch {
	case waits == &lane.spared:
		e.began = time.Time{}
		b.retry(e, e.rested)
	case same && waits == &lane.failed, !same && e.Tries > 0 && !news:
		b.retry(e, e.rested)
	case same && waits == &lane.pending && news:
		b.wait(e, e.Leaving.from())
	case same:
		b.put(e, waits)
	default:
		b.renew(e, e.Leaving.from())
	}
}

// withdraw takes into account that a pod may stay now. It reports whether the eviction is remembered anyway, and
// whether it is in flight and must be cancelled.
func (b *Backlog) withdraw(e *Eviction) (remembered, cancel bool) {
	switch {
	case e.inFlight:
		e.unwanted = true
		return true, b.there(e.UID) && e.cancel(ErrWithdrawn)
	case e.unwanted:
		return true, false
	}
	b.take(e)
	return b.spare(e), false
}

// spare ends the eviction of a pod that may stay. It reports whether the eviction is remembered because it was refused.
func (b *Backlog) spare(e *Eviction) (remembered bool) {
	if e.Refuser == "" {
		e.group.leave()
		return false
	}
	e.unwanted, e.Memo = true, nil
	b.put(e, &e.group.lane.spared)
	return true
}

func (b *Backlog) remember(node string, leaving map[types.UID]*Eviction) {
	if b.nodes[node] = leaving; len(leaving) == 0 {
		delete(b.nodes, node)
	}
}

func (l *lane) join(name string) *group {
	g := l.groups[name]
	if g == nil {
		g = &group{lane: l, name: name, firsts: evictions(first), retries: evictions(sooner)}
		l.groups[name] = g
	}
	g.members++
	return g
}

func (g *group) leave() {
	if g.members--; g.members == 0 {
		delete(g.lane.groups, g.name)
	}
}

// forget ends an eviction.
func (b *Backlog) forget(e *Eviction) {
	b.drop(e)
	e.group.leave()
}

func (b *Backlog) drop(e *Eviction) {
	delete(b.nodes[e.Node], e.UID)
	b.remember(e.Node, b.nodes[e.Node])
}

// renew starts or restarts an eviction as of an instant.
func (b *Backlog) renew(e *Eviction, from time.Time) {
	e.Tries, e.Refuser, e.Memo, e.began, e.unsure = 0, "", nil, time.Time{}, false
	b.wait(e, from)
}

// wait makes an eviction wait until an instant, or until it is no longer held.
func (b *Backlog) wait(e *Eviction, from time.Time) {
	e.from = from
	if !e.Answer.Held {
		b.put(e, &e.group.lane.pending)
	}
}

// retry makes a failed eviction wait until its backoff is over and its answer allows a try.
func (b *Backlog) retry(e *Eviction, rested time.Time) {
	e.rested, e.from = rested, instant.Later(rested, e.Leaving.from())
	if !e.Answer.Held {
		b.put(e, &e.group.lane.failed)
	}
}

func (b *Backlog) put(e *Eviction, in *ordered[*Eviction]) {
	e.in = in
	in.put(e)
	e.group.order()
}

func (b *Backlog) take(e *Eviction) {
	if e.in != nil {
		e.in.take(e)
		e.in = nil
		e.group.order()
	}
}

// order puts a group in the order of turns, or takes it out.
func (g *group) order() {
	l := g.lane
	room := l.limits.PerGroup == 0 || g.inFlight < l.limits.PerGroup
	l.ready.keep(g, room && !g.hangs && !g.firsts.empty())
	l.careful.keep(g, room && (g.hangs && !g.firsts.empty() || !g.retries.empty()))
}

// Next returns the eviction to try now, which is then in flight until Done. If there is none, it returns when to call
// Next and Excess again, unless Set or Done is called earlier; zero means only after one of these. That instant may be
// now, because one call does a limited amount of work. The lanes take turns.
func (b *Backlog) Next(now time.Time) (_ *Eviction, again time.Time) {
	for range b.lanes {
		l := b.lanes[b.turn]
		b.turn = (b.turn + 1) % Lane(len(b.lanes))
		e, then := b.next(l, now)
		if e != nil {
			return e, time.Time{}
		}
		again = instant.Next(again, then)
	}
	return nil, again
}

// next is Next for one lane.
func (b *Backlog) next(l *lane, now time.Time) (_ *Eviction, again time.Time) {
	b.wake(l, now)
	young, retries, again := l.young(now)
	if young < l.limits.Prompt && len(l.inFlight) < l.limits.Prompt+l.limits.Slow {
		switch {
		case retries < l.limits.Retries && !l.careful.empty():
			return b.begin(l.careful.first(), true, now), time.Time{}
		case !l.ready.empty():
			return b.begin(l.ready.first(), false, now), time.Time{}
		}
	}
	if !l.pending.empty() {
		again = instant.Next(again, l.pending.first().from)
	}
	if !l.failed.empty() {
		again = instant.Next(again, instant.Later(l.failed.first().from, l.paced))
	}
	if !l.spared.empty() {
		again = instant.Next(again, l.spared.first().refused.Add(rememberRefusal))
	}
	return nil, again
}

// young counts the evictions that hold a place and the retries among them, and returns when the first becomes slow.
func (l *lane) young(now time.Time) (young, retries int, slow time.Time) {
	for _, e := range l.inFlight {
		at := e.began.Add(l.limits.Patience)
		if !at.After(now) {
			continue
		}
		young++
		slow = instant.Next(slow, at)
		if e.retry {
			retries++
		}
	}
	return young, retries, slow
}

// wake moves evictions that may be tried now to the order of their group, and forgets old refusals.
func (b *Backlog) wake(l *lane, now time.Time) {
	for range movesPerCall {
		if l.pending.empty() || l.pending.first().from.After(now) {
			break
		}
		e := l.pending.first()
		b.take(e)
		b.put(e, e.turn())
	}
	if !l.failed.empty() && !instant.Later(l.failed.first().from, l.paced).After(now) {
		e := l.failed.first()
		b.take(e)
		b.put(e, &e.group.retries)
		l.paced = now.Add(l.limits.Pace)
	}
	for range movesPerCall {
		if l.spared.empty() || l.spared.first().refused.Add(rememberRefusal).After(now) {
			break
		}
		e := l.spared.first()
		b.take(e)
		b.forget(e)
	}
}

// begin starts a try of the group whose turn it is.
func (b *Backlog) begin(g *group, retry bool, now time.Time) *Eviction {
	from := &g.firsts
	if retry && (!g.hangs || g.firsts.empty()) {
		from = &g.retries
	}
	e, l := from.first(), g.lane
	l.turns++
	g.served = l.turns
	b.take(e)
	e.inFlight, e.began, e.retry, e.unsure, l.begun = true, now, retry, false, now
	l.inFlight = append(l.inFlight, e)
	g.inFlight++
	g.order()
	return e
}

// Done ends a try that Next started.
func (b *Backlog) Done(e *Eviction, o Outcome, now time.Time) {
	l := e.group.lane
	l.inFlight = slices.DeleteFunc(l.inFlight, func(f *Eviction) bool { return f == e })
	e.group.inFlight--
	e.group.order()
	withdrawn := errors.Is(e.cancelled, ErrWithdrawn)
	b.learn(e, o, withdrawn)
	e.inFlight, e.cancelled, e.hung = false, nil, o.kind == hung
	if o.kind == failed {
		e.Tries++
		e.Refuser, e.refused = o.refuser, now
	}
	switch {
	case o.kind == over:
		b.forget(e)
	case e.unwanted:
		if o.kind == failed {
			e.rested = now.Add(o.after)
		}
		if !b.spare(e) {
			b.drop(e)
		}
	case b.lanes[e.Lane] != l:
		b.move(e)
	default:
		b.again(e, o, withdrawn, now)
	}
}

// again makes an eviction wait for its next try.
func (b *Backlog) again(e *Eviction, o Outcome, withdrawn bool, now time.Time) {
	switch {
	case withdrawn && o.kind != failed && e.Tries > 0: // the pod must leave again, and its backoff goes on
		b.retry(e, instant.Later(e.rested, now))
	case withdrawn && o.kind != failed:
		b.renew(e, instant.Later(e.Leaving.from(), now))
	case o.kind == later, o.kind == unsure:
		e.unsure = o.kind == unsure
		b.wait(e, now.Add(o.after))
	case o.kind == hung:
		e.Tries, e.from, e.rested, e.Refuser = e.Tries+1, now, now, ""
		b.put(e, &e.group.retries)
	default:
		b.retry(e, now.Add(o.after))
	}
}

// learn applies what the end of a try tells about its group. A pod that hangs again says nothing new, nor does a try
// that did not finish.
func (b *Backlog) learn(e *Eviction, o Outcome, withdrawn bool) {
	again := o.kind == hung && e.hung
	if g := e.group; !withdrawn && !again && o.kind != later && o.kind != unsure && !e.began.Before(g.judged) {
		g.judged, g.hangs = e.began, o.kind == hung
		g.order()
	}
}

// Excess returns the evictions to cancel because more than the limit of their lane are slow.
func (b *Backlog) Excess(now time.Time) (cancel []*Eviction) {
	for _, l := range b.lanes {
		cancel = append(cancel, l.excess(now)...)
	}
	return cancel
}

func (l *lane) excess(now time.Time) (cancel []*Eviction) {
	if len(l.inFlight) <= l.limits.Slow {
		return nil
	}
	var slow []*Eviction
	of := map[*group]int{}
	for _, e := range l.inFlight {
		if e.cancelled == nil && !e.began.Add(l.limits.Patience).After(now) {
			slow = append(slow, e)
			of[e.group]++
		}
	}
	for len(slow) > l.limits.Slow {
		victim := 0
		for i, e := range slow { // they are in the order in which they began: the last of equals
			if of[e.group] >= of[slow[victim].group] {
				victim = i
			}
		}
		e := slow[victim]
		e.cancel(ErrNoRoom)
		of[e.group]--
		cancel, slow = append(cancel, e), slices.Delete(slow, victim, victim+1)
	}
	return cancel
}

// Stop returns the evictions to cancel at the end of the process because they have been in flight for longer than a
// limit.
func (b *Backlog) Stop(limit time.Duration, now time.Time) (cancel []*Eviction) {
	for _, l := range b.lanes {
		for _, e := range l.inFlight {
			if !e.began.Add(limit).After(now) && e.cancel(ErrNoRoom) {
				cancel = append(cancel, e)
			}
		}
	}
	return cancel
}
