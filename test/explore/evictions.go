// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// Evictions is a world in which pods must leave nodes: two nodes, three workloads with a pod each, two NoExecute
// taints, an EvictionPolicy, a PodDisruptionBudget, up to two replicas, and the built-in next to them.
type Evictions struct {
	*cluster

	size     Size
	builtIn  *kcm
	replicas []*replica
	left     int       // disturbances that may still happen
	changed  bool      // taints or tolerations, and no leader has seen and recorded that yet
	skewed   bool      // a pod has changed while a replica had not seen yet how taints had changed before
	idle     time.Time // since when nobody leads
	broken   string
}

// Size bounds a world.
type Size struct {
	// Replicas is how many processes of Taintkeeper there are.
	Replicas int
	// Disturbances is how many things may happen in one history that nobody can expect: a user or a failure.
	Disturbances int
	// Pods are the names of the workloads that exist; nil means all.
	Pods []string
	// Kinds are the disturbances that may happen.
	Kinds []string
	// Unrecorded means that replicas do not record the built-in's backlog.
	Unrecorded bool
}

// The promises. Those that end with a condition are broken without it in a gap that docs/coexistence.md describes.
const (
	Deletes        = "Taintkeeper deletes no pod that may stay"
	DeletesHeld    = "Taintkeeper deletes no pod that a policy holds"
	DeletesUnasked = "Taintkeeper deletes no pod about which a policy asks the Eviction API"
	Waits          = "no pod that must leave waits while Taintkeeper leads and nothing keeps it"

	BuiltInMarks   = "the built-in marks no pod while the eviction clock is fresh"
	BuiltInDeletes = "the built-in deletes no pod that may stay because of a try that Taintkeeper held"

	BuiltInDeletesUnrecorded = BuiltInDeletes + ", if a replica saw and recorded what happened, in its order"
	BuiltInDeletesNext       = BuiltInDeletes + ", if it marked no earlier pod of that name within 25 s"
	BuiltInDeletesFreely     = BuiltInDeletes + ", if the admission policy is there"
	BuiltInWaits             = "the built-in evicts what becomes due while no replica runs, if its backlog is over"
)

// The kinds of disturbances.
const (
	Taint        = "taint"
	Untaint      = "untaint"
	Tolerate     = "tolerate"
	DeletePod    = "delete a pod"
	Crash        = "crash"
	Stop         = "stop"
	RestartKCM   = "restart kube-controller-manager"
	Pause        = "pause"
	Refuse       = "refuse"
	Lose         = "lose an answer"
	RemovePolicy = "remove the admission policy"
)

const (
	tick       = 30 * time.Second  // passes at a time while a replica leads, which renews the clock meanwhile
	stale      = 40 * time.Second  // after which the clock is stale if nobody renews it
	over       = 180 * time.Second // after which the built-in has made all its tries
	shortWhile = 30                // seconds for which some pods tolerate taints
	leadWithin = 20 * time.Second  // after which another replica leads
)

// NewEvictions returns the world at its beginning: all replicas are up, and the first leads.
func NewEvictions(size Size) *Evictions {
	var workloads []*workload
	var on []string
	for _, is := range []struct {
		*workload
		on string
	}{
		{&workload{name: "web", keepsName: true, budgeted: true, tolerations: []corev1.Toleration{tolerates("slow", shortWhile)}}, "a"},
		{&workload{name: "api", budgeted: true}, "a"},
		{&workload{name: "db", keepsName: true, tolerations: []corev1.Toleration{tolerates("", shortWhile)}}, "b"},
	} {
		if len(size.Pods) == 0 || slices.Contains(size.Pods, is.name) {
			is.number = len(workloads)
			workloads, on = append(workloads, is.workload), append(on, is.on)
		}
	}
	c := newCluster(workloads, on)
	w := &Evictions{cluster: c, size: size, left: size.Disturbances, builtIn: &kcm{c: c}}
	w.builtIn.restart()
	c.watchers = append(c.watchers, w.builtIn)
	for i := range size.Replicas {
		r := &replica{c: c, name: fmt.Sprintf("replica %d", i+1), unrecorded: size.Unrecorded}
		w.replicas = append(w.replicas, r)
		c.watchers = append(c.watchers, r)
		r.start()
	}
	w.lead(w.replicas[0])
	return w
}

// Broken implements [World].
func (w *Evictions) Broken() string { return w.broken }

