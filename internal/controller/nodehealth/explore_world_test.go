// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/explore"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// smallWorld is a cluster of two zones with two nodes each, of which package explore walks every history. Its kubelets
// renew their leases every ten seconds. One process of Taintkeeper leads; what it knows and decides is in records, and
// what reconciler does around it is in look. Time passes in steps of five seconds.
type smallWorld struct {
	now      time.Time
	nodes    []*smallNode
	versions int

	own struct { // our own lease
		nonce string
		begun time.Time
		ours  bool // renewed by the process that runs
	}
	keeper *keeper

	troubles map[trouble]time.Time // since when
	ended    time.Time             // when the last one did
	size     smallSize
	left     int // disturbances that may still happen
	broken   string
}

// smallNode is a node with its kubelet and its lease.
type smallNode struct {
	object  *corev1.Node // never modified
	renewed time.Time    // its lease; zero if there is none
	next    time.Time    // when its kubelet renews it

	dead bool
	life
	before   life          // before the instant of its last sign
	unheard  time.Duration // how long it has been silent, with nothing in the way
	spared   time.Duration // how long it has not been ready and not tainted for that, with nothing in the way
	executed time.Time     // when it last got a first NoExecute taint that a leader can know of
}

// life is what the API server can know of a node's life.
type life struct {
	sign time.Time // the last sign of it
	died bool      // since then
}

// lives notes a sign of life.
func (n *smallNode) lives(now time.Time) {
	if n.sign != now {
		n.before = n.life
	}
	n.life = life{sign: now}
}

// keeper is a process of Taintkeeper.
type keeper struct {
	records *records
	seen    map[string]*corev1.Node
	queue   map[string]bool
	later   map[string]time.Time

	// What the watches are about to bring.
	newNodes  []nodeEvent
	newLeases []leaseEvent
}

type nodeEvent struct {
	name   string
	object *corev1.Node // nil if it was deleted
}

type leaseEvent struct {
	name    string // empty for our own
	renewed time.Time
	nonce   string
	gone    bool
}

// trouble is something that keeps a process from seeing or acting, for a while.
type trouble string

const (
	apiDown     trouble = "the API server is down"
	leasesHang  trouble = "the watch of leases hangs"
	nodesHang   trouble = "the watch of nodes hangs"
	processHang trouble = "the process is paused"
)

// smallSize bounds a world.
type smallSize struct {
	// disturbances is how many things may happen in one history that nobody can expect.
	disturbances int
	// kinds lists which things.
	kinds []string
	// inOrder means that the watches bring what they have and nodes are looked at in a fixed order, except at the instant
	// at which a trouble ends.
	inOrder bool
}

// The promises.
const (
	callsNobodyEarly    = "no node is called silent before its grace period is over"
	callsNobodyAlive    = "no node is called silent whose kubelet lives and can be heard whenever the API server can"
	callsTheSilent      = "a node that is silent is called so"
	taintsTheNotReady   = "a node that is not ready gets its NoExecute taint, if another node is ready"
	untaintsTheReady    = "a node that is ready has no taint for its readiness"
	taintsAtTheRate     = "a zone is tainted no faster than its rate"
	taintsNotEverything = "no node is tainted NoExecute while no node is ready"
)

const (
	smallStep   = readiness.CountedMost
	smallRenew  = readiness.RenewalInterval
	longestFor  = 40 * time.Second // trouble
	smallRecent = 70 * time.Second // longer than any grace
)

// smallGrace is no number of steps, so that a sign of life a step earlier or later makes a difference.
var smallGrace = readiness.Grace{Monitor: 27 * time.Second, Startup: 37 * time.Second}

// taintedWithin is how long a node is not ready before it must have its taint, with nothing in the way: the other node
// of its zone gets one first, and a process that begins does not know when the latest was given.
const taintedWithin = 3 * time.Duration(float64(time.Second)/readiness.DefaultRate)

