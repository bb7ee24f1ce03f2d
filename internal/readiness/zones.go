// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// ExcludedFromDisruption is the label of nodes that do not count when the state of a zone is told.
const ExcludedFromDisruption = "node.kubernetes.io/exclude-disruption"

// Zones counts the nodes of each zone that are not ready, and says whose turn it is to be tainted NoExecute. It calls
// nobody: what follows from a change is returned as news. Safe for concurrent use.
type Zones struct {
	policy Policy
	log    logr.Logger

	mu        sync.Mutex
	begun     bool // all nodes were counted once: of some of them alone no state can be told
	members   map[string]member
	zones     map[string]*zone
	full      bool // every zone is fully disrupted: nobody is tainted NoExecute
	disrupted bool // and that was certain once, of every node: nobody keeps such a taint either
}

// member is a node as it counts in its zone.
type member struct {
	zone   string
	counts bool     // it is not excluded from disruption checks
	ready  bool     // it says so
	heard  Standing // when all were counted last
}

func (m member) down() bool { return !m.ready || m.heard != Heard }

// unsure: it counts as not ready, but may be. That holds others back, and takes nothing off.
func (m member) unsure() bool { return m.ready && m.heard == Doubtful }

// News is what follows from a change.
type News struct {
	Wake      []string // the nodes whose plan can be another
	Recovered bool     // every zone was fully disrupted, and is no longer
}

// NewZones returns zones that know of no node.
func NewZones(policy Policy, log logr.Logger) *Zones {
	return &Zones{policy: policy, log: log, members: map[string]member{}, zones: map[string]*zone{}}
}

// Turn is the answer to a node that asks to be tainted NoExecute.
type Turn struct {
	// Granted: it may be tainted now.
	Granted bool
	// Wait is how long to wait before asking again; zero: until it is woken.
	Wait time.Duration
	// Held says what holds it back.
	Held Held
	// Next is the node that is next now, if the turn made it so.
	Next []string
}

// Put notes what a node's object says. It may show that the node is heard again; that it is not is for a count of all
// to say.
func (z *Zones) Put(node *corev1.Node, is Standing, now time.Time) News {
	z.mu.Lock()
	defer z.mu.Unlock()
	known, seen := z.members[node.Name]
	next := memberOf(node)
	next.heard = min(known.heard, is)
	if seen && known == next {
		return News{}
	}
	var moved []string
	if seen && known.zone != next.zone {
		moved = z.leave(node.Name, known.zone)
	}
	z.set(node.Name, next)
	return z.evaluate(now, moved)
}

// Remove notes that a node is gone.
func (z *Zones) Remove(name string, now time.Time) News {
	z.mu.Lock()
	defer z.mu.Unlock()
	known, seen := z.members[name]
	if !seen {
		return News{}
	}
	z.uncount(known)
	next := z.leave(name, known.zone)
	delete(z.members, name)
	return z.evaluate(now, next)
}

// Count notes which nodes are not heard, all at once: what many have in common must be known before the first is
// tainted.
func (z *Zones) Count(unheard map[string]Standing, now time.Time) News {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.evaluate(now, z.countAll(unheard))
}

func (z *Zones) countAll(unheard map[string]Standing) (changed []string) {
	for name, m := range z.members {
		if m.heard != unheard[name] {
			m.heard = unheard[name]
			z.set(name, m)
			changed = append(changed, name)
		}
	}
	return changed
}

// Begin begins to tell states, of the nodes that were put. The latest turn of a zone is the one that the taints of its
// nodes tell of, so that a restart gives no other. The nodes may be a little older than what was put and removed since.
func (z *Zones) Begin(nodes []*corev1.Node, unheard map[string]Standing, seen verdict.Sight) News {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.begun = true
	turns := map[string]time.Time{}
	for _, node := range nodes {
		key := topology.GetZoneKey(node)
		if at := taintedAt(node); at.After(turns[key]) {
			turns[key] = at
		}
	}
	told := z.evaluate(seen.At, z.countAll(unheard)) // since its latest turn a zone has had the rate that it has now
	for key, at := range turns {
		z.zone(key).limiter.AllowN(seen.Start(at.Add(-time.Second)), 1) // from the beginning of that second
	}
	return told
}

func memberOf(node *corev1.Node) member {
	_, excluded := node.Labels[ExcludedFromDisruption]
	return member{zone: topology.GetZoneKey(node), counts: !excluded, ready: IsReady(node)}
}

// Silent reports whether a node was silent when all were counted last.
func (z *Zones) Silent(name string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.members[name].heard == Silent
}

// AllDisrupted reports whether it is certain that every zone is fully disrupted.
func (z *Zones) AllDisrupted() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.disrupted
}