// Fingerprint implements [World].
func (w *Evictions) Fingerprint() Fingerprint {
	return fingerprintOf(w.now, skipped, w.nodes, w.pods, w.account, w.inForce, w.paused, w.builtIn, w.replicas,
		w.left, w.changed, w.skewed, w.idle)
}

// skipped leaves out what does not change what happens: versions, counters of turns, and what never changes.
func skipped(field string) bool {
	switch field {
	case "c", "workload", "version", "From", "turns", "turn", "served", "judged", "at", "atReady", "atTurns", "limits",
		"less", "Memo", "there", "cluster", "rule", "in":
		return true
	}
	return false
}

// immutable are the types that are never modified.
var immutable = map[reflect.Type]bool{
	reflect.TypeFor[node](): true, reflect.TypeFor[pod](): true, reflect.TypeFor[workload](): true,
	reflect.TypeFor[policy.Policy](): true, reflect.TypeFor[metav1.Time](): true,
	reflect.TypeFor[corev1.Taint](): true, reflect.TypeFor[corev1.Toleration](): true, reflect.TypeFor[int64](): true,
}

// Clone implements [World].
func (w *Evictions) Clone() World {
	fresh := clone(w, immutable)
	for _, r := range fresh.replicas {
		r.rebind()
	}
	return fresh
}

// Steps implements [World].
func (w *Evictions) Steps() []Step {
	var steps []Step
	add := func(do Step) {
		steps = append(steps, func() string {
			at, line := w.now, do()
			w.simplify()
			return at.Format(time.TimeOnly) + "  " + line
		})
	}
	w.ordinary(add)
	if w.left == 0 {
		return steps
	}
	w.disturbances(func(kind string, do Step) {
		if slices.Contains(w.size.Kinds, kind) {
			add(func() string { w.left--; return do() })
		}
	})
	return steps
}

// simplify forgets the tries of the built-in once they can no longer do anything: the clock stays fresh, because
// nothing more happens to the leader.
func (w *Evictions) simplify() {
	if w.left == 0 && w.leader() != nil && w.fresh() && !slices.ContainsFunc(w.builtIn.tries, w.builtIn.can) {
		w.builtIn.tries = nil
	}
}

// does returns a step with a line.
func does(do func(), line string, args ...any) Step {
	return func() string { do(); return fmt.Sprintf(line, args...) }
}

// calls returns a step that may break a promise.
func (w *Evictions) calls(call func() (line, broken string)) Step {
	return func() (line string) { line, w.broken = call(); return line }
}

// ordinary adds what happens by itself.
func (w *Evictions) ordinary(add func(do Step)) {
	for _, r := range w.replicas {
		w.ofReplica(r, add)
	}
	for i, t := range w.builtIn.tries {
		if w.builtIn.can(t) && slices.Index(w.builtIn.tries, t) == i {
			add(w.calls(func() (string, string) { return w.builtInCalls(i) }))
		}
	}
	for _, p := range w.pods {
		if p != nil && p.terminating {
			add(w.replaces(p))
		}
	}
	for _, d := range []time.Duration{tick, stale, over} {
		if w.mayPass(d) {
			add(does(func() { w.pass(d) }, "%s pass", d))
		}
	}
}

// builtInCalls makes a call of the built-in. It says in which of the gaps a wrong delete is.
func (w *Evictions) builtInCalls(number int) (line, broken string) {
	t := w.builtIn.tries[number]
	p := w.named(t.name)
	line, broken = w.builtIn.call(number)
	switch {
	case broken != BuiltInDeletes:
	case t.marked != p.uid:
		broken = BuiltInDeletesNext
	case !w.inForce:
		broken = BuiltInDeletesFreely
	case w.changed || w.skewed:
		broken = BuiltInDeletesUnrecorded
	}
	return line, broken
}

// replaces ends a terminating pod, and creates the next of its workload on a node whose taints it tolerates.
func (w *Evictions) replaces(p *pod) Step {
	return func() string {
		on := ""
		for _, name := range nodeNames {
			tolerated := !slices.ContainsFunc(w.nodes[name].taints, func(t corev1.Taint) bool {
				return matching(p.workload.tolerations, t) < 0
			})
			if tolerated && (on == "" || name != p.node) {
				on = name
			}
		}
		if on == "" {
			on = p.node // a DaemonSet or a user puts it there
		}
		w.outOfStep()
		w.create(p.workload, on)
		return fmt.Sprintf("pod %s of UID %s is replaced by UID %s on node %s", p.name, p.uid, w.cluster.pods[p.number].uid, on)
	}
}