// noticedWithin is how long a node is silent before it must be called so, with nothing in the way: its grace, the extra
// grace after an outage, and a step each until its last renewal is over and until the next echo.
const noticedWithin = 37*time.Second + readiness.ExtraGrace + 2*smallStep

var smallPolicy = readiness.Policy{
	Rate: readiness.DefaultRate, SecondaryRate: readiness.DefaultSecondaryRate, FullDisruptionRate: readiness.DefaultRate,
	LargeZone: readiness.DefaultLargeZone, UnhealthyShare: readiness.DefaultUnhealthyShare,
}

func newSmallWorld(size smallSize) *smallWorld {
	w := &smallWorld{
		now:  time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC),
		size: size, left: size.disturbances, troubles: map[trouble]time.Time{}, versions: 1,
	}
	long := w.now.Add(-time.Hour)
	for i, name := range []string{"a1", "a2", "b1", "b2"} {
		n := &smallNode{
			object: ready(smallObject(name, 1, long), corev1.ConditionTrue, long),
			life:   life{sign: w.now}, renewed: w.now, next: w.now.Add(smallStep * time.Duration(1+i%2)),
		}
		w.nodes = append(w.nodes, n)
	}
	w.start()
	return w
}

func smallObject(name string, generation int, created time.Time) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name + "-" + strconv.Itoa(generation)), CreationTimestamp: metav1.Time{Time: created},
		ResourceVersion: "1",
		Labels:          map[string]string{corev1.LabelTopologyZone: name[:1]},
	}}
}

// ready returns a node whose kubelet says whether it is ready.
func ready(node *corev1.Node, is corev1.ConditionStatus, at time.Time) *corev1.Node {
	return readiness.WithConditions(node, []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: is, LastHeartbeatTime: metav1.Time{Time: at}, LastTransitionTime: metav1.Time{Time: at}},
	})
}

// sight is what is seen now: all clocks show the same time.
func (w *smallWorld) sight() verdict.Sight {
	return verdict.Sight{At: w.now, Earliest: w.now, Latest: w.now, Behind: w.now}
}

func (w *smallWorld) node(name string) *smallNode {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *smallNode) bool { return n.object.Name == name })]
}

// Broken implements [explore.World].
func (w *smallWorld) Broken() string { return w.broken }

// Clone implements [explore.World].
func (w *smallWorld) Clone() explore.World {
	shared := map[reflect.Type]bool{reflect.TypeFor[corev1.Node](): true}
	return explore.Clone(w, shared, func(t reflect.Type) bool {
		return t == reflect.TypeFor[readiness.Member]() // of a record, in the line of its zone
	})
}

// Fingerprint implements [explore.World].
func (w *smallWorld) Fingerprint() explore.Fingerprint {
	return explore.FingerprintOf(w.now, explore.Alike{Recent: smallRecent, Skip: func(field string) bool {
		switch field {
		case "ResourceVersion", "LastTransitionTime", "versions", "sent", "nonce", "tainted", "told", "size", "began":
			return true
		}
		return false
	}}, *w)
}

// simplify leaves out what no longer matters. The clock of the records is set back to zero, because only differences count.
func (w *smallWorld) simplify() {
	r := w.keeper.records
	rebase := func(s *sign) { s.on = max(s.on-r.clock.now, -smallRecent) }
	for _, known := range r.nodes {
		rebase(&known.sign)
		if known.lease != nil {
			rebase(&known.lease.sign)
		}
	}
	r.clock.extraUntil = max(r.clock.extraUntil-r.clock.now, 0)
	r.clock.now = 0
	coming := map[string]bool{w.own.nonce: true}
	for _, e := range w.keeper.newLeases {
		coming[e.nonce] = true
	}
	maps.DeleteFunc(r.renewals.sent, func(nonce string, _ time.Time) bool { return !coming[nonce] })
}

// Steps implements [explore.World].
func (w *smallWorld) Steps() []explore.Step {
	var steps []explore.Step
	add := func(line string, do func()) {
		steps = append(steps, func() string {
			at := w.now
			do()
			w.simplify()
			return at.Format(time.TimeOnly) + "  " + line
		})
	}
	w.ordinary(add)
	if w.left > 0 {
		w.disturbances(func(kind, line string, do func()) {
			if slices.Contains(w.size.kinds, kind) {
				add(line, func() { w.left--; do() })
			}
		})
	}
	return steps
}

