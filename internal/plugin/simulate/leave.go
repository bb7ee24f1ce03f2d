// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// lookAt schedules a look at the pods of a node, at the earliest requested instant.
func (s *simulation) lookAt(n *node, at time.Time) { n.look.set(at) }

// look lets the due pods of a node leave, unless policies object.
func (s *simulation) look(n *node, now time.Time) {
	if now.Before(s.down) {
		s.lookAt(n, s.down)
		return
	}
	var due []leaver
	var next time.Time
	for _, p := range n.pods {
		if !s.mayLeave(p) {
			continue
		}
		v := state.Rule.Decide(p.facts, n.taints)
		p.held = policy.Answer{}
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
	for _, l := range due {
		s.evict(l, now)
	}
}

// mayLeave reports whether taints can make a pod leave its node. A course ends, so its successors stay where they come.
func (s *simulation) mayLeave(p *pod) bool {
	return p.stage == bound && !state.IsStatic(p.Pod) && (s.course == nil || p.first)
}

// leaver is a pod that is due.
type leaver struct {
	*pod

	verdict verdict.Verdict
}

// evict makes a pod leave.
func (s *simulation) evict(l leaver, now time.Time) {
	if s.course != nil {
		s.course.loses(l)
	} else {
		n, taint := l.on, taints.Format(l.verdict.Taint.Taint)
		s.story.add(now, left, zoneOf(n.Node), taint, n.Name)
		s.tellPod(l.pod).Taint = taint
	}
	s.leave(l.pod, now)
}

// leave makes a pod start to leave.
func (s *simulation) leave(p *pod, now time.Time) {
	n := p.on
	if s.course == nil {
		s.tellLeaves(p, now)
	}
	if s.policies != nil {
		s.policies.left(p, now)
	}
	p.stage = terminating
	s.recount(p)
	why := s.makers.WhyWait(p.Pod)
	if why == "" {
		s.succeed(p, now)
	}
	if n == nil { // its node is unknown
		s.remove(p, now)
		return
	}
	s.endsAfterGrace(p, now)
	if p.stage == gone {
		return
	}
	if s.room != nil && !p.is.Finished {
		s.fail(s.room.Terminate(p.Pod))
	}
	if s.course != nil && n.silent && why != "" {
		s.course.goes(p, placement.NoSuccessor("Its node is unreachable, so the pod stays Terminating. "+why))
	}
}

// endsAfterGrace lets the kubelet of a pod end it from an instant on. Its containers may use all of its grace period.
func (s *simulation) endsAfterGrace(p *pod, now time.Time) {
	switch grace := graceOf(p.Pod); {
	case grace == 0 || state.IsOutOfService(p.on.Node):
		s.isGone(p, now)
	case !p.on.silent:
		s.queue.add(now.Add(grace), looks, func(now time.Time) { s.ends(p, now) })
		if p.workload != nil && s.makers.WhyWait(p.Pod) != "" {
			p.workload.atMost = true
		}
	}
}

// ends ends a pod, if its kubelet is alive and can tell the API server. If its kubelet is silent, it stays until the
// kubelet is back.
func (s *simulation) ends(p *pod, now time.Time) {
	switch {
	case now.Before(s.down):
		s.queue.add(s.down, looks, func(now time.Time) { s.ends(p, now) })
	case !p.on.silent:
		s.isGone(p, now)
	}
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
