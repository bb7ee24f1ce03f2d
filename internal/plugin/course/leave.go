// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// look lets the due pods of a node leave, unless policies object.
func (s *simulation) look(n *node, now time.Time) {
	if now.Before(s.down) && s.builtIn == nil {
		n.look.set(s.down)
		return
	}
	var due []leaver
	var next time.Time
	for _, p := range n.pods {
		v := s.decided(p, n)
		p.held = nil
		switch {
		case !v.Leaves:
		case v.DueAt(now):
			due = append(due, leaver{p, v})
		case next.IsZero() || v.Due.Before(next):
			next = v.Due
		}
	}
	n.look.set(next)
	if s.policies != nil {
		due = s.object(n, due, now)
	}
	if s.builtIn != nil {
		s.builtIn.begin(s, due, now)
		return
	}
	for _, l := range due {
		s.evict(l, now)
	}
}

// mayLeave reports whether taints can make a pod leave its node. A course ends, so its successors stay where they come.
func (s *simulation) mayLeave(p *pod) bool {
	return p.stage == bound && !state.IsStatic(p.Pod) && (s.outcome == nil || p.first)
}

// decided returns when a pod must leave its node. Its eviction does not begin again.
func (s *simulation) decided(p *pod, n *node) verdict.Verdict {
	if p.begun || !s.mayLeave(p) {
		return verdict.Verdict{}
	}
	return s.verdictOn(p, n)
}

// verdictOn returns the verdict on a pod on its node, whether it may leave or not.
func (s *simulation) verdictOn(p *pod, n *node) verdict.Verdict {
	if s.builtIn != nil {
		return s.builtIn.timers[p]
	}
	return state.Rule.Decide(p.facts, n.taints)
}

// leaver is a pod that is due.
type leaver struct {
	*pod

	verdict verdict.Verdict
}

// evict makes a pod leave.
func (s *simulation) evict(l leaver, now time.Time) {
	switch n, taint := l.on, taints.Format(l.verdict.Taint.Taint); {
	case s.outcome == nil:
		s.story.add(now, left, zoneOf(n.Node), taint, n.Name)
		s.tellPod(l.pod).Taint = taint
	case s.outcome.nodes[n.Name]:
		s.outcome.loses(l.pod)
	}
	s.leave(l.pod, now)
}

// leave makes a pod start to leave.
func (s *simulation) leave(p *pod, now time.Time) {
	n := p.on
	if s.outcome == nil {
		told := s.tellPod(p)
		told.LeavesAt, told.Lost, told.LocalData = new(s.offset(now)), state.IsBare(p.Pod), state.HasLocalData(p.Pod)
		if n != nil {
			s.tellNode(n)
		}
	}
	if s.policies != nil {
		s.policies.left(p, now)
	}
	p.stage = terminating
	s.recount(p)
	if n != nil && s.room != nil && !p.is.Finished {
		s.fail(s.room.Terminate(p.Pod))
	}
	why := s.makers.WhyWait(p.Pod)
	if why == "" {
		s.succeed(p, now)
	}
	if !s.endAfterGrace(p, now) && s.outcome != nil && why != "" {
		s.outcome.goes(p, placement.NoSuccessor("Its node is unreachable, so the pod stays Terminating. "+why))
	}
}

// endAfterGrace lets the containers of a pod that leaves use all of its grace period, and reports whether it is known
// when the pod is gone.
func (s *simulation) endAfterGrace(p *pod, leaves time.Time) bool {
	if p.stays() {
		return false
	}
	at := leaves
	if p.on != nil && !state.IsOutOfService(p.on.Node) {
		at = leaves.Add(graceOf(p.Pod))
	}
	waits := s.makers.WhyWait(p.Pod) != "" || len(p.volumes) > 0 // its successor, or for its volume
	if at.After(leaves) && waits && p.workload != nil {
		p.workload.atMost = true
	}
	s.goneFrom(p, at)
	return true
}

// stays reports whether a pod that leaves stays Terminating: neither does its kubelet end it, nor does the API server
// delete it without its kubelet, nor does pod garbage collection because its node is out of service.
func (p *pod) stays() bool {
	return p.on != nil && p.on.silent && graceOf(p.Pod) > 0 && !state.IsOutOfService(p.on.Node)
}

