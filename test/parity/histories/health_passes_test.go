// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// passes predicts upstream: NoSchedule taints follow at once, but everything else from a pass over all
// nodes, about every five seconds, at the instants at which upstream really began one; and NoExecute
// taints are set at ticks. What else differs from the rule is a quirk that can be switched off.
type passes struct {
	process

	instants []time.Duration // of the passes that are to come
	known    map[string]bool
	records  map[string]record
	queues   map[string]*queue
	states   map[string]readiness.State // of the pass before
	allFull  bool
}

// record is what upstream keeps of a node, by name.
type record struct {
	probe     time.Duration
	posted    bool // a condition Ready
	heartbeat metav1.Time
	lease     *coordinationv1.Lease
}

// initial is the state of a zone that was never evaluated.
const initial = readiness.State("Initial")

func predictUpstream(h *history, instants []time.Duration, has quirks) outcome {
	p := &passes{process: newProcess(has), instants: instants}
	p.cluster.nodeChanged = p.nodeChanged
	return simulate(h, p)
}

func (p *passes) nodeChanged(before, after *corev1.Node) {
	p.seen.note(cmp.Or(after, before).Name, after, p.now)
	switch {
	case !p.running:
	case after != nil:
		p.cluster.taintNoSchedule(after.Name)
	case !p.quirks.has(recordByName):
		delete(p.records, before.Name)
		delete(p.known, before.Name)
	}
}

func (p *passes) next() time.Duration { return min(p.nextPass(), p.nextTick()) }

func (p *passes) act() {
	if p.nextPass() <= p.now {
		p.instants = p.instants[1:]
		p.pass(p.now)
		return
	}
	for _, queue := range p.queues {
		p.tick(queue)
	}
}

func (p *passes) nextPass() time.Duration {
	if len(p.instants) == 0 {
		return never
	}
	return p.instants[0]
}

// nextTick is when a node can be tainted next; never if none waits.
func (p *passes) nextTick() time.Duration {
	if !slices.ContainsFunc(sorted(p.queues), func(q *queue) bool { return len(q.items) > 0 }) {
		return never
	}
	return p.now - (p.now-p.began)%tick + tick
}

func (p *passes) start() {
	p.allFull = false
	p.known, p.records = map[string]bool{}, map[string]record{}
	p.queues, p.states = map[string]*queue{}, map[string]readiness.State{}
	for _, name := range p.cluster.nodeNames() {
		p.cluster.taintNoSchedule(name)
	}
}

// pass looks at all nodes, as they are when it begins.
func (p *passes) pass(at time.Duration) {
	var nodes []*corev1.Node
	for _, name := range p.cluster.nodeNames() {
		nodes = append(nodes, p.cluster.nodes[name])
	}
	p.observe(nodes)
	observed := p.now // one node after another
	over := observed
	zones := map[string]tally{}
	for i, node := range nodes {
		p.now = max(at+time.Duration(i)*turnTakes, observed)
		node, ready, skipped := p.assess(node)
		if skipped {
			continue
		}
		if counts(node) {
			zone := zones[zoneOf(node)]
			zone.size++
			if ready != corev1.ConditionTrue {
				zone.notReady++
			}
			zones[zoneOf(node)] = zone
		}
		p.taintNoExecute(node, ready)
		over = max(over, p.now)
	}
	p.now = over
	p.disrupt(zones, nodes)
}

// observe notes which nodes have come and gone.
func (p *passes) observe(nodes []*corev1.Node) {
	there := map[string]bool{}
	for _, node := range nodes {
		there[node.Name] = true
		if _, ok := p.states[zoneOf(node)]; !ok {
			p.states[zoneOf(node)] = initial
			p.queues[zoneOf(node)] = newQueue()
			if !p.quirks.has(tokenAtStart) {
				p.queues[zoneOf(node)].goOn(p.cluster, zoneOf(node))
			}
		}
		if p.known[node.Name] {
			continue
		}
		p.known[node.Name] = true
		if p.quirks.has(startOff) {
			p.markReachable(node)
		}
		p.queues[zoneOf(node)].remove(node.Name)
	}
	for name := range p.known {
		if !there[name] {
			delete(p.known, name)
		}
	}
}

