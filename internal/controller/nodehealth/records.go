// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// records are all that node health knows: a record of each node, and what concerns all nodes. Everything that comes in
// is noted here, and its consequences are returned. They are safe for concurrent use, and have the only lock of node
// health.
type records struct {
	grace readiness.Grace

	mu       sync.Mutex
	clock    clock
	renewals renewals
	zones    *readiness.Zones
	nodes    map[string]*record
}

func newRecords(grace readiness.Grace, policy readiness.Policy, now time.Time) *records {
	return &records{
		grace: grace, clock: clock{began: now}, renewals: newRenewals(),
		zones: readiness.NewZones(policy), nodes: map[string]*record{},
	}
}

// do calls a function under the lock.
func (r *records) do(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
}

// of returns the record of a node, and makes it if there is none. The caller holds the lock.
func (r *records) of(name string) *record {
	known, ok := r.nodes[name]
	if !ok {
		known = &record{member: readiness.Member{Name: name}}
		r.nodes[name] = known
	}
	return known
}

// put notes what a node's object says.
func (r *records) put(node *corev1.Node, seen verdict.Sight) readiness.News {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.see(node, seen)
	return r.follow(r.zones.Put(&known.member, node, r.standing(known), seen.At), seen.At)
}

// saw notes what a live read of a node says, unless the watch has since reported the node as gone. Its zone counts it
// when the watch brings it.
func (r *records) saw(node *corev1.Node, seen verdict.Sight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.nodes[node.Name]; known != nil && known.isOf(node) {
		r.see(node, seen)
	}
}

// see notes a node's heartbeat. The first sight of a node is a sign of life. If it never posted its status, its
// creation is.
func (r *records) see(node *corev1.Node, seen verdict.Sight) *record {
	known := r.of(node.Name)
	posted, beat := false, known.beat
	if ready := readiness.Condition(node, corev1.NodeReady); ready != nil {
		posted, beat = true, ready.LastHeartbeatTime
	}
	is := known.isOf(node) // a gap of the watch hides that a node was recreated
	if is && posted == known.posted && beat.Equal(&known.beat) {
		return known
	}
	known.sign = r.clock.sign(seen.At)
	if !is {
		known.sign = known.sign.earlier(seen.At.Sub(readiness.FirstSign(node, seen)))
	}
	if known.lease != nil {
		known.sign = known.sign.latest(known.lease.sign)
	}
	known.seen, known.uid, known.posted, known.beat = true, node.UID, posted, beat
	return known
}

// forgetNode notes that a node is gone. Its lease may still be there.
func (r *records) forgetNode(name string, now time.Time) readiness.News {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.of(name)
	told := r.zones.Remove(&known.member, now)
	if known.lease == nil {
		delete(r.nodes, name)
	} else {
		r.nodes[name] = &record{member: readiness.Member{Name: name}, lease: known.lease}
	}
	return r.follow(told, now)
}

// brought notes a lease that the watch of leases has brought. Our own is an echo if this process renewed it.
func (r *records) brought(lease *coordinationv1.Lease, now time.Time) readiness.News {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewals.came()
	if !isOwn(lease) {
		r.of(lease.Name).renewed(renewTime(lease), r.clock.sign(now))
		return readiness.News{}
	}
	if begun, ours := r.renewals.begunAt(lease); ours && r.clock.echo(begun) {
		return r.echoed(now)
	}
	return readiness.News{}
}

// echoed counts all nodes after an echo, and wakes the nodes that wait for one.
func (r *records) echoed(now time.Time) readiness.News {
	told := r.follow(r.zones.Count(r.standings, now), now)
	for name, known := range r.nodes {
		if known.awaits {
			known.awaits = false
			told.Wake = append(told.Wake, name)
		}
	}
	return told
}

// forgetLease notes that a lease was deleted. The last sign of life of its node is kept.
func (r *records) forgetLease(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewals.came()
	r.drop(name)
}

