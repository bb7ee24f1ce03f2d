// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

// excludedFromDisruption is the label of nodes that do not count when the state of a zone is told.
const excludedFromDisruption = "node.kubernetes.io/exclude-disruption"

// zones counts the nodes of each zone that are not ready, and says whose turn it is to be tainted
// NoExecute. Safe for concurrent use.
type zones struct {
	policy Policy
	log    logr.Logger
	// silent reports whether the grace period of a node is over: such a node counts as not ready even before a live
	// read has shown that it is, since what many have in common must be known before the first is tainted.
	silent func(name string, now time.Time) bool
	// wake makes a node be looked at again. It is called with the lock held.
	wake func(name string)
	// recovered is called when it is no longer certain that every zone is fully disrupted.
	recovered func(now time.Time)

	mu      sync.Mutex
	members map[string]member
	zones   map[string]*zone
	swept   time.Time // when all nodes were last looked at
	allFull bool      // every zone is fully disrupted: nobody is tainted NoExecute
	certain bool      // and that was certain once, of every node: nobody keeps such a taint either
}

// sweepEvery bounds how often all nodes are looked at because some fell silent: when 15,000 do within ten
// seconds, each of them would otherwise be a reason.
const sweepEvery = 100 * time.Millisecond

// member is a node as it counts in its zone.
type member struct {
	zone   string
	counts bool // it is not excluded from disruption checks
	ready  bool
	// suspected: it counts as not ready, but nobody knows yet whether it is. That holds others back, and takes nothing off.
	suspected bool
}

// zone is a zone that was seen once. It stays known when its nodes have gone.
type zone struct {
	size, notReady int // of the nodes that count
	suspected      int // of those that are not ready
	state          State
	rate           float32
	limiter        *rate.Limiter
	line           []string             // the nodes that wait for their turn; the first one is next
	granted        map[string]time.Time // until when: a turn lasts as long as it takes for the next one
	tainted        int                  // how many turns were used
}

func newZones(policy Policy, log logr.Logger) *zones {
	return &zones{
		policy: policy, log: log, members: map[string]member{}, zones: map[string]*zone{},
		silent: func(string, time.Time) bool { return false }, wake: func(string) {}, recovered: func(time.Time) {},
	}
}

// Turn is the answer to a node that asks to be tainted NoExecute.
type Turn struct {
	// Granted: it may be tainted now.
	Granted bool
	// Wait is how long to wait before asking again; zero: until it is woken.
	Wait time.Duration
	// Held says what holds it back.
	Held Held
}

// Held is why a node has to wait. It is comparable, to tell whether something new can be said.
type Held struct {
	Zone           string
	State          State
	Size, NotReady int
	Rate           float32
	// AllZones: every zone is fully disrupted. The control plane is the likelier culprit.
	AllZones bool
}

// put notes a node, as it is now.
func (z *zones) put(node *corev1.Node, ready bool, now time.Time) {
	z.note(node, memberOf(node, ready), now)
}

// suspect notes a node that seems silent, when nobody can tell yet whether it is.
func (z *zones) suspect(node *corev1.Node, now time.Time) {
	next := memberOf(node, false)
	next.suspected = isReady(node)
	z.note(node, next, now)
}

func (z *zones) note(node *corev1.Node, next member, now time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	known, seen := z.members[node.Name]
	if seen && known == next {
		return
	}
	if seen {
		z.uncount(known)
		if known.zone != next.zone {
			z.leave(node.Name, known.zone)
		}
	}
	z.members[node.Name] = next
	z.count(next)
	if !next.ready && now.Sub(z.swept) >= sweepEvery { // all that fell at this moment at once: states in between would cost the zone a turn
		z.countSilent(now)
	}
	z.evaluate(now)
}

// prime notes all nodes at once, before the first is looked at: of some of them alone no state can be told. The
// latest turn of a zone is the one that its taints tell of, so that a restart gives no other.
func (z *zones) prime(nodes []*corev1.Node, now time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	turns := map[string]time.Time{}
	for _, node := range nodes {
		m := memberOf(node, isReady(node))
		if known, seen := z.members[node.Name]; seen {
			z.uncount(known)
		}
		z.members[node.Name] = m
		z.count(m)
		if at := taintedAt(node); at.After(turns[m.zone]) {
			turns[m.zone] = at
		}
	}
	z.evaluate(now) // since its latest turn a zone has had the rate that it has now
	for key, at := range turns {
		if at.After(now) {
			at = now
		}
		z.zone(key).limiter.AllowN(at, 1)
	}
}

func memberOf(node *corev1.Node, ready bool) member {
	_, excluded := node.Labels[excludedFromDisruption]
	return member{zone: topology.GetZoneKey(node), counts: !excluded, ready: ready}
}

// taintedAt returns when a node was tainted NoExecute for its readiness; zero if it was not, or nobody knows.
func taintedAt(node *corev1.Node) time.Time {
	var latest time.Time
	for _, taint := range node.Spec.Taints {
		if ownsNoExecute(taint) && taint.TimeAdded != nil && taint.TimeAdded.After(latest) {
			latest = taint.TimeAdded.Time
		}
	}
	return latest
}