// conflictTakes is after how long a node that has changed since the pass began, because the pass removed its NoExecute
// taint, is read again.
const conflictTakes = 20 * ms

// assess sets the conditions of a node whose grace period is over, and returns the node with which the pass continues
// and its readiness, or that the pass skips it.
func (p *passes) assess(node *corev1.Node) (after *corev1.Node, ready corev1.ConditionStatus, skipped bool) {
	lease, next := p.cluster.leases[node.Name], p.heard(node)
	ready = readyStatus(node)
	silent := p.now > next.probe+graceOf(node)
	skipped = silent && lease != nil && lease != next.lease && p.quirks.has(leaseWritten)
	if silent && !skipped && ready != corev1.ConditionUnknown {
		ready = corev1.ConditionUnknown
		if now := p.cluster.nodes[node.Name]; now != node {
			node, p.now = now, p.now+conflictTakes
		}
		p.cluster.setUnknown(node.Name)
		p.now += statusTakes
		next.posted, next.heartbeat, next.lease = true, heartbeat(p.cluster.nodes[node.Name]), lease
	}
	p.records[node.Name] = next
	return node, ready, skipped
}

// heard returns the record of a node with the signs of life that there are now.
func (p *passes) heard(node *corev1.Node) record {
	known, seen := p.records[node.Name]
	observed := condition(node, corev1.NodeReady)
	next := known
	switch {
	case observed == nil && !seen:
		next = record{probe: created(node)}
	case observed == nil:
		next.posted = false
	case !seen, !known.posted, !known.heartbeat.Equal(&observed.LastHeartbeatTime):
		next = record{probe: p.now, posted: true, heartbeat: observed.LastHeartbeatTime}
		if !p.quirks.has(leaseForgotten) {
			next.lease = known.lease
		}
	}
	lease := p.cluster.leases[node.Name]
	if lease != nil && (known.lease == nil || known.lease.Spec.RenewTime.Before(lease.Spec.RenewTime)) {
		next.lease, next.probe = lease, p.now
	}
	return next
}

// taintNoExecute changes one taint for the other at once; for a first one the node must wait.
func (p *passes) taintNoExecute(node *corev1.Node, ready corev1.ConditionStatus) {
	key := readinessTaint(ready)
	switch {
	case ready == "":
	case key == "":
		p.markReachable(node)
	case hasTaint(node, opposite(key), corev1.TaintEffectNoExecute):
		p.exchange(node.Name, key)
	default:
		p.markForTainting(node, key)
	}
}

// exchange gives a node one of the NoExecute taints, and removes the other.
func (p *passes) exchange(name, key string) {
	if !p.quirks.has(newTimeAdded) {
		p.cluster.exchangeNoExecute(name, key, p.now)
		return
	}
	p.cluster.setNoExecute(name, key, p.now)
	p.cluster.setTaint(name, key, corev1.TaintEffectNoExecute, true, p.now)
}

func opposite(key string) string {
	if key == corev1.TaintNodeNotReady {
		return corev1.TaintNodeUnreachable
	}
	return corev1.TaintNodeNotReady
}

func (p *passes) markForTainting(node *corev1.Node, key string) {
	queue, has := p.queues[zoneOf(node)], hasTaint(node, key, corev1.TaintEffectNoExecute)
	if has && !p.quirks.has(startOff) {
		return
	}
	if !has && (p.quirks.has(passOrder) || !queue.waits(node.Name)) {
		queue.remove(node.Name)
	}
	queue.add(node.Name, p.now)
}

// markReachable takes off the NoExecute taints that the pass has seen.
func (p *passes) markReachable(node *corev1.Node) {
	for _, key := range noExecuteKeys {
		if now := p.cluster.nodes[node.Name]; now != nil && hasTaint(node, key, corev1.TaintEffectNoExecute) && hasTaint(now, key, corev1.TaintEffectNoExecute) {
			p.cluster.setTaint(node.Name, key, corev1.TaintEffectNoExecute, false, p.now)
			p.now += taintTakes
		}
	}
	p.queues[zoneOf(node)].remove(node.Name)
}