// listed notes which leases exist. A lease that is gone may have had renewals that this process did not see, so its
// kubelet gets time to create it again, once.
func (r *records) listed(there map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewals.came()
	for name, known := range r.nodes {
		if known.lease == nil || there[name] {
			continue
		}
		again := sign{r.clock.now, r.clock.echoed}.earlier(max(r.grace.Of(known.posted)-readiness.ExtraGrace, 0))
		known.sign = known.sign.latest(again)
		r.drop(name)
	}
}

// drop forgets a lease, and its record if there is no such node.
func (r *records) drop(name string) {
	known := r.nodes[name]
	switch {
	case known == nil:
	case !known.seen:
		delete(r.nodes, name)
	default:
		known.lease = nil
	}
}

// lead notes that this process is the leader from now on. Whatever ended the previous leader may have cut off kubelets,
// too. The taints of the given nodes tell when their zones gave the latest tokens.
func (r *records) lead(nodes []*corev1.Node, seen verdict.Sight) readiness.News {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock.giveExtraGrace()
	return r.follow(r.zones.Begin(nodes, r.standings, seen), seen.At)
}

// follow applies a change of zones. When the disruption of all zones has ended, every node that was ever heard counts
// as heard now.
func (r *records) follow(told readiness.News, now time.Time) readiness.News {
	if told.Recovered {
		r.restart(now)
		told.Join(r.zones.Count(r.standings, now))
	}
	if told.All {
		for name, known := range r.nodes {
			if known.seen {
				told.Wake = append(told.Wake, name)
			}
		}
	}
	return told
}

// restart gives every node that was ever heard a sign of life now, because its earlier silence proves nothing. A node
// that was never heard gets its start-up grace period only once, however often zones fail and recover.
func (r *records) restart(now time.Time) {
	for _, known := range r.nodes {
		if known.posted || known.lease != nil {
			known.sign = r.clock.sign(now)
		}
	}
}

// standings returns the standing of every node.
func (r *records) standings(yield func(*readiness.Member, readiness.Standing) bool) {
	for _, known := range r.nodes {
		if known.seen && !yield(&known.member, r.standing(known)) {
			return
		}
	}
}

func (r *records) standing(known *record) readiness.Standing {
	over := r.clock.silence(known.sign) - r.grace.Of(known.posted)
	switch {
	case over <= 0:
		return readiness.Heard
	case over <= readiness.ExtraGrace && r.clock.now < r.clock.extraUntil:
		return readiness.Doubtful
	}
	return readiness.Silent
}

// decision is what a node should become, and what else follows.
type decision struct {
	readiness.Plan

	wake []string        // the nodes that are next in their zones
	wait time.Duration   // how long to wait before deciding again; zero means until woken
	say  *readiness.Held // what holds it back, if an event should say so now
}

// decide decides what a node should become. The facts say whether it is silent or doubtful, and whether it already has
// a token of its zone. A node that the zones do not know is never considered silent.
func (r *records) decide(f readiness.Facts, seen verdict.Sight) decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.nodes[f.Node.Name]
	if !ok {
		known = &record{}
	}
	silent := known.isOf(f.Node) && known.member.Silent() && r.standing(known) == readiness.Silent
	if !silent && f.Standing == readiness.Silent {
		f.Standing = readiness.Heard
	}
	f.Fresh, f.Now = r.clock.freshAt(seen.At), seen.Latest
	p, answer := r.zones.Plan(&known.member, f, seen.At)
	d := decision{Plan: p, wake: answer.Next, wait: answer.Wait}
	known.awaits = known.awaits || p.Stale
	switch {
	case p.Stale, len(p.Conditions) > 0:
	case answer.Held == nil:
		known.held = nil
	default:
		tell, in := known.waits(*answer.Held, seen.At)
		if tell {
			d.say = answer.Held
		}
		d.wait = sooner(in, answer.Wait)
	}
	return d
}

// wrote notes how our write left a node, and whether it took a token of the zone.
func (r *records) wrote(node *corev1.Node, executes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.nodes[node.Name]
	if !ok || !known.isOf(node) {
		return
	}
	known.written = node
	if executes {
		r.zones.Used(&known.member)
	}
}