// outOfStep notes, before a pod changes, whether a replica has yet to see how taints have changed. Its watch of pods
// can then be ahead of that of nodes, so that it does not see that the pod was due.
func (w *Evictions) outOfStep() {
	w.skewed = w.skewed || slices.ContainsFunc(w.replicas, func(r *replica) bool { return len(r.newNodes) > 0 })
}

// ofReplica adds what a replica does.
func (w *Evictions) ofReplica(r *replica, add func(do Step)) {
	if !r.up {
		return
	}
	if len(r.newNodes) > 0 {
		add(does(r.deliverNodes, "%s sees nodes", r.name))
	}
	if len(r.newPods) > 0 {
		add(does(r.deliverPods, "%s sees pods", r.name))
	}
	if r.paused != w.paused {
		add(does(r.deliverPolicy, "%s sees the policy", r.name))
	}
	switch {
	case r.stopping:
		add(does(func() { w.handBack(r) }, "%s hands back and ends", r.name))
	case r.leads:
		w.ofLeader(r, add)
	case w.leader() == nil:
		add(does(func() { w.lead(r) }, "%s leads", r.name))
	}
}

// ofLeader adds what only a replica does that leads.
func (w *Evictions) ofLeader(r *replica, add func(do Step)) {
	if r.try != nil || r.ready() {
		add(w.calls(func() (string, string) { return r.call(answered) }))
	}
	if w.account.renewed != w.now || !r.isRecorded() {
		add(func() string {
			w.renew(r)
			return fmt.Sprintf("%s renews the clock; backlog %s", r.name, textOf(w.account.record))
		})
	}
	for _, p := range w.pods {
		if p == nil || p.terminating || p.mark != v1alpha1.MarkedByBuiltIn {
			continue
		}
		if known := r.seen(p.uid); known != nil && known.mark == p.mark {
			add(does(func() {
				w.edit(p, func(p *pod) { p.mark = v1alpha1.MarkedByTaintkeeper })
			}, "%s rewrites the mark of pod %s", r.name, p.name))
		}
	}
}

// ready reports whether some pod may be tried now.
func (r *replica) ready() bool {
	s := r.backlog.Stats(r.c.now)
	return s.Due > s.InFlight
}

func (w *Evictions) leader() *replica {
	for _, r := range w.replicas {
		if r.leads {
			return r
		}
	}
	return nil
}

// lead makes a replica the leader, which decides about all nodes and renews the clock.
func (w *Evictions) lead(r *replica) {
	r.leads, r.current = true, false
	w.idle = time.Time{}
	for _, name := range nodeNames {
		r.decide(name)
	}
	r.advance()
	w.renew(r)
}

// renew renews the clock, and records the backlog.
func (w *Evictions) renew(r *replica) {
	r.write(w.now)
	w.recorded(r)
}

// recorded notes that a replica has written the account.
func (w *Evictions) recorded(writer *replica) {
	for _, r := range w.replicas {
		if r != writer {
			r.current = false
		}
	}
	if len(writer.newNodes)+len(writer.newPods) == 0 {
		w.changed = false
	}
}

// handBack ends a replica that stops, as coexist does.
func (w *Evictions) handBack(r *replica) {
	working := r.hold.Working(w.now) > 3*time.Second
	nodes := r.leave()
	renewed := w.account.renewed
	if w.leader() == nil {
		renewed = time.Time{}
	}
	r.write(renewed)
	w.recorded(r)
	r.end()
	if w.leader() != nil {
		return
	}
	if working {
		return
	}
	for _, name := range nodes {
		taints := slices.Clone(w.nodes[name].taints)
		for i := range taints {
			at := w.now
			if taints[i].TimeAdded.Time.Equal(at) {
				at = at.Add(time.Second)
			}
			taints[i].TimeAdded = &metav1.Time{Time: at}
		}
		w.taint(name, taints)
	}
}

// mayPass reports whether some time may pass now: nobody has anything to do before it has.
func (w *Evictions) mayPass(d time.Duration) bool {
	until, leader := w.now.Add(d), w.leader()
	for _, r := range w.replicas {
		mustLead := leader == nil && until.Sub(w.idle) > leadWithin
		if r.up && (r.busy() || mustLead) {
			return false
		}
	}
	if leader != nil && (d > tick || w.account.renewed != w.now) {
		return false
	}
	lingers := func(p *pod) bool { return p != nil && p.terminating && until.After(p.ends) }
	return w.builtIn.mayRest(until) && !slices.ContainsFunc(w.pods, lingers)
}

