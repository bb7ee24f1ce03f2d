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

	"github.com/taintkeeper/taintkeeper/internal/nodecache"
)

// excludedFromDisruption is the label of nodes that do not count when the state of a zone is told.
const excludedFromDisruption = "node.kubernetes.io/exclude-disruption"

// zones counts the nodes of each zone that are not ready, and says whose turn it is to be tainted NoExecute. It calls
// nobody: what follows from a change is returned as news. Safe for concurrent use.
type zones struct {
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
	heard  standing // when all were counted last
}

func (m member) down() bool { return !m.ready || m.heard != heard }

// unsure: it counts as not ready, but may be. That holds others back, and takes nothing off.
func (m member) unsure() bool { return m.ready && m.heard == doubtful }

// zone is a zone that was seen once. It stays known when its nodes have gone.
type zone struct {
	size, notReady int // of the nodes that count
	unsure         int // of those that are not ready
	state          State
	rate           float32
	limiter        *rate.Limiter
	line           []string             // the nodes that wait for their turn; the first one is next
	granted        map[string]time.Time // until when: a turn lasts as long as it takes for the next one
	tainted        int                  // how many turns were used
}

// news is what follows from a change.
type news struct {
	wake      []string // the nodes whose plan can be another
	recovered bool     // every zone was fully disrupted, and is no longer
}

func newZones(policy Policy, log logr.Logger) *zones {
	return &zones{policy: policy, log: log, members: map[string]member{}, zones: map[string]*zone{}}
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

// Held is why a node has to wait. It is comparable, to tell whether something new can be said.
type Held struct {
	Zone           string
	State          State
	Size, NotReady int
	Rate           float32
	// AllZones: every zone is fully disrupted. The control plane is the likelier culprit.
	AllZones bool
}

// put notes what a node's object says. It may show that the node is heard again; that it is not is for a count of all
// to say.
func (z *zones) put(node *corev1.Node, is standing, now time.Time) news {
	z.mu.Lock()
	defer z.mu.Unlock()
	known, seen := z.members[node.Name]
	next := memberOf(node)
	next.heard = min(known.heard, is)
	if seen && known == next {
		return news{}
	}
	var moved []string
	if seen && known.zone != next.zone {
		moved = z.leave(node.Name, known.zone)
	}
	z.set(node.Name, next)
	return z.evaluate(now, moved)
}

// remove notes that a node is gone.
func (z *zones) remove(name string, now time.Time) news {
	z.mu.Lock()
	defer z.mu.Unlock()
	known, seen := z.members[name]
	if !seen {
		return news{}
	}
	z.uncount(known)
	next := z.leave(name, known.zone)
	delete(z.members, name)
	return z.evaluate(now, next)
}

// count notes which nodes are not heard, all at once: what many have in common must be known before the first is
// tainted.
func (z *zones) count(unheard map[string]standing, now time.Time) news {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.evaluate(now, z.countAll(unheard))
}

func (z *zones) countAll(unheard map[string]standing) (changed []string) {
	for name, m := range z.members {
		if m.heard != unheard[name] {
			m.heard = unheard[name]
			z.set(name, m)
			changed = append(changed, name)
		}
	}
	return changed
}

// begin begins to tell states. The latest turn of a zone is the one that the taints of its nodes tell of, so that a
// restart gives no other.
func (z *zones) begin(nodes []*nodecache.Node, unheard map[string]standing, now time.Time) news {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.begun = true
	turns := map[string]time.Time{}
	for _, node := range nodes {
		m := memberOf(node.Node)
		z.set(node.Name, m)
		if at := taintedAt(node.Node); at.After(turns[m.zone]) {
			turns[m.zone] = at
		}
	}
	told := z.evaluate(now, z.countAll(unheard)) // since its latest turn a zone has had the rate that it has now
	for key, at := range turns {
		if at.After(now) {
			at = now
		}
		z.zone(key).limiter.AllowN(at, 1)
	}
	return told
}

func memberOf(node *corev1.Node) member {
	_, excluded := node.Labels[excludedFromDisruption]
	return member{zone: topology.GetZoneKey(node), counts: !excluded, ready: isReady(node)}
}

func isReady(node *corev1.Node) bool {
	ready := condition(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
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

// silent reports whether a node was silent when all were counted last.
func (z *zones) silent(name string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.members[name].heard == silent
}

// allDisrupted reports whether it is certain that every zone is fully disrupted.
func (z *zones) allDisrupted() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.disrupted
}

// turn asks, for a node that was put before, whether it may be tainted NoExecute now. A turn that was granted stays so
// until it is used or given up, so that a patch that fails costs no second one.
func (z *zones) turn(name string, now time.Time) Turn {
	z.mu.Lock()
	defer z.mu.Unlock()
	key := z.members[name].zone
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

// giveUp notes that a node need not be tainted any more, and returns the node that is next then.
func (z *zones) giveUp(name string) []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	if known, seen := z.members[name]; seen {
		return z.leave(name, known.zone)
	}
	return nil
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

// set counts a node as it is now.
func (z *zones) set(name string, m member) {
	if known, seen := z.members[name]; seen {
		z.uncount(known)
	}
	z.members[name] = m
	z.zone(m.zone).add(m, 1)
}

func (z *zones) uncount(m member) { z.zone(m.zone).add(m, -1) }

func (at *zone) add(m member, count int) {
	if !m.counts {
		return
	}
	at.size += count
	if m.down() {
		at.notReady += count
	}
	if m.unsure() {
		at.unsure += count
	}
}

// leave takes a node out of the line of its zone, and returns the one that is next then.
func (z *zones) leave(name, key string) []string {
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

// next returns the node that is next, if any waits.
func (at *zone) next() []string {
	if len(at.line) == 0 {
		return nil
	}
	return []string{at.line[0]}
}

// evaluate tells the state and rate of each zone from its counts, and what follows.
func (z *zones) evaluate(now time.Time, wake []string) news {
	if !z.begun {
		return news{}
	}
	told := news{wake: wake}
	was := z.disrupted
	z.full = z.everyZoneFull()
	z.disrupted = z.full && (was || z.everybodyIsSure())
	for key, at := range z.zones {
		if z.retell(key, at, now) {
			told.wake = append(told.wake, at.next()...)
		}
	}
	if z.disrupted == was {
		return told
	}
	if z.disrupted {
		z.log.Info("Every zone is fully disrupted, so the control plane is the likelier culprit: NoExecute taints for readiness are taken off, and none is set")
	} else {
		z.log.Info("Some nodes are ready again: every node has its grace period anew, and zones taint at their rate")
		told.recovered = true
	}
	for name := range z.members {
		told.wake = append(told.wake, name)
	}
	return told
}

// retell tells the state and rate of a zone, and reports whether its rate has changed.
func (z *zones) retell(key string, at *zone, now time.Time) bool {
	state := z.policy.State(at.size, at.notReady)
	next := z.policy.RateOf(state, at.size)
	if z.full {
		next = 0
	}
	if state != at.state {
		z.log.Info("A zone is in another state", "zone", ZoneName(key), "state", state, "before", at.state, "nodes", at.size, "notReady", at.notReady, "nodesPerSecond", next)
	}
	at.state = state
	if next == at.rate {
		return false
	}
	at.setRate(next, now)
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

func (z *zones) everybodyIsSure() bool {
	for _, at := range z.zones {
		if at.unsure > 0 {
			return false
		}
	}
	return true
}

func (z *zones) held(key string) Held {
	at := z.zone(key)
	return Held{Zone: ZoneName(key), State: at.state, Size: at.size, NotReady: at.notReady, Rate: at.rate, AllZones: z.full}
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
