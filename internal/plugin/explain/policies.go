// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// explainPolicies adds what each policy says about a pod on its node, and what all of them say together.
func (s *Subject) explainPolicies(e *cliv1alpha1.Explanation, facts verdict.Pod, onNode []verdict.Taint) {
	if s.Policies == nil || s.IsBuiltIn() { // they hold no pods that kube-controller-manager evicts
		return
	}
	e.Notes = append(e.Notes, s.Policies.Flaws...)
	pod, node := policies.PodOf(s.Pod), policies.NodeOf(s.Node)
	causes := policy.CausesOf(state.Rule, facts, onNode)
	leaves := e.Leaves && len(causes) > 0
	if leaves && state.Unwanted(s.Pod, causes) {
		leaves = false
		e.Notes = append(e.Notes, "The DaemonSet controller deletes the pod, whatever EvictionPolicies say, because it does not tolerate the taint at all.")
	}
	for _, p := range s.Policies.All {
		explained := cliv1alpha1.ExplainedPolicy{Name: p.Name, DryRun: p.DryRun, Pace: policies.PaceOf(p)}
		explained.Mismatch = s.Policies.Mismatch(p, pod, node)
		explained.Selects = explained.Mismatch == ""
		if due, applies := p.Due(causes); leaves && applies && explained.Selects {
			course := s.course([]*policy.Policy{p}, applying(p, causes))
			explained.Answer = policies.AnswerOf(course)
			s.release(&explained, p, course.First, due)
		}
		e.Policies = append(e.Policies, explained)
	}
	if selecting := s.Policies.Selecting(pod, node); leaves && len(selecting) > 0 {
		e.Answer = policies.AnswerOf(s.course(selecting, causes))
	}
}

func (s *Subject) course(selecting []*policy.Policy, causes []policy.Cause) policies.Course {
	return s.Policies.Course(selecting, policies.PodOf(s.Pod), policies.NodeOf(s.Node), causes, s.At)
}

// applying returns the causes that a policy applies to.
func applying(p *policy.Policy, causes []policy.Cause) (all []policy.Cause) {
	for _, cause := range causes {
		if p.Applies(cause.Taint) {
			all = append(all, cause)
		}
	}
	return all
}