// disrupt derives the states and rates of the zones from what the pass has seen.
func (p *passes) disrupt(zones map[string]tally, nodes []*corev1.Node) {
	wasFull := true
	for key := range p.states {
		if _, there := zones[key]; !there {
			delete(p.states, key)
			continue
		}
		wasFull = wasFull && p.states[key] == readiness.FullDisruption
	}
	p.allFull = allFull(zones)
	switch {
	case p.allFull && (!wasFull || !p.quirks.has(offOnce)):
		p.takeOff(nodes)
	case wasFull && !p.allFull:
		p.probeAgain(nodes)
	}
	p.setStates(zones, wasFull)
}

// setStates sets the states and rates of the zones, given whether all were in full disruption before.
func (p *passes) setStates(zones map[string]tally, wasFull bool) {
	for key, zone := range zones {
		state := zone.state()
		switch {
		case p.allFull && !wasFull:
			p.setRate(key, 0)
		case p.allFull:
		case wasFull, state != p.states[key], !p.quirks.has(stateOnly):
			p.setRate(key, zone.rate())
		}
		p.states[key] = state
	}
}

// takeOff takes the NoExecute taints of all nodes off, in full disruption.
func (p *passes) takeOff(nodes []*corev1.Node) {
	for _, node := range nodes {
		p.markReachable(node)
		if !p.quirks.has(offOnce) {
			p.cluster.setNoExecute(node.Name, "", p.now)
		}
	}
}

// probeAgain restarts the grace period of nodes after full disruption.
func (p *passes) probeAgain(nodes []*corev1.Node) {
	for _, node := range nodes {
		if known := p.records[node.Name]; known.posted || known.lease != nil || p.quirks.has(graceForUnheard) {
			known.probe = p.now
			p.records[node.Name] = known
		}
	}
}

func (p *passes) setRate(zone string, next float32) {
	if p.quirks.has(newLimiter) {
		p.queues[zone].swap(next, p.now)
		return
	}
	p.queues[zone].setRate(next, p.now)
}

// queue is upstream's: the nodes of a zone that wait for a NoExecute taint, and their tokens.
type queue struct {
	tokens

	items []item          // the first is next
	set   map[string]bool // those that may not be added: they wait, or have been tainted
}

type item struct {
	name string
	ripe time.Duration // not before
}

func newQueue() *queue { return &queue{tokens: newTokens(), set: map[string]bool{}} }

func (q *queue) waits(name string) bool {
	return slices.ContainsFunc(q.items, func(i item) bool { return i.name == name })
}

func (q *queue) add(name string, at time.Duration) {
	if q.set[name] {
		return
	}
	q.set[name] = true
	q.items = append(q.items, item{name, at})
}

func (q *queue) remove(name string) {
	delete(q.set, name)
	q.done(name)
}

func (q *queue) done(name string) {
	q.items = slices.DeleteFunc(q.items, func(i item) bool { return i.name == name })
}

// swap changes the rate as upstream does: the first token at a new rate comes at once, unless there was none to give.
func (q *queue) swap(next float32, at time.Duration) {
	if q.rate == next {
		return
	}
	drained := !q.take(at)
	q.rate, q.limiter = next, rate.NewLimiter(rate.Limit(next), 1)
	if drained {
		q.take(at)
	}
}

// tick taints the nodes of a queue for which there is a token.
func (p *passes) tick(q *queue) {
	for {
		if !p.quirks.has(wastedTokens) {
			q.items = slices.DeleteFunc(q.items, func(i item) bool { return p.needsNone(i.name) })
		}
		if len(q.items) == 0 || !q.take(p.now) {
			return
		}
		slices.SortStableFunc(q.items, func(a, b item) int { return int(a.ripe - b.ripe) })
		head := &q.items[0]
		if p.now < head.ripe {
			return
		}
		node := p.cluster.nodes[head.name]
		switch {
		case node == nil:
			q.done(head.name)
		case readyStatus(node) == "":
			const retry = 50 * ms
			head.ripe = p.now + retry + 1
		default:
			name := head.name
			q.done(name)
			if key := readinessTaint(readyStatus(node)); key != "" {
				p.exchange(name, key)
			}
		}
	}
}

func (p *passes) needsNone(name string) bool {
	node := p.cluster.nodes[name]
	return node == nil || readyStatus(node) == "" || readyStatus(node) == corev1.ConditionTrue
}
