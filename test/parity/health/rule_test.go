// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// rule predicts ours: whatever follows from what happens follows at once, and silence counts from the instant at which
// the last sign of life was seen. Ours notices it at its next echo. A NoExecute taint waits for a token of its zone.
//
// Where several nodes began to wait at the same instant it follows ours: who is first of them is a
// matter of luck.
type rule struct {
	cluster *cluster
	looks   outcome
	ours    outcome // what is followed
	now     time.Duration
	began   time.Duration // the process that runs
	running bool

	heartbeats map[string]sign
	renewals   map[string]sign
	lanes      map[string]*lane
	allFull    bool
}

// sign is a sign of life: when it was seen, and what it said.
type sign struct {
	seen time.Duration
	said metav1.Time
}

// lane is where the nodes of a zone wait for a token.
type lane struct {
	tokens

	line  []waiter
	asked string        // who is first in line and has asked for the token
	due   time.Duration // when it asks again
	paced time.Duration // when the rate changed last
}

type waiter struct {
	name  string
	since time.Duration
}

func predictOurs(h *history, ours outcome) outcome {
	r := &rule{cluster: newCluster(), looks: outcome{}, ours: ours}
	r.cluster.nodeChanged = func(before, after *corev1.Node) {
		if after == nil {
			r.looks.note(before.Name, nil, r.now)
			delete(r.heartbeats, before.Name)
			return
		}
		r.looks.note(after.Name, after, r.now)
		r.seeNode(after)
	}
	r.cluster.leaseChanged = func(before, after *coordinationv1.Lease) {
		if after == nil {
			delete(r.renewals, before.Name)
			return
		}
		r.seeLease(after)
	}
	r.cluster.begin(h)
	for _, o := range h.occasions() {
		r.goOnUntil(o.at)
		switch {
		case o.starts:
			r.start()
		case isRestart(o):
			r.running = false
		default:
			r.cluster.happen(o)
		}
		r.applyDue()
	}
	r.goOnUntil(h.end())
	return r.looks
}

// goOnUntil does what follows by time alone.
func (r *rule) goOnUntil(until time.Duration) {
	for r.running {
		next := r.next()
		if next > until {
			break
		}
		r.now = max(next, r.now+1)
		r.applyDue()
	}
	r.now = until
}

func (r *rule) start() {
	if r.running {
		return
	}
	r.running, r.began = true, r.now
	r.heartbeats, r.renewals = map[string]sign{}, map[string]sign{}
	r.lanes, r.allFull = map[string]*lane{}, false
	for _, node := range r.cluster.nodes {
		r.seeNode(node)
	}
	for _, lease := range r.cluster.leases {
		r.seeLease(lease)
	}
	r.evaluate()
	for key, lane := range r.lanes {
		lane.goOn(r.cluster, key)
	}
}

func (r *rule) seeNode(node *corev1.Node) {
	if !r.running {
		return
	}
	known, seen := r.heartbeats[node.Name]
	next := sign{r.now, heartbeat(node)}
	if seen && next.said.Equal(&known.said) {
		return
	}
	if !seen && next.said.IsZero() {
		next.seen = min(created(node).Truncate(sec)+sec, r.now) // the API tells the second in which it was created
	}
	r.heartbeats[node.Name] = next
}

func (r *rule) seeLease(lease *coordinationv1.Lease) {
	if !r.running {
		return
	}
	said := metav1.NewTime(lease.Spec.RenewTime.Time)
	if known, seen := r.renewals[lease.Name]; !seen || !known.said.Equal(&said) {
		r.renewals[lease.Name] = sign{r.now, said}
	}
}

// echoEach is how long it takes from one echo to the next, and extraGrace what a node is given by a process that begins.
const (
	echoEach   = sec
	extraGrace = 20 * sec
)

// silentAt is the echo after the grace period of a node; never if it is Unknown already.
func (r *rule) silentAt(node *corev1.Node) time.Duration {
	if readyStatus(node) == corev1.ConditionUnknown {
		return never
	}
	seen := r.heartbeats[node.Name].seen
	if renewed, ok := r.renewals[node.Name]; ok {
		seen = max(seen, renewed.seen)
	}
	over := seen + graceOf(node) - r.began
	over = max(over, min(over+extraGrace, extraGrace-1))
	return r.began + over - mod(over, echoEach) + echoEach
}

func mod(a, b time.Duration) time.Duration { return (a%b + b) % b }

// never is after the end of every history.
const never = time.Duration(1<<63 - 1)

