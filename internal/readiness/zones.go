// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"iter"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// ExcludedFromDisruption is the label of nodes that do not count for the state of a zone.
const ExcludedFromDisruption = "node.kubernetes.io/exclude-disruption"

// Zones counts the nodes of each zone that are not ready, and decides which of them may be tainted NoExecute. It has no
// callbacks: the consequences of a change are returned as news. It is not safe for concurrent use.
type Zones struct {
	policy    Policy
	begun     bool // all nodes were counted once; some of them alone do not tell a state
	zones     map[string]*zone
	full      bool // every zone is fully disrupted, and no node is tainted NoExecute
	disrupted bool // that was certain for every node once, so no node keeps such a taint either
}

// Member is a node as its zone counts it. The caller keeps one for each node, and only Zones changes it.
type Member struct {
	Name string

	zone     *zone     // nil if it is not counted
	counts   bool      // it is not excluded from disruption checks
	ready    bool      // whether it says so
	standing Standing  // when all were counted last
	token    time.Time // until when it has its zone's token, which is until the next one
}

// Silent reports whether the node was silent when all nodes were last counted.
func (m *Member) Silent() bool { return m.standing == Silent }

// News are the consequences of a change.
type News struct {
	Wake []string // the nodes whose plans can change
	All  bool     // the plans of all nodes can change
	// Disrupted means that now every zone is certainly fully disrupted. Recovered means that this has ended.
	Disrupted, Recovered bool
	States               []StateChange
}

// Join adds other news.
func (n *News) Join(other News) {
	n.Wake = append(n.Wake, other.Wake...)
	n.All = n.All || other.All
	n.Disrupted, n.Recovered = n.Disrupted || other.Disrupted, n.Recovered || other.Recovered
	n.States = append(n.States, other.States...)
}

// StateChange is a change of the state of a zone.
type StateChange struct {
	Status

	Before State
}

// NewZones returns zones without nodes.
func NewZones(policy Policy) *Zones { return &Zones{policy: policy, zones: map[string]*zone{}} }

// Put notes what a node's object says. It may show that the node is heard again, but only a count of all nodes shows
// that it is not.
func (z *Zones) Put(m *Member, node *corev1.Node, is Standing, now time.Time) News {
	next := *m
	_, excluded := node.Labels[ExcludedFromDisruption]
	next.zone, next.counts, next.ready = z.zone(topology.GetZoneKey(node)), !excluded, IsReady(node)
	next.standing = min(m.standing, is)
	if *m == next {
		return News{}
	}
	var moved []string
	if m.zone != nil {
		m.zone.add(m, -1)
	}
	if m.zone != nil && m.zone != next.zone {
		moved = m.zone.leave(m)
		next.token = m.token
	}
	*m = next
	m.zone.add(m, 1)
	return z.evaluate(now, moved)
}

// Remove notes that a node is gone.
func (z *Zones) Remove(m *Member, now time.Time) News {
	if m.zone == nil {
		return News{}
	}
	m.zone.add(m, -1)
	next := m.zone.leave(m)
	*m = Member{Name: m.Name}
	return z.evaluate(now, next)
}

// Count notes the standings of all nodes at once, because what many nodes have in common must be known before the first
// is tainted.
func (z *Zones) Count(all iter.Seq2[*Member, Standing], now time.Time) News {
	var changed []string
	for m, is := range all {
		if m.zone == nil || m.standing == is {
			continue
		}
		m.zone.add(m, -1)
		m.standing = is
		m.zone.add(m, 1)
		changed = append(changed, m.Name)
	}
	return z.evaluate(now, changed)
}

// Begin counts the nodes that were put, and starts to derive states. The taints of its nodes tell when a zone gave its
// latest token, so that a restart gives no extra one. The nodes may be slightly older than what was put and removed
// since.
func (z *Zones) Begin(nodes []*corev1.Node, all iter.Seq2[*Member, Standing], seen verdict.Sight) News {
	z.begun = true
	tokens := map[string]time.Time{}
	for _, node := range nodes {
		key := topology.GetZoneKey(node)
		if at := taintedAt(node); at.After(tokens[key]) {
			tokens[key] = at
		}
	}
	told := z.Count(all, seen.At) // assume that the zone has had its current rate since its latest token
	for key, at := range tokens {
		z.zone(key).limiter.AllowN(seen.Start(at.Add(-time.Second)), 1) // from the beginning of that second
	}
	return told
}

// AllDisrupted reports whether every zone is certainly fully disrupted.
func (z *Zones) AllDisrupted() bool { return z.disrupted }

// Answer is what its zone answers to a node's plan.
type Answer struct {
	// Held is why the node waits for a token; nil if it does not.
	Held *Held
	// Wait is how long to wait before planning again. Zero means until woken.
	Wait time.Duration
	// Next is the node that the plan made the next.
	Next []string
}