// graceOf returns the longest time that a pod may take to end. If it is 0, or the pod has finished, the API server
// deletes the pod without its kubelet.
func graceOf(pod *corev1.Pod) time.Duration {
	if state.IsFinished(pod) {
		return 0
	}
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	for _, set := range []*int64{pod.Spec.TerminationGracePeriodSeconds, pod.DeletionGracePeriodSeconds} {
		seconds = ptr.Deref(set, seconds)
	}
	return time.Duration(max(seconds, 0)) * time.Second
}

// goneFrom lets a pod be gone from an instant on, or once its kubelet can tell the API server. Pods that are gone in
// the same instant free their places together, after successors that do not wait for that have looked for room.
func (s *simulation) goneFrom(p *pod, at time.Time) {
	if s.ending[at] == nil {
		s.queue.add(at, ends, func(now time.Time) {
			all := s.ending[now]
			delete(s.ending, now)
			for _, p := range all {
				switch {
				case now.Before(s.down):
					s.goneFrom(p, s.down)
				case !p.stays(): // its node may have fallen silent
					s.isGone(p, now)
				}
			}
		})
	}
	s.ending[at] = append(s.ending[at], p)
}

// failJob ends the other pods of a Job that fails, including those that wait for a node. It does so only once.
func (s *simulation) failJob(of *pod, now time.Time) {
	controller := metav1.GetControllerOfNoCopy(of.Pod)
	others, fails := s.ofJob[controller.UID]
	if !fails {
		return
	}
	delete(s.ofJob, controller.UID)
	s.story.add(now, jobFailed, "", s.nameOf(of), "")
	for _, p := range others {
		switch {
		case p.stage == bound && !p.is.Finished:
			s.leave(p, now)
		case p.stage == waiting:
			s.remove(p, now)
			if p.of != nil {
				s.noSuccessor(p.of, placement.NoSuccessor(s.makers.WhyFails(p.Pod)))
			}
		}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(p *pod) bool { return p.stage == gone })
}

// Preempted is a pod that makes room for the successor of a pod that leaves.
type Preempted struct {
	Pod *corev1.Pod
	By  *corev1.Pod // the pod that leaves; nil if a pod preempts it that waited for a node at the start
	At  time.Time
}

// preempt lets the victims of a pod leave. The pod looks for room again when they are gone.
func (s *simulation) preempt(p *pod, is placement.Preemption, now time.Time) {
	victims := []*pod{}
	for _, victim := range slices.Clone(s.nodes[is.Node].pods) {
		if !slices.ContainsFunc(is.Victims, func(pod *corev1.Pod) bool { return pod.UID == victim.UID }) {
			continue
		}
		victims = append(victims, victim)
		if victim.stage != bound { // it leaves already
			continue
		}
		s.story.add(now, preempted, zoneOf(victim.on.Node), s.nameOf(p), victim.on.Name)
		s.tellPod(victim).PreemptedBy = p.Namespace + "/" + p.Name
		if s.outcome != nil && victim.first {
			is := Preempted{Pod: victim.Pod, At: now}
			if p.of != nil {
				is.By = p.of.Pod
			}
			s.outcome.Preempted = append(s.outcome.Preempted, is)
			s.outcome.loses(victim)
		}
		s.leave(victim, now)
		if p.workload != nil && graceOf(victim.Pod) > 0 {
			p.workload.atMost = true
		}
	}
	s.victims[p] = victims
}

// preempting reports whether a pod waits until the pods are gone that it preempts.
func (s *simulation) preempting(p *pod) bool {
	return slices.ContainsFunc(s.victims[p], func(victim *pod) bool { return victim.stage != gone })
}

// budgetsNow returns the PodDisruptionBudgets with what they allow now.
func (s *simulation) budgetsNow() (all []*policyv1.PodDisruptionBudget) {
	for _, name := range slices.Sorted(maps.Keys(s.allowed)) {
		b := s.allowed[name]
		now := *b.PodDisruptionBudget
		now.Status.DisruptionsAllowed = int32(b.room())
		all = append(all, &now)
	}
	return all
}

// evicting is kube-controller-manager's evictions, if Taintkeeper does not evict. A nil one does nothing.
type evicting struct {
	evictor state.Evictor
	timers  map[*pod]verdict.Verdict
	queue   builtin.Queue
	begun   []leaver // by their numbers in the queue
	calls   once
	leaders int // how many have led and lost their Lease
}