// Turn asks whether a node may be tainted NoExecute now. A turn that was granted stays so until it is used or given up,
// so that a patch that fails costs no second one. A node that is not known, as it went while it was looked at, gets
// into no line.
func (z *Zones) Turn(name string, now time.Time) Turn {
	z.mu.Lock()
	defer z.mu.Unlock()
	known, seen := z.members[name]
	if !seen {
		return Turn{}
	}
	key := known.zone
	at := z.zone(key)
	if at.rate > 0 && now.Before(at.granted[name]) {
		return Turn{Granted: true}
	}
	if !slices.Contains(at.line, name) {
		at.line = append(at.line, name)
	}
	first := at.line[0] == name
	if first && at.ripe(now) && at.limiter.AllowN(now, 1) {
		next := z.leave(name, key)
		at.granted[name] = now.Add(time.Duration(float64(time.Second) / float64(at.rate)))
		return Turn{Granted: true, Next: next}
	}
	turn := Turn{Held: z.held(key)}
	if at.rate > 0 && first {
		turn.Wait = at.ripeIn(now)
	}
	return turn
}

// Used notes that a node was tainted in its turn. The turn stays granted until the node is seen with the
// taint: until then it may be looked at again as it was before.
func (z *Zones) Used(name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if known, seen := z.members[name]; seen {
		at := z.zone(known.zone)
		if _, granted := at.granted[name]; granted {
			at.tainted++
		}
	}
}

// GiveUp notes that a node need not be tainted any more, and returns the node that is next then.
func (z *Zones) GiveUp(name string) []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	if known, seen := z.members[name]; seen {
		return z.leave(name, known.zone)
	}
	return nil
}

// Status is how a zone is.
type Status struct {
	// Key is the zone as upstream's metrics name it, and Name as people do.
	Key, Name string
	State     State
	// Size is the number of nodes that count, and NotReady of those of them that are not ready.
	Size, NotReady int
	// Rate is how many may be tainted per second.
	Rate float32
	// Tainted is how many were tainted in their turn, and Held how many wait for theirs.
	Tainted, Held int
}

// All returns how each zone is.
func (z *Zones) All() []Status {
	z.mu.Lock()
	defer z.mu.Unlock()
	all := make([]Status, 0, len(z.zones))
	for key, at := range z.zones {
		status := Status{
			Key: key, Name: ZoneName(key), State: at.state, Size: at.size, NotReady: at.notReady,
			Rate: at.rate, Tainted: at.tainted, Held: len(at.line),
		}
		if !z.begun { // whoever stands by taints nobody
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
			state: Normal, rate: z.policy.Rate, granted: map[string]time.Time{},
			limiter: rate.NewLimiter(rate.Limit(z.policy.Rate), 1),
		}
		z.zones[key] = known
	}
	return known
}

// set counts a node as it is now.
func (z *Zones) set(name string, m member) {
	if known, seen := z.members[name]; seen {
		z.uncount(known)
	}
	z.members[name] = m
	z.zone(m.zone).add(m, 1)
}

func (z *Zones) uncount(m member) { z.zone(m.zone).add(m, -1) }

// leave takes a node out of the line of its zone, and returns the one that is next then.
func (z *Zones) leave(name, key string) []string {
	at := z.zone(key)
	delete(at.granted, name)
	i := slices.Index(at.line, name)
	if i < 0 {
		return nil
	}
	at.line = slices.Delete(at.line, i, i+1)
	if i > 0 {
		return nil
	}
	return at.next()
}

// evaluate tells the state and rate of each zone from its counts, and what follows.
func (z *Zones) evaluate(now time.Time, wake []string) News {
	if !z.begun {
		return News{}
	}
	told := News{Wake: wake}
	was := z.disrupted
	z.full = z.everyZoneFull()
	z.disrupted = z.full && (was || z.everybodyIsSure())
	for key, at := range z.zones {
		if z.retell(key, at, now) {
			told.Wake = append(told.Wake, at.next()...)
		}
	}
	if z.disrupted == was {
		return told
	}
	if z.disrupted {
		z.log.Info("Every zone is fully disrupted, so the control plane is the likelier culprit: " +
			"NoExecute taints for readiness are taken off, and none is set")
	} else {
		z.log.Info("Some nodes are ready again: every node has its grace period anew, and zones taint at their rate")
		told.Recovered = true
	}
	for name := range z.members {
		told.Wake = append(told.Wake, name)
	}
	return told
}

// retell tells the state and rate of a zone, and reports whether its rate has changed.
func (z *Zones) retell(key string, at *zone, now time.Time) bool {
	state := z.policy.State(at.size, at.notReady)
	next := z.policy.RateOf(state, at.size)
	if z.full {
		next = 0
	}
	if state != at.state {
		z.log.Info("A zone is in another state", "zone", ZoneName(key), "state", state, "before", at.state,
			"nodes", at.size, "notReady", at.notReady, "nodesPerSecond", next)
	}
	at.state = state
	if next == at.rate {
		return false
	}
	at.setRate(next, now)
	return true
}

// everyZoneFull reports whether all zones that have nodes are fully disrupted.
func (z *Zones) everyZoneFull() bool {
	found := false
	for _, at := range z.zones {
		if at.size == 0 {
			continue
		}
		if z.policy.State(at.size, at.notReady) != FullDisruption {
			return false
		}
		found = true
	}
	return found
}

func (z *Zones) everybodyIsSure() bool {
	for _, at := range z.zones {
		if at.unsure > 0 {
			return false
		}
	}
	return true
}

func (z *Zones) held(key string) Held {
	at := z.zone(key)
	return Held{
		Zone: ZoneName(key), State: at.state,
		Size: at.size, NotReady: at.notReady, Rate: at.rate, AllZones: z.full,
	}
}