func isReady(node *corev1.Node) bool {
	ready := condition(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// forget notes that a node is gone.
func (z *zones) forget(name string, now time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	known, seen := z.members[name]
	if !seen {
		return
	}
	z.uncount(known)
	z.leave(name, known.zone)
	delete(z.members, name)
	z.evaluate(now)
}

// allDisrupted reports whether it is certain that every zone is fully disrupted.
func (z *zones) allDisrupted() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.certain
}

// turn asks, for a node that was put before, whether it may be tainted NoExecute now. A turn that was
// granted stays so until it is used or given up, so that a patch that fails costs no second one.
func (z *zones) turn(name string, now time.Time) Turn {
	z.mu.Lock()
	defer z.mu.Unlock()
	at := z.zone(z.members[name].zone)
	if at.rate > 0 && now.Before(at.granted[name]) {
		return Turn{Granted: true}
	}
	if !slices.Contains(at.line, name) {
		at.line = append(at.line, name)
	}
	if at.line[0] == name && at.ripe(now) {
		z.countSilent(now)
		if at.rate > 0 && slices.Contains(at.line, name) && at.limiter.AllowN(now, 1) {
			z.leave(name, z.members[name].zone)
			at.granted[name] = now.Add(time.Duration(float64(time.Second) / float64(at.rate)))
			return Turn{Granted: true}
		}
	}
	turn := Turn{Held: z.held(z.members[name].zone)}
	if at.rate > 0 && at.line[0] == name {
		turn.Wait = at.ripeIn(now)
	}
	return turn
}

// used notes that a node was tainted in its turn. The turn stays granted until the node is seen with the
// taint: until then it may be looked at again as it was before.
func (z *zones) used(name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	at := z.zone(z.members[name].zone)
	if _, granted := at.granted[name]; granted {
		at.tainted++
	}
}

// giveUp notes that a node need not be tainted any more.
func (z *zones) giveUp(name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if known, seen := z.members[name]; seen {
		z.leave(name, known.zone)
	}
}

func (z *zones) zone(key string) *zone {
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

func (z *zones) count(m member) {
	at := z.zone(m.zone)
	if !m.counts {
		return
	}
	at.size++
	if !m.ready {
		at.notReady++
	}
	if m.suspected {
		at.suspected++
	}
}

func (z *zones) uncount(m member) {
	at := z.zone(m.zone)
	if !m.counts {
		return
	}
	at.size--
	if !m.ready {
		at.notReady--
	}
	if m.suspected {
		at.suspected--
	}
}

// leave takes a node out of the line of its zone, and wakes the one that is next then.
func (z *zones) leave(name, key string) {
	at := z.zone(key)
	delete(at.granted, name)
	i := slices.Index(at.line, name)
	if i < 0 {
		return
	}
	at.line = slices.Delete(at.line, i, i+1)
	if i == 0 && len(at.line) > 0 {
		z.wake(at.line[0])
	}
}

// countSilent counts the nodes as not ready whose grace period is over.
func (z *zones) countSilent(now time.Time) {
	z.swept = now
	found := false
	for name, m := range z.members {
		if !m.ready || !z.silent(name, now) {
			continue
		}
		z.uncount(m)
		m.ready, m.suspected = false, true
		z.members[name] = m
		z.count(m)
		found = true
	}
	if found {
		z.evaluate(now)
	}
}

// evaluate tells the state and rate of each zone from its counts, and what follows.
func (z *zones) evaluate(now time.Time) {
	was := z.certain
	z.allFull = z.everyZoneFull()
	z.certain = z.allFull && (was || z.nobodyIsSuspected())
	for key, at := range z.zones {
		state := z.policy.State(at.size, at.notReady)
		next := z.policy.RateOf(state, at.size)
		if z.allFull {
			next = 0
		}
		if state != at.state {
			z.log.Info("A zone is in another state", "zone", ZoneName(key), "state", state, "before", at.state, "nodes", at.size, "notReady", at.notReady, "nodesPerSecond", next)
		}
		at.state = state
		if next != at.rate {
			at.setRate(next, now)
			if len(at.line) > 0 {
				z.wake(at.line[0])
			}
		}
	}
	if z.certain == was {
		return
	}
	if z.certain {
		z.log.Info("Every zone is fully disrupted, so the control plane is the likelier culprit: NoExecute taints for readiness are taken off, and none is set")
	} else {
		z.log.Info("Some nodes are ready again: every node has its grace period anew, and zones taint at their rate")
		z.recovered(now)
	}
	for name := range z.members {
		z.wake(name)
	}
}

func (z *zones) nobodyIsSuspected() bool {
	for _, at := range z.zones {
		if at.suspected > 0 {
			return false
		}
	}
	return true
}

// everyZoneFull reports whether all zones that have nodes are fully disrupted.
func (z *zones) everyZoneFull() bool {
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

func (z *zones) held(key string) Held {
	at := z.zone(key)
	return Held{Zone: ZoneName(key), State: at.state, Size: at.size, NotReady: at.notReady, Rate: at.rate, AllZones: z.allFull}
}

// setRate changes how fast turns come. What has gathered of a turn is kept, or one node that flaps could
// change its zone's rate again and again and keep all others from being tainted; upstream begins a new limiter
// (pkg/controller/nodelifecycle/scheduler, SwapLimiter). As there, what gathered before a time without turns
// and was not used then is lost, so that nobody is tainted at the moment at which a disruption ends.
func (at *zone) setRate(next float32, now time.Time) {
	unused := at.rate == 0 && at.limiter.TokensAt(now) >= 1
	at.rate = next
	at.limiter.SetLimitAt(now, rate.Limit(next))
	if unused {
		at.limiter.AllowN(now, 1)
	}
}

func (at *zone) ripe(now time.Time) bool { return at.rate > 0 && at.limiter.TokensAt(now) >= 1 }

// ripeIn returns how long it takes until the next turn.
func (at *zone) ripeIn(now time.Time) time.Duration {
	missing := max(1-at.limiter.TokensAt(now), 0)
	return time.Duration(missing/float64(at.rate)*float64(time.Second)) + time.Millisecond
}

// ZoneName names a zone for people: its region and zone labels.
func ZoneName(key string) string {
	if key == "" {
		return "(none)"
	}
	return strings.Replace(key, ":\x00:", "/", 1)
}