// has reports whether there is one of some troubles.
func (w *smallWorld) has(one ...trouble) bool {
	return slices.ContainsFunc(one, func(t trouble) bool { _, has := w.troubles[t]; return has })
}

// ordinary adds what happens by itself.
func (w *smallWorld) ordinary(add func(line string, do func())) {
	for _, is := range slices.Sorted(maps.Keys(w.troubles)) {
		add("no longer: "+string(is), func() { w.ends(is) })
	}
	if w.mayPass() {
		add("5 s pass", w.pass)
	}
	if w.has(apiDown, processHang) {
		return
	}
	first := true
	may := func(line string, do func()) {
		if first || !w.size.inOrder || w.ended.Equal(w.now) {
			add(line, do)
		}
		first = false
	}
	w.ofKeeper(may)
}

// ofKeeper adds what the process does, in the order in which it does it if nothing is late.
func (w *smallWorld) ofKeeper(may func(line string, do func())) {
	k := w.keeper
	if len(k.newLeases) > 0 && !w.has(leasesHang) {
		may("the watch of leases comes", w.deliverLeases)
	}
	if len(k.newNodes) > 0 && !w.has(nodesHang) {
		may("the watch of nodes comes", w.deliverNodes)
	}
	queued := slices.Sorted(maps.Keys(k.queue))
	for _, name := range queued {
		if name[0] == queued[0][0] { // nodes of another zone can wait: what comes of them does not differ
			may("it looks at node "+name, func() { w.look(name, nil) })
		}
	}
}

// ends ends a trouble. A watch that hung is opened again, with a list, or goes on.
func (w *smallWorld) ends(is trouble) {
	delete(w.troubles, is)
	w.ended = w.now
	if is == leasesHang && w.keeper.records.renewals.hangs(w.now) {
		w.relist()
	}
}

// mayPass reports whether nothing must happen before time passes.
func (w *smallWorld) mayPass() bool {
	for _, since := range w.troubles {
		if w.now.Sub(since) >= longestFor {
			return false
		}
	}
	k := w.keeper
	if w.has(apiDown, processHang) {
		return true
	}
	return len(k.queue) == 0 && (len(k.newLeases) == 0 || w.has(leasesHang)) && (len(k.newNodes) == 0 || w.has(nodesHang))
}

// pass lets time pass. Our own lease is renewed before the kubelets' are, so that its echo says nothing about these.
func (w *smallWorld) pass() {
	w.broken = w.neglects()
	w.now, w.ended = w.now.Add(smallStep), time.Time{}
	up := !w.has(apiDown)
	if up && !w.has(processHang) {
		w.renew()
	}
	for _, n := range w.nodes {
		for !n.next.After(w.now) {
			n.next = n.next.Add(smallRenew)
			switch {
			case n.dead:
			case up:
				w.renews(n)
			default: // it waits for an answer first
				n.next = n.next.Add(smallStep)
			}
		}
		w.counts(n)
	}
	for name, at := range w.keeper.later {
		if !at.After(w.now) {
			delete(w.keeper.later, name)
			w.keeper.queue[name] = true
		}
	}
}

// counts counts for how long something has had to happen to a node.
func (w *smallWorld) counts(n *smallNode) {
	if n.unheard = min(n.unheard+smallStep, 2*noticedWithin); len(w.troubles) > 0 || !n.dead {
		n.unheard = 0
	}
	condition := readiness.Condition(n.object, corev1.NodeReady)
	mayStay := condition == nil || condition.Status == corev1.ConditionTrue || !w.someReady() ||
		slices.ContainsFunc(n.object.Spec.Taints, readiness.OwnsNoExecute)
	if n.spared = min(n.spared+smallStep, 2*taintedWithin); len(w.troubles) > 0 || mayStay {
		n.spared = 0
	}
}

