// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/explore"
)

// does returns a step with a line.
func does(do func(), line string, args ...any) explore.Step {
	return func() string { do(); return fmt.Sprintf(line, args...) }
}

// calls returns a step that may break a promise.
func (w *World) calls(call func() (line, broken string)) explore.Step {
	return func() (line string) { line, w.broken = call(); return line }
}

// ordinary adds what happens by itself.
func (w *World) ordinary(add func(do explore.Step)) {
	for _, r := range w.replicas {
		w.ofReplica(r, add)
	}
	for i, t := range w.builtIn.tries {
		if w.builtIn.can(t) && slices.Index(w.builtIn.tries, t) == i {
			add(w.calls(func() (string, string) { return w.builtInCalls(i) }))
		}
	}
	for _, of := range w.workloads {
		switch p := w.pods[of.number]; {
		case p == nil && w.place(of, "") != "":
			add(w.creates(of, w.place(of, "")))
		case p != nil && p.terminating:
			add(w.ends(p))
		}
	}
	for _, d := range []time.Duration{tick, stale, over} {
		if w.mayPass(d) {
			add(does(func() { w.pass(d) }, "%s pass", d))
		}
	}
}

// builtInCalls makes a call of the built-in. It says in which of the gaps a wrong delete is.
func (w *World) builtInCalls(number int) (line, broken string) {
	t := w.builtIn.tries[number]
	p := w.named(t.name)
	line, broken = w.builtIn.call(number)
	switch {
	case broken != BuiltInDeletes:
	case t.marked != p.uid:
		broken = BuiltInDeletesNext
	case !w.inForce:
		broken = BuiltInDeletesFreely
	case t.unseen:
		broken = BuiltInDeletesUnrecorded
	case t.alone:
		broken = BuiltInDeletesAlone
	}
	return line, broken
}

// place returns the node on which the next pod of a workload runs: one whose taints it tolerates, another than before
// if possible; empty if there is none.
func (w *World) place(of *workload, before string) (on string) {
	for _, name := range nodeNames {
		tolerated := !slices.ContainsFunc(w.nodes[name].taints, func(t corev1.Taint) bool {
			return matching(of.tolerations, t) < 0
		})
		if tolerated && (on == "" || name != before) {
			on = name
		}
	}
	return on
}

// ends ends a terminating pod. The next of its workload is created at once, if there is a node for it.
func (w *World) ends(p *pod) explore.Step {
	if on := w.place(p.workload, p.node); on != "" {
		return w.creates(p.workload, on)
	}
	return does(func() { w.outOfStep(); w.set(p.workload, nil) }, "pod %s of UID %s is gone", p.name, p.uid)
}

// creates creates the next pod of a workload.
func (w *World) creates(of *workload, on string) explore.Step {
	return func() string {
		w.outOfStep()
		w.create(of, on)
		return fmt.Sprintf("pod %s of UID %s is created on node %s", w.pods[of.number].name, w.pods[of.number].uid, on)
	}
}

// outOfStep notes, before a pod changes, whether a replica has yet to see how taints have changed. Its watch of pods
// can then be ahead of that of nodes, so that it does not see that the pod was due.
func (w *World) outOfStep() {
	w.skewed = w.skewed || slices.ContainsFunc(w.replicas, func(r *replica) bool { return len(r.newNodes) > 0 })
}

// ofReplica adds what a replica does.
func (w *World) ofReplica(r *replica, add func(do explore.Step)) {
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
func (w *World) ofLeader(r *replica, add func(do explore.Step)) {
	if r.try != nil {
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

func (w *World) leader() *replica {
	for _, r := range w.replicas {
		if r.leads {
			return r
		}
	}
	return nil
}

// lead makes a replica the leader, which decides about all nodes and renews the clock.
func (w *World) lead(r *replica) {
	r.leads, r.current = true, false
	w.idle = time.Time{}
	for _, name := range nodeNames {
		r.decide(name)
	}
	r.advance()
	w.renew(r)
}

// renew renews the clock, and records the backlog.
func (w *World) renew(r *replica) {
	r.write(w.now)
	w.recorded(r)
}

// recorded notes that a replica has written the account.
func (w *World) recorded(writer *replica) {
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
func (w *World) handBack(r *replica) {
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
func (w *World) mayPass(d time.Duration) bool {
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
		r.try != nil
}

// pass lets time pass.
func (w *World) pass(d time.Duration) {
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
func (w *World) waits() string {
	before, leader := w.now.Add(-tick), w.leader()
	up := slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.up })
	stale := w.account.renewed.Add(v1alpha1.EvictionClockValidFor)
	for _, p := range w.pods {
		switch {
		case p == nil || p.terminating || !w.due(p, before):
		case leader != nil && !leader.born.After(before) && !w.keeps(p, before):
			return Waits
		case !up && !w.builtIn.works(p.name) && !w.due(p, stale):
			return BuiltInWaits
		}
	}
	return ""
}

// keeps reports whether a policy, its budget or a failure has kept a due pod since an instant.
func (w *World) keeps(p *pod, since time.Time) bool {
	asks := !w.due(p, since.Add(-deadline)) || w.unpaused.After(since.Add(-deadline))
	return p.budgeted && (w.paused || asks && w.allowed() == 0) || w.hindered.After(since)
}