// busy reports whether a replica has something to do at once.
func (r *replica) busy() bool {
	return len(r.newNodes)+len(r.newPods) > 0 || r.paused != r.c.paused || r.stopping ||
		r.leads && (r.try != nil || r.ready())
}

// pass lets time pass.
func (w *Evictions) pass(d time.Duration) {
	before := w.now
	w.broken = w.waits()
	w.now = w.now.Add(d)
	w.builtIn.rest()
	w.builtIn.fire(before, w.now)
	for _, r := range w.replicas {
		if !r.leads {
			continue
		}
		for _, name := range nodeNames {
			r.decide(name)
		}
		r.advance()
		w.renew(r)
	}
}

// waits returns the promise that is broken if a pod has waited for a tick although nothing keeps it.
func (w *Evictions) waits() string {
	before, leader := w.now.Add(-tick), w.leader()
	up := slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.up })
	stale := w.account.renewed.Add(v1alpha1.EvictionClockValidFor)
	for _, p := range w.pods {
		switch {
		case p == nil || p.terminating || !w.due(p, before):
		case leader != nil && !leader.born.After(before) && !w.keeps(p):
			return Waits
		case !up && !w.builtIn.works(p.name) && !w.due(p, stale):
			return BuiltInWaits
		}
	}
	return ""
}

// keeps reports whether a policy or a budget keeps a due pod.
func (w *Evictions) keeps(p *pod) bool { return p.budgeted && (w.paused || w.allowed() == 0) }

// disturb adds a disturbance of a kind.
type disturb func(kind string, do Step)

// disturbances adds what users and failures do.
func (w *Evictions) disturbances(add disturb) {
	for _, name := range nodeNames {
		for _, key := range []string{"out", "slow"} {
			w.ofTaint(name, key, add)
		}
	}
	for _, p := range w.pods {
		if p != nil && !p.terminating {
			w.ofPod(p, add)
		}
	}
	for _, r := range w.replicas {
		w.ofProcess(r, add)
	}
	add(RestartKCM, does(w.builtIn.restart, "kube-controller-manager restarts"))
	add(Pause, does(func() { w.paused = !w.paused }, "somebody pauses the EvictionPolicy: %t", !w.paused))
	if w.inForce {
		add(RemovePolicy, does(func() { w.inForce = false }, "somebody removes the admission policy"))
	}
}

// ofTaint adds that somebody sets or removes a taint of a node.
func (w *Evictions) ofTaint(name, key string, add disturb) {
	taints := slices.Clone(w.nodes[name].taints)
	at := slices.IndexFunc(taints, func(t corev1.Taint) bool { return t.Key == key })
	if at >= 0 {
		add(Untaint, does(func() {
			w.changed = true
			w.taint(name, slices.Delete(taints, at, at+1))
		}, "somebody removes the taint %s from node %s", key, name))
		return
	}
	add(Taint, does(func() {
		w.changed = true
		w.taint(name, append(taints, w.noExecute(key)))
	}, "somebody taints node %s with %s:NoExecute", name, key))
}

// ofPod adds what somebody does to a pod.
func (w *Evictions) ofPod(p *pod, add disturb) {
	if len(p.tolerations) == len(p.workload.tolerations) && p.workload.name != "db" {
		add(Tolerate, does(func() {
			w.changed = true
			w.outOfStep()
			w.edit(p, func(p *pod) { p.tolerations = append(slices.Clone(p.tolerations), tolerates("", -1)) })
		}, "somebody lets pod %s tolerate every taint", p.name))
	}
	add(DeletePod, does(func() { w.delete(p) }, "somebody deletes pod %s", p.name))
}

// ofProcess adds what happens to a replica and to its calls.
func (w *Evictions) ofProcess(r *replica, add disturb) {
	if !r.up {
		add(Crash, does(r.start, "%s starts", r.name))
		return
	}
	add(Crash, does(func() { w.noLead(r); r.end() }, "%s is killed", r.name))
	if !r.leads {
		return
	}
	add(Stop, does(func() {
		w.noLead(r)
		r.stopping, r.leads, r.try = true, false, nil
	}, "%s begins to stop", r.name))
	if r.try != nil && (r.try.marked || r.try.asks) {
		add(Refuse, w.calls(func() (string, string) { return r.call(refused) }))
		add(Lose, w.calls(func() (string, string) { return r.call(lost) }))
	}
}

// noLead notes that a replica no longer leads.
func (w *Evictions) noLead(r *replica) {
	if r.leads {
		w.idle = w.now
	}
}