func (w *smallWorld) someReady() bool {
	return slices.ContainsFunc(w.nodes, func(n *smallNode) bool { return readiness.IsReady(n.object) })
}

// neglects returns the promise that is broken if a node is not what it should have become by now.
func (w *smallWorld) neglects() string {
	for _, n := range w.nodes {
		executes := slices.ContainsFunc(n.object.Spec.Taints, readiness.OwnsNoExecute)
		switch {
		case n.unheard > noticedWithin && !readiness.IsUnknown(n.object):
			return callsTheSilent
		case n.spared > taintedWithin:
			return taintsTheNotReady
		case readiness.IsReady(n.object) && executes && len(w.troubles) == 0:
			return untaintsTheReady
		}
	}
	return ""
}

// renews renews the lease of a node.
func (w *smallWorld) renews(n *smallNode) {
	n.renewed = w.now
	n.lives(w.now)
	w.keeper.newLeases = append(w.keeper.newLeases, leaseEvent{name: n.object.Name, renewed: w.now})
}

// set stores a version of a node.
func (w *smallWorld) set(n *smallNode, object *corev1.Node) {
	w.versions++
	next := *object
	next.ResourceVersion = strconv.Itoa(w.versions)
	n.object = &next
	w.keeper.newNodes = append(w.keeper.newNodes, nodeEvent{next.Name, n.object})
}

// renew renews our own lease.
func (w *smallWorld) renew() {
	r := w.keeper.records
	w.own.nonce, w.own.begun, w.own.ours = w.now.String(), w.now, true
	r.renewals.begin(w.own.nonce, w.now)
	w.keeper.newLeases = append(w.keeper.newLeases, leaseEvent{nonce: w.own.nonce})
	r.renewals.ended(nil, w.now)
}

// start starts a process, which lists nodes and leases and leads.
func (w *smallWorld) start() {
	w.own.ours = false
	w.keeper = &keeper{
		records: newRecords(smallGrace, smallPolicy, w.now),
		seen:    map[string]*corev1.Node{}, queue: map[string]bool{}, later: map[string]time.Time{},
	}
	for _, n := range w.nodes {
		w.keeper.newNodes = append(w.keeper.newNodes, nodeEvent{n.object.Name, n.object})
		n.unheard, n.spared = 0, 0
	}
	w.deliverNodes()
	w.renew()
	w.relist()
	var all []*corev1.Node
	for _, n := range w.nodes {
		all = append(all, n.object)
		w.keeper.queue[n.object.Name] = true
	}
	w.follow(w.keeper.records.lead(all, w.sight()))
}

// relist opens the watch of leases again, with a list, as leases.Replace takes it: our own comes last.
func (w *smallWorld) relist() {
	there := map[string]bool{}
	k := w.keeper
	k.newLeases = nil
	for _, n := range w.nodes {
		if !n.renewed.IsZero() {
			there[n.object.Name] = true
			k.newLeases = append(k.newLeases, leaseEvent{name: n.object.Name, renewed: n.renewed})
		}
	}
	k.records.listed(there)
	k.newLeases = append(k.newLeases, leaseEvent{nonce: w.own.nonce})
	w.deliverLeases()
}

// deliverLeases brings what the watch of leases has.
func (w *smallWorld) deliverLeases() {
	k := w.keeper
	events := k.newLeases
	k.newLeases = nil
	for _, e := range events {
		if e.gone {
			k.records.forgetLease(e.name)
			continue
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.name}}
		if e.name == "" {
			lease.Name, lease.Annotations = OwnLease, map[string]string{nonceAnnotation: e.nonce}
		}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: e.renewed}
		w.follow(k.records.brought(lease, w.now))
	}
}

// deliverNodes brings what the watch of nodes has, as Controller.observe takes it.
func (w *smallWorld) deliverNodes() {
	k := w.keeper
	events := k.newNodes
	k.newNodes = nil
	for _, e := range events {
		before := k.seen[e.name]
		if e.object == nil {
			delete(k.seen, e.name)
			w.follow(k.records.forgetNode(e.name, w.now))
			continue
		}
		k.seen[e.name] = e.object
		w.follow(k.records.put(e.object, w.sight()))
		if before == nil || concerns(before, e.object) {
			k.queue[e.name] = true
		}
	}
}