// next is when something follows by time alone.
func (r *rule) next() time.Duration {
	next := never
	for _, node := range r.cluster.nodes {
		if at := r.silentAt(node); at != never {
			next = min(next, at+1)
		}
	}
	for _, lane := range r.lanes {
		if len(lane.line) > 0 && lane.rate > 0 {
			next = min(next, lane.due)
			if at := lane.tells(); at > r.now {
				next = min(next, at)
			}
		}
	}
	return next
}

// applyDue applies everything that is due at this instant.
func (r *rule) applyDue() {
	if !r.running {
		return
	}
	for name, node := range r.cluster.nodes {
		if r.now > r.silentAt(node) {
			r.cluster.setUnknown(name)
		}
	}
	r.evaluate()
	for _, name := range r.cluster.names() {
		r.cluster.taintNoSchedule(name)
		r.taintNoExecute(name)
	}
	for _, lane := range r.lanes {
		r.grant(lane)
	}
}

func (r *rule) evaluate() {
	zones := r.cluster.tallies()
	was := r.allFull
	r.allFull = allFull(zones)
	for _, node := range r.cluster.nodes {
		r.lane(zoneOf(node))
	}
	for key, lane := range r.lanes {
		zone := zones[key]
		rate := zone.rate(zone.state())
		if r.allFull {
			rate = 0
		}
		if rate != lane.rate {
			lane.setRate(rate, r.now)
			lane.asked, lane.paced = "", r.now
		}
		lane.line = slices.DeleteFunc(lane.line, func(w waiter) bool { return r.cluster.nodes[w.name] == nil })
	}
	if was && !r.allFull {
		for name, known := range r.heartbeats {
			if _, renewed := r.renewals[name]; renewed || !known.said.IsZero() {
				r.heartbeats[name] = sign{r.now, known.said}
			}
		}
	}
}

func (r *rule) lane(zone string) *lane {
	if r.lanes[zone] == nil {
		r.lanes[zone] = &lane{tokens: newTokens()}
	}
	return r.lanes[zone]
}

func (r *rule) taintNoExecute(name string) {
	node := r.cluster.nodes[name]
	lane, key := r.lane(zoneOf(node)), readinessTaint(readyStatus(node))
	has := owned(node, corev1.TaintEffectNoExecute, noExecuteKeys) != ""
	switch {
	case readyStatus(node) == "":
	case key == "":
		r.cluster.setNoExecute(name, "", r.now)
		lane.leave(name)
	case r.allFull:
		r.cluster.setNoExecute(name, "", r.now)
		lane.join(name, r.now)
	case has:
		r.cluster.exchangeNoExecute(name, key, r.now)
		lane.leave(name)
	default:
		lane.join(name, r.now)
	}
}

func (r *rule) grant(lane *lane) {
	for len(lane.line) > 0 && lane.rate > 0 && lane.asks(r.now) {
		lane.take(r.now)
		name := lane.line[0].name
		for _, waiter := range lane.line {
			if waiter.since == lane.line[0].since && r.ours.taintedAt(waiter.name, r.now) {
				name = waiter.name
				break
			}
		}
		lane.leave(name)
		r.cluster.setNoExecute(name, readinessTaint(readyStatus(r.cluster.nodes[name])), r.written(name))
	}
}

// written returns the timeAdded of a taint that is set now: the latest second that the API server's clock can show.
// Only ours knows whether that is already the next second.
func (r *rule) written(name string) time.Duration {
	for _, l := range r.ours[name] {
		if (l.at-r.now).Abs() <= exactly && l.since == r.now.Truncate(sec)+sec {
			return l.since
		}
	}
	return r.now
}

func (l *lane) join(name string, at time.Duration) {
	if !slices.ContainsFunc(l.line, func(w waiter) bool { return w.name == name }) {
		l.line = append(l.line, waiter{name, at})
	}
}

func (l *lane) leave(name string) {
	l.line = slices.DeleteFunc(l.line, func(w waiter) bool { return w.name == name })
}

// tells is when the first in line says why it waits, if it still does.
func (l *lane) tells() time.Duration { return max(l.line[0].since, l.paced) + sec }

// asks reports whether the first in line asks for its token now and gets it: it asks when it becomes the first, when
// the rate changes, when it says why it waits, and then, a millisecond late, when there is a token to give.
func (l *lane) asks(now time.Duration) bool {
	first := l.line[0].name
	if l.asked == first && now < l.due && now != l.tells() {
		return false
	}
	missing := 1 - l.limiter.TokensAt(arena.Epoch.Add(now))
	if missing <= 1-wholeToken {
		return true
	}
	l.asked, l.due = first, now+time.Duration(missing/float64(l.rate)*float64(sec))+ms
	return false
}
