// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// lookAt schedules a look at the pods of a node, at the earliest requested instant.
func (s *simulation) lookAt(n *node, at time.Time) { n.look.set(at) }

// look lets the due pods of a node leave, unless policies object.
func (s *simulation) look(n *node, now time.Time) {
	if now.Before(s.down) && s.builtIn == nil {
		s.lookAt(n, s.down)
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
	s.lookAt(n, next)
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
		s.tellLeaves(p, now)
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

// endAfterGrace lets a pod that leaves use its grace period, and reports whether it is known when the pod is gone.
func (s *simulation) endAfterGrace(p *pod, leaves time.Time) bool {
	at := p.goneAt(leaves)
	if at.IsZero() {
		return false
	}
	waits := s.makers.WhyWait(p.Pod) != "" || len(p.volumes) > 0 // its successor, or for its volume
	if at.After(leaves) && waits && p.workload != nil {
		p.workload.atMost = true
	}
	s.goneFrom(p, at)
	return true
}

// goneAt returns when a pod is gone that leaves at an instant, if its containers use all of its grace period. It is
// zero if nobody ends the pod.
func (p *pod) goneAt(leaves time.Time) time.Time {
	switch {
	case p.stays():
		return time.Time{}
	case p.on == nil || state.IsOutOfService(p.on.Node):
		return leaves
	}
	return leaves.Add(graceOf(p.Pod))
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
				s.noSuccessor(p.of, s.makers.WhyFails(p.Pod))
			}
		}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(p *pod) bool { return p.stage == gone })
}