// follow requests the nodes whose plans may have changed.
func (w *smallWorld) follow(told readiness.News) {
	for _, name := range told.Wake {
		w.keeper.queue[name] = true
	}
	if told.Recovered {
		for _, n := range w.nodes {
			n.unheard = 0
		}
	}
}

// look looks at a node, as reconciler does. All its writes fail with an error, unless that is nil.
func (w *smallWorld) look(name string, refuses error) {
	k := w.keeper
	delete(k.queue, name)
	node := k.seen[name]
	if node == nil {
		return
	}
	node = k.records.newest(node)
	if n := w.node(name); !w.apply(node, refuses) && n.object.UID == node.UID { // a conflict
		k.records.saw(n.object, w.sight())
		w.apply(n.object, refuses)
	}
	if refuses != nil {
		k.queue[name] = true
	}
}

// decide decides what a node should become now, and requests other nodes, and this one later, accordingly.
func (w *smallWorld) decide(f readiness.Facts) decision {
	d := w.keeper.records.decide(f, w.sight())
	w.follow(readiness.News{Wake: d.wake})
	if at := w.now.Add(d.wait); d.wait > 0 {
		if known, waits := w.keeper.later[f.Node.Name]; !waits || at.Before(known) {
			w.keeper.later[f.Node.Name] = at
		}
	}
	return d
}

// apply writes what the plan of a node says. It reports false after a conflict.
func (w *smallWorld) apply(node *corev1.Node, refuses error) bool {
	n := w.node(node.Name)
	conflict := n.object.UID != node.UID || n.object.ResourceVersion != node.ResourceVersion
	facts := readiness.Facts{Node: node, Standing: readiness.Silent}
	d := w.decide(facts)
	if len(d.Conditions) > 0 {
		switch {
		case refuses != nil:
			facts.Node = readiness.WithConditions(node, d.Conditions)
		case conflict:
			return false
		default:
			w.callsSilent(n)
			w.set(n, readiness.WithConditions(node, d.Conditions))
			w.keeper.records.wrote(n.object, false)
			facts.Node = n.object
		}
		d = w.decide(facts)
	}
	if !d.Writes() {
		return true
	}
	facts.Granted = d.Takes
	switch {
	case refuses != nil:
		return true
	case conflict:
		return false
	case d.Executes:
		w.executes(n)
	}
	next := *facts.Node
	next.Spec.Taints = d.Taints
	w.set(n, &next)
	w.keeper.records.wrote(n.object, d.Executes)
	return true
}

// callsSilent notes that a node is called silent. What has come since the echo, at the same instant, may be missing.
func (w *smallWorld) callsSilent(n *smallNode) {
	known := n.life
	if known.sign.Equal(w.now) {
		known = n.before
	}
	grace := smallGrace.Of(readiness.Condition(n.object, corev1.NodeReady) != nil)
	switch {
	case w.now.Sub(known.sign) < grace:
		w.broken = callsNobodyEarly
	case !known.died:
		w.broken = callsNobodyAlive
	}
}

// executes notes that a node gets a NoExecute taint.
func (w *smallWorld) executes(n *smallNode) {
	if slices.ContainsFunc(n.object.Spec.Taints, readiness.OwnsNoExecute) {
		return // one for another
	}
	zone := n.object.Labels[corev1.LabelTopologyZone]
	for _, other := range w.nodes {
		if other.object.Labels[corev1.LabelTopologyZone] == zone && w.now.Sub(other.executed).Seconds()*readiness.DefaultRate < 1 {
			w.broken = taintsAtTheRate
		}
	}
	if !w.someReady() && !w.has(nodesHang) {
		w.broken = taintsNotEverything
	}
	n.executed = w.now
}