// Plan plans what a node should become at an instant. The plan is made once, with the token that the node's zone can
// give it. A plan that needs no token gives it back, and a plan that needs a token and cannot have one waits in line. A
// token that was taken stays with the node until the node is seen with its taint or the next token comes, so that a
// failed patch costs no second token. The caller sets Granted in the facts if the node has already taken its token.
func (z *Zones) Plan(m *Member, f Facts, now time.Time) (Plan, Answer) {
	f.Disrupted = z.disrupted
	had := f.Granted || m.zone != nil && m.zone.rate > 0 && now.Before(m.token)
	f.Granted = had || m.zone != nil && m.zone.offers(m, now)
	p := f.Plan()
	switch {
	case m.zone == nil, len(p.Conditions) > 0: // nothing more to plan now
		return p, Answer{}
	case p.Stale && !p.Takes: // planned again after an echo, without making other nodes wait
		return p, Answer{Next: m.zone.pass(m)}
	case p.Asks:
		return p, z.wait(m, now)
	case !p.Takes:
		return p, Answer{Next: m.zone.leave(m)}
	case had:
		return p, Answer{}
	}
	return p, Answer{Next: m.zone.take(m, now)}
}

// wait puts a node in the line of its zone.
func (z *Zones) wait(m *Member, now time.Time) Answer {
	at := m.zone
	if !slices.Contains(at.line, m) {
		at.line = append(at.line, m)
	}
	held := z.held(m)
	answer := Answer{Held: &held}
	if at.rate > 0 && at.line[0] == m {
		answer.Wait = at.ripeIn(now)
	}
	return answer
}

// Used notes that a node was tainted with its token. The node keeps the token until it is seen with the taint, because
// until then it may be planned again as it was before.
func (z *Zones) Used(m *Member) {
	if m.zone != nil && !m.token.IsZero() {
		m.zone.tainted++
	}
}

// Status is the status of a zone.
type Status struct {
	// Key is the name of the zone in upstream's metrics, and Name the one for people.
	Key, Name string
	State     State
	// Size is the number of nodes that count, and NotReady how many of them are not ready.
	Size, NotReady int
	// Rate is how many nodes may be tainted per second.
	Rate float32
	// Tainted is how many nodes were tainted with a token, and Held how many wait for one.
	Tainted, Held int
}

// All returns the status of each zone.
func (z *Zones) All() []Status {
	all := make([]Status, 0, len(z.zones))
	for _, at := range z.zones {
		status := at.status()
		if !z.begun { // a standby taints no nodes
			status.Rate = 0
		}
		all = append(all, status)
	}
	return all
}

func (z *Zones) zone(key string) *zone {
	known, ok := z.zones[key]
	if !ok {
		known = &zone{
			key: key, state: Normal, rate: z.policy.Rate,
			limiter: rate.NewLimiter(rate.Limit(z.policy.Rate), 1),
		}
		z.zones[key] = known
	}
	return known
}

// evaluate derives the state and rate of each zone from its counts, and the news.
func (z *Zones) evaluate(now time.Time, wake []string) News {
	if !z.begun {
		return News{}
	}
	told := News{Wake: wake}
	was := z.disrupted
	full, certain := z.everyZoneFull()
	z.full, z.disrupted = full, certain || full && was
	for _, at := range z.zones {
		z.retell(at, now, &told)
	}
	told.All = z.disrupted != was
	told.Disrupted, told.Recovered = z.disrupted && !was, was && !z.disrupted
	return told
}

// retell derives the state and rate of a zone. If its rate has changed, so has the wait of the node that is next.
func (z *Zones) retell(at *zone, now time.Time, told *News) {
	before := at.state
	at.state = z.policy.State(at.size, at.notReady)
	next := z.policy.RateOf(at.state, at.size)
	if z.full {
		next = 0
	}
	if next != at.rate {
		at.setRate(next, now)
		told.Wake = append(told.Wake, at.next()...)
	}
	if at.state != before {
		told.States = append(told.States, StateChange{Status: at.status(), Before: before})
	}
}

// everyZoneFull reports whether all zones that have nodes are fully disrupted, and whether that is certain.
func (z *Zones) everyZoneFull() (full, certain bool) {
	certain = true
	for _, at := range z.zones {
		if at.size > 0 && z.policy.State(at.size, at.notReady) != FullDisruption {
			return false, false
		}
		full = full || at.size > 0
		certain = certain && at.unsure == 0
	}
	return full, full && certain
}

func (z *Zones) held(m *Member) Held {
	at := m.zone
	return Held{
		Zone: ZoneName(at.key), State: at.state,
		Size: at.size, NotReady: at.notReady, Rate: at.rate, AllZones: z.full,
	}
}