// loadBuiltIn returns kube-controller-manager's evictions at the start, with those that have begun before, or nil if it
// does not evict.
func (s *simulation) loadBuiltIn() *evicting {
	if !s.cluster.IsBuiltIn() {
		return nil
	}
	e := &evicting{evictor: s.cluster.Evictor, timers: map[*pod]verdict.Verdict{}}
	e.calls = once{queue: &s.queue, kind: calls, do: func(now time.Time) { e.call(s, now) }}
	var due []leaver
	for _, name := range s.names {
		for _, p := range s.nodes[name].pods {
			timer := e.evictor.Decide(p.facts, p.on.taints)
			if e.evictor.Forgot(timer, s.start) {
				continue
			}
			if e.timers[p] = timer; timer.DueAt(s.start) && p.stage == bound {
				due = append(due, leaver{p, timer})
			}
		}
	}
	slices.SortStableFunc(due, func(a, b leaver) int { return a.verdict.Due.Compare(b.verdict.Due) })
	for _, l := range due {
		e.begin(s, []leaver{l}, l.verdict.Due)
	}
	return e
}

// look lets the controller look at pods on a node, because the node or the pods have changed.
func (e *evicting) look(now time.Time, pods ...*pod) {
	if e == nil {
		return
	}
	for _, p := range pods {
		e.timers[p] = e.evictor.Change(e.timers[p], p.facts, p.on.taints, now)
	}
}

// begin begins the evictions of pods that are due. They go on whatever happens. Without an API server, five tries fail
// within 50 ms, and the pod is forgotten.
func (e *evicting) begin(s *simulation, due []leaver, now time.Time) {
	for _, l := range due {
		if l.begun = true; now.Before(s.down) {
			continue
		}
		e.queue.Add(now)
		e.begun = append(e.begun, l)
		e.calls.set(instant.Later(now, s.start))
	}
}

// call makes the calls that are made at an instant.
func (e *evicting) call(s *simulation, now time.Time) {
	begun, leader := e.begun, e.leaders
	e.queue.Advance(now, func(number int, at time.Time) {
		s.queue.add(instant.Later(at, now), calls, func(now time.Time) {
			if l := begun[number]; l.stage == bound && leader == e.leaders && !now.Before(s.down) {
				s.evict(l, now)
			}
		})
	})
	_, next := e.queue.Next()
	e.calls.set(next)
}

// renewDeadline is for how long the leader of kube-controller-manager tries to renew its Lease before it exits.
const renewDeadline = 10 * time.Second

// loses makes the leader lose its Lease in an outage of the API server. The next leader begins all countdowns again.
func (e *evicting) loses(s *simulation, from, until time.Time) {
	if e == nil || until.Sub(from) < renewDeadline {
		return
	}
	s.queue.add(until, stepped, func(now time.Time) {
		if now.Before(s.down) {
			return
		}
		e.queue, e.begun, e.leaders = builtin.Queue{}, nil, e.leaders+1
		clear(e.timers)
		for _, name := range s.names {
			n := s.nodes[name]
			for _, p := range n.pods {
				p.begun = false
			}
			e.look(now, n.pods...)
			n.look.set(now)
		}
	})
}

// compare says what would be different with Taintkeeper for the pods of the start, whatever happens to successors.
func compare(
	ctx context.Context, report *cliv1alpha1.SimulationReport, cluster *state.Cluster, scenario *Scenario, options Options,
) ([]string, error) {
	with := *cluster
	with.Evictor, options.WhereTo = state.Evictor{Who: cliv1alpha1.WhoTaintkeeper}, false
	ours, err := Play(ctx, &with, scenario, options)
	if err != nil {
		return nil, err
	}
	is, then := leaving(report), leaving(ours)
	var compared state.Comparison
	for _, pod := range cluster.Pods {
		uid := state.WithUID(pod).UID
		compared.Add(is[uid], then[uid])
	}
	return compared.Notes(), nil
}

// leaving returns the pods of the start that leave, and when.
func leaving(report *cliv1alpha1.SimulationReport) map[types.UID]verdict.Verdict {
	all := map[types.UID]verdict.Verdict{}
	for i := range report.Pods {
		if pod := &report.Pods[i]; pod.UID != "" && pod.LeavesAt != nil {
			all[pod.UID] = verdict.Verdict{Reason: verdict.Reason{Leaves: true, Due: report.At.Add(pod.LeavesAt.Duration)}}
		}
	}
	return all
}
