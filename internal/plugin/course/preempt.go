// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

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

// tellVictims says which pods made room for a successor.
func tellVictims(where *cliv1alpha1.WhereTo, victims []*pod) {
	for _, victim := range victims {
		where.Preempts = append(where.Preempts, victim.Namespace+"/"+victim.Name)
	}
	where.Warnings = append(where.Warnings, cliv1alpha1.PlacementWarning{
		Type: cliv1alpha1.WarningPreempts,
		Message: fmt.Sprintf("It preempts %s of lower priority: %s.",
			sentence.Counted(len(victims), "pod"), sentence.Some(where.Preempts)),
	})
}