// forgetTokens forgets the tokens of which no taint tells: a process that begins cannot know them.
func (w *smallWorld) forgetTokens() {
	for _, n := range w.nodes {
		if !slices.ContainsFunc(n.object.Spec.Taints, readiness.OwnsNoExecute) {
			n.executed = time.Time{}
		}
	}
}

// The kinds of disturbances.
const (
	nodeDies    = "a node dies"
	zoneDies    = "a zone dies"
	nodeResumes = "nodes resume"
	saysReady   = "a kubelet says whether it is ready"
	losesLease  = "a lease is deleted"
	isReplaced  = "a node is replaced"
	restart     = "the process restarts"
	breaks      = "the watch of leases breaks"
	refuse      = "a write is refused"
)

// disturbances adds what happens to nodes, and what fails.
func (w *smallWorld) disturbances(add func(kind, line string, do func())) {
	for _, n := range []*smallNode{w.nodes[0], w.nodes[3]} { // one of each zone, and of each phase
		w.ofNode(n, add)
	}
	for i, zone := range []string{"a", "b"} {
		add(zoneDies, "zone "+zone+" dies", func() {
			for _, n := range w.nodes[2*i : 2*i+2] {
				n.dead, n.died = true, true
			}
		})
	}
	add(nodeResumes, "all nodes resume", func() {
		for _, n := range w.nodes {
			w.resume(n)
		}
	})
	add(restart, "Taintkeeper restarts", func() { w.forgetTokens(); w.start() })
	if !w.has(apiDown) {
		add(breaks, "the watch of leases is opened again", w.relist)
		add(string(apiDown), string(apiDown), func() { w.troubles[apiDown] = w.now })
	}
	for _, is := range []trouble{leasesHang, nodesHang, processHang} {
		if !w.has(is) {
			add(string(is), string(is), func() { w.troubles[is] = w.now })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.keeper.queue)) {
		if !w.has(apiDown, processHang) {
			add(refuse, "it looks at node "+name+", and its writes are refused", func() {
				w.forgetTokens() // the token that it could not use can be used shortly before the next
				w.look(name, errRefused)
			})
		}
	}
}

var errRefused = fmt.Errorf("refused by a webhook")

// ofNode adds what happens to one node.
func (w *smallWorld) ofNode(n *smallNode, add func(kind, line string, do func())) {
	name := n.object.Name
	if n.dead {
		add(nodeResumes, "node "+name+" resumes", func() { w.resume(n) })
		return
	}
	add(nodeDies, "node "+name+" dies", func() { n.dead, n.died = true, true })
	if w.has(apiDown) {
		return
	}
	opposite := corev1.ConditionFalse
	if !readiness.IsReady(n.object) {
		opposite = corev1.ConditionTrue
	}
	add(saysReady, fmt.Sprintf("the kubelet of node %s says Ready=%s", name, opposite), func() {
		n.lives(w.now)
		w.set(n, ready(n.object, opposite, w.now))
	})
	add(losesLease, "somebody deletes the lease of node "+name, func() {
		n.renewed = time.Time{}
		w.keeper.newLeases = append(w.keeper.newLeases, leaseEvent{name: name, gone: true})
	})
	add(isReplaced, "node "+name+" is replaced", func() {
		w.keeper.newNodes = append(w.keeper.newNodes, nodeEvent{name: name})
		next := smallObject(name, 3-int(n.object.UID[len(n.object.UID)-1]-'0'), w.now)
		*n = smallNode{next: n.next, renewed: n.renewed, life: life{sign: w.now}, executed: n.executed}
		w.set(n, ready(next, corev1.ConditionTrue, w.now))
	})
}

// resume lets a kubelet work again: as soon as it can, it posts its status, if that is new, and renews its lease.
func (w *smallWorld) resume(n *smallNode) {
	n.unheard = 0
	if n.dead = false; !w.has(apiDown) {
		if !readiness.IsReady(n.object) {
			w.set(n, ready(n.object, corev1.ConditionTrue, w.now))
		}
		w.renews(n)
	}
}