// newest returns a node as the watch or the answer to a write of ours showed it, whichever is newer.
func (r *records) newest(node *corev1.Node) *corev1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.nodes[node.Name]
	if known == nil || known.written == nil {
		return node
	}
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, known.written.ResourceVersion)
	if known.written.UID != node.UID || err != nil || order >= 0 {
		known.written = nil
		return node
	}
	return known.written
}

// wouldGet reports whether it is news that a dry run would give a node these taints.
func (r *records) wouldGet(node *corev1.Node, taints []corev1.Taint) bool {
	next := make([]string, 0, len(taints))
	for _, t := range taints {
		next = append(next, t.ToString())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.nodes[node.Name]
	if known == nil || slices.Equal(known.would, next) {
		return false
	}
	known.would = next
	return true
}

// isSilent reports whether it is news to a dry run that this version of a node is silent.
func (r *records) isSilent(node *corev1.Node) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.nodes[node.Name]
	if known == nil || known.unheard == node.ResourceVersion {
		return false
	}
	known.unheard = node.ResourceVersion
	return true
}

// sinceEcho returns how long ago the renewal of the latest echo began, or this process if there was none.
func (r *records) sinceEcho(now time.Time) (since time.Duration) {
	r.do(func() { since = r.clock.sinceEcho(now) })
	return since
}

// status returns the status of each zone.
func (r *records) status() (all []readiness.Status) {
	r.do(func() { all = r.zones.All() })
	return all
}

// sooner returns the shorter of two waits; zero means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// record is everything that is known about one node. It has no lock of its own; records has one.
type record struct {
	member readiness.Member // how its zone counts it

	seen   bool // its object was seen; otherwise only its lease was
	uid    types.UID
	posted bool        // it had a Ready condition
	beat   metav1.Time // the heartbeat of that condition
	sign   sign        // its latest sign of life, from the object or the lease

	lease *renewal // nil if there is none

	awaits  bool         // it must be planned again at the next echo
	written *corev1.Node // as our last write left it, until the watch has brought that
	held    *wait        // nil if its zone does not hold it back
	would   []string     // the taints that a dry run reported it would get
	unheard string       // its version when a dry run reported it as silent
}

// renewal is the latest renewal of a lease, and when it was first seen.
type renewal struct {
	sign
	last time.Time // on the kubelet's clock
}

// wait is why a node is held back, and since when.
type wait struct {
	held  readiness.Held
	since time.Time
	told  bool
}

// sayAfter is how long a node must be held back for the same reason before an event says so. While a zone fails, its
// state changes quickly.
const sayAfter = time.Second

// isOf reports whether the record is of exactly this node. A node that was recreated under its name must not be judged
// by the signs of life of its predecessor.
func (k *record) isOf(node *corev1.Node) bool { return k.seen && k.uid == node.UID }

// renewed notes a renewal of its lease, and when it was news. Any different time is a sign of life, because the
// kubelet's clock may be set back.
func (k *record) renewed(last time.Time, now sign) {
	if k.lease != nil && last.Equal(k.lease.last) {
		return
	}
	k.lease = &renewal{now, last}
	k.sign = k.sign.latest(now)
}

// waits notes that its zone holds it back. It reports whether an event should say so now. If not, it returns how long
// to wait for that, or zero if an event has said it. Changed counts alone are not news.
func (k *record) waits(held readiness.Held, now time.Time) (tell bool, in time.Duration) {
	held.Size, held.NotReady = 0, 0
	if k.held == nil || k.held.held != held {
		k.held = &wait{held: held, since: now}
	}
	if in = k.held.since.Add(sayAfter).Sub(now); !k.held.told && in <= 0 {
		k.held.told, tell = true, true
	}
	return tell, max(in, 0)
}

// concerns reports whether a change of a node can change its assessment. A heartbeat alone does not.
func concerns(before, after *corev1.Node) bool {
	return before.UID != after.UID ||
		before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!apiequality.Semantic.DeepEqual(before.Labels, after.Labels) ||
		!apiequality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, func(a, b corev1.NodeCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
		})
}
