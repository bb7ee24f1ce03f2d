// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// PoliciesOf returns the policies of a cluster, or nil if it has none.
func (c *Cluster) PoliciesOf() *policies.Set {
	if len(c.Policies) == 0 {
		return nil
	}
	return policies.New(c.Policies, c.Namespaces, c.BudgetsOf())
}

// BudgetsOf returns a function that finds the PodDisruptionBudgets of a pod.
func (c *Cluster) BudgetsOf() policies.BudgetsOf {
	covers := coverage(c.Budgets)
	return func(namespace string, pod labels.Set) (all []*policyv1.PodDisruptionBudget) {
		for _, budget := range covers.of(namespace, pod) {
			all = append(all, budget.PodDisruptionBudget)
		}
		return all
	}
}

// steps are the API's values for the steps of policies.
var steps = map[policy.Step]cliv1alpha1.PolicyStep{
	policy.Free: cliv1alpha1.PolicyFree, policy.Ask: cliv1alpha1.PolicyAsk,
	policy.Wait: cliv1alpha1.PolicyWait, policy.Hold: cliv1alpha1.PolicyHold,
}

// answerOf says what policies do with a pod.
func answerOf(course policies.Course) *cliv1alpha1.PolicyAnswer {
	first := course.First
	answer := &cliv1alpha1.PolicyAnswer{
		Says: steps[first.Step], Policy: first.Policy, Reason: string(first.Why),
		Until: microTime(first.Until), LeavesAt: microTime(course.Leaves), LastPolicy: course.Last.Policy,
	}
	if first.Policy != "" {
		answer.Message = first.String()
	}
	return answer
}

// FactsOf are what the rule needs to know about a pod.
func FactsOf(pod *corev1.Pod, at time.Time) verdict.Pod {
	return verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: verdict.SeenAt(at).Start(verdict.Bound(pod))}
}

// Unwanted reports whether the DaemonSet controller deletes a pod regardless of policies. It does if the pod does not
// tolerate a NoExecute taint at all (NodeShouldRunDaemonPod in pkg/controller/daemon).
func Unwanted(pod *corev1.Pod, causes []policy.Cause) bool {
	return isOfDaemonSet(pod) && refused(pod.Spec.Tolerations, causes)
}

func isOfDaemonSet(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	return controller != nil && controller.Kind == "DaemonSet"
}

// refused reports whether tolerations do not tolerate one of the causes at all.
func refused(tolerations []corev1.Toleration, causes []policy.Cause) bool {
	return slices.ContainsFunc(causes, func(cause policy.Cause) bool {
		_, untolerated := Rule.Matcher.Untolerated([]corev1.Taint{*cause.Taint}, taints.Lasting(tolerations))
		return untolerated
	})
}

// explainPolicies adds what each policy says about a pod on its node, and what all of them say together.
func (s *Subject) explainPolicies(e *cliv1alpha1.Explanation, facts verdict.Pod, onNode []verdict.Taint) {
	if s.Policies == nil {
		return
	}
	e.Notes = append(e.Notes, s.Policies.Flaws...)
	pod, node := policies.PodOf(s.Pod), policies.NodeOf(s.Node)
	causes := policy.CausesOf(Rule, facts, onNode)
	leaves := e.Leaves && len(causes) > 0
	if leaves && Unwanted(s.Pod, causes) {
		leaves = false
		e.Notes = append(e.Notes, "The DaemonSet controller deletes the pod, whatever EvictionPolicies say, because it does not tolerate the taint at all.")
	}
	for _, p := range s.Policies.All {
		explained := cliv1alpha1.ExplainedPolicy{Name: p.Name, DryRun: p.DryRun, Pace: paceOf(p)}
		explained.Mismatch = s.Policies.Mismatch(p, pod, node)
		explained.Selects = explained.Mismatch == ""
		if due, applies := p.Due(causes); leaves && applies && explained.Selects {
			course := s.course([]*policy.Policy{p}, applying(p, causes))
			explained.Answer = answerOf(course)
			s.release(&explained, p, course.First, due)
		}
		e.Policies = append(e.Policies, explained)
	}
	if selecting := s.Policies.Selecting(pod, node); leaves && len(selecting) > 0 {
		e.Answer = answerOf(s.course(selecting, causes))
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

// paceOf says how fast a policy releases pods. It is empty if the policy sets no pace.
func paceOf(p *policy.Policy) string {
	pace := p.Pace()
	if pace == nil {
		return ""
	}
	scope := map[string]string{"Node": "each node", "Zone": "each zone", "Cluster": "the cluster"}[string(pace.Scope)]
	pods := sentence.Counted(pace.Pods, "pod")
	return fmt.Sprintf("at most %s per %s in %s", pods, sentence.Duration(pace.Per), scope)
}
