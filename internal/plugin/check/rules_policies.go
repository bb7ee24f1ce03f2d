// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// selection is an EvictionPolicy and the pods that it selects.
type selection struct {
	*v1alpha1.EvictionPolicy

	pods []*corev1.Pod // those that are not terminating and that a taint can evict
}

func (s *selection) finding(message string) Finding {
	return Finding{
		Object:  objectOf("EvictionPolicy", "", s.Name),
		Message: message,
	}
}

// selectionsOf finds the pods of each policy.
func selectionsOf(cluster *state.Cluster) []selection {
	set := cluster.PoliciesOf()
	if set == nil {
		return nil
	}
	nodes := map[string]policies.Node{}
	for _, node := range cluster.Nodes {
		nodes[node.Name] = policies.NodeOf(node)
	}
	var all []selection
	for _, object := range cluster.Policies {
		compiled, _ := policy.New(object) // a selector that cannot be read selects everything
		s := selection{EvictionPolicy: object}
		for _, pod := range cluster.Pods {
			selects := set.Mismatch(compiled, policies.PodOf(pod), nodes[pod.Spec.NodeName]) == ""
			if selects && pod.DeletionTimestamp == nil && !state.IsStatic(pod) {
				s.pods = append(s.pods, pod)
			}
		}
		all = append(all, s)
	}
	return all
}

// heeded returns the pods that policies hold, or about which they ask budgets, for any taint. Deadlines do not count,
// because they were chosen deliberately.
func (f *Facts) heeded() map[*corev1.Pod]bool {
	all := map[*corev1.Pod]bool{}
	for _, s := range f.policies {
		if !s.Spec.DryRun && s.Spec.Action != v1alpha1.ActionDelete && len(s.Spec.Taints) == 0 {
			for _, pod := range s.pods {
				all[pod] = true
			}
		}
	}
	return all
}

// perPolicy examines each policy, and reports at most one finding for each. Dry runs hold nothing.
func (f *Facts) perPolicy(look func(*selection) (Finding, bool)) []Finding {
	var all []Finding
	for i := range f.policies {
		if f.policies[i].Spec.DryRun {
			continue
		}
		if finding, ok := look(&f.policies[i]); ok {
			all = append(all, finding)
		}
	}
	return all
}

// policySelectsNothing: someone relies on a policy whose selectors have a typo.
var policySelectsNothing = Rule{
	ID:       "policy-selects-nothing",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy selects no pods",
	Advice:   "Correct the selectors, or delete the policy.",
	Find: func(facts *Facts) []Finding {
		return facts.perPolicy(func(s *selection) (Finding, bool) {
			return s.finding("Its selectors match no pods, so it holds nothing."), len(facts.Pods) > 0 && len(s.pods) == 0
		})
	},
}

// policyHoldsWithoutEnd: a pause has a reason and is ended by someone, and a breaker counts. A bare Hold is forgotten.
var policyHoldsWithoutEnd = Rule{
	ID:       "policy-holds-without-end",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy holds pods and never lets them go",
	Advice:   "Give the policy a deadline, or give a reason in paused.",
	Find: func(facts *Facts) []Finding {
		return facts.perPolicy(func(s *selection) (Finding, bool) {
			endless := s.Spec.Action == v1alpha1.ActionHold &&
				s.Spec.Deadline == nil && s.Spec.Paused == nil && s.Spec.Breaker == nil &&
				(len(s.pods) > 0 || len(facts.Pods) == 0) // otherwise policySelectsNothing reports it
			return s.finding("Its action is Hold, and it sets no deadline, breaker or reason in paused: " +
				"pods stay on tainted nodes until someone deletes the policy."), endless
		})
	},
}

// policyUnknownKey: a policy with a misspelled key applies to no taint.
var policyUnknownKey = Rule{
	ID:       "policy-unknown-key",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy names an unknown taint key",
	Advice:   "Correct the key, unless you plan a taint with this key.",
	Find: func(facts *Facts) []Finding {
		var all []Finding
		onNodes := facts.keys()
		for i := range facts.policies {
			s := &facts.policies[i]
			for j, taint := range s.Spec.Taints {
				finding := facts.judgeKey(fmt.Sprintf("spec.taints[%d]", j), taint.Key, onNodes)
				if finding.Message != "" {
					finding.Object = s.finding("").Object
					all = append(all, finding)
				}
			}
		}
		return all
	},
}

// policyDown: the built-in controller does not know policies. Only an admission policy can stop it.
var policyDown = Rule{
	ID:       "policy-if-down",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy's ifDown: Hold has no effect",
	Advice:   "Install ValidatingAdmissionPolicy taintkeeper-held with the chart (mode=enforce, coexist.enabled=true), or set ifDown to Evict.",
	Find: func(facts *Facts) []Finding {
		if !facts.Signs.HoldersKnown || len(facts.Signs.Holders) > 0 || facts.eviction.builtIn == who.NotRunning {
			return nil
		}
		return facts.perPolicy(func(s *selection) (Finding, bool) {
			return s.finding("It has ifDown: Hold, but no ValidatingAdmissionPolicy takes EvictionPolicies as its parameters: " +
				"while Taintkeeper is not running, the built-in controller evicts the selected pods when they are due."), s.Spec.IfDown == v1alpha1.IfDownHold
		})
	},
}

// policyBlockedBudget: the Eviction API never evicts such pods, and nothing else ends the wait.
var policyBlockedBudget = Rule{
	ID:       "policy-blocked-budget",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy waits for a PodDisruptionBudget that can never allow an eviction",
	Advice:   "Give the policy a deadline, or let the PodDisruptionBudget allow a disruption.",
	Find: func(facts *Facts) []Finding {
		const why = "It has no deadline, so pods whose PodDisruptionBudget can never allow an eviction"
		return facts.askedInVain(why, func(s *selection, budgets []*covering) bool {
			return s.Spec.Deadline == nil && len(budgets) == 1 && budgets[0].never()
		})
	},
}

// policySeveralBudgets: the Eviction API returns 500 for such pods, whatever the budgets allow.
var policySeveralBudgets = Rule{
	ID:       "policy-several-budgets",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "An EvictionPolicy uses the Eviction API for pods with several PodDisruptionBudgets, which the API refuses",
	Advice:   "Change the selectors of the PodDisruptionBudgets so that each pod has one.",
	Find: func(facts *Facts) []Finding {
		const why = "The Eviction API refuses pods that have several PodDisruptionBudgets, so they"
		return facts.askedInVain(why, func(_ *selection, budgets []*covering) bool { return len(budgets) > 1 })
	},
}

// askedInVain reports a finding for each policy that asks the Eviction API about pods that it never evicts, according
// to their budgets.
func (f *Facts) askedInVain(why string, vain func(*selection, []*covering) bool) []Finding {
	covers := coveringOf(f.Cluster)
	return f.perPolicy(func(s *selection) (Finding, bool) {
		var pods []string
		var budgets []*covering
		for _, one := range s.asked(covers) {
			if vain(s, one.budgets) {
				pods = append(pods, one.name)
				budgets = append(budgets, one.budgets...)
			}
		}
		finding := s.finding(fmt.Sprintf("%s stay %s: %s, %s.",
			why, s.stay(), sentence.Counted(len(pods), "pod"), budgetNames(budgets)))
		finding.Names = pods
		return finding, len(pods) > 0
	})
}

// covering is a PodDisruptionBudget and the number of pods that it covers.
type covering struct {
	*policyv1.PodDisruptionBudget

	selector labels.Selector
	pods     int
}

// coveringOf returns the budgets of each namespace that have valid selectors.
func coveringOf(cluster *state.Cluster) map[string][]*covering {
	all := map[string][]*covering{}
	for _, budget := range cluster.Budgets {
		if selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector); err == nil {
			all[budget.Namespace] = append(all[budget.Namespace], &covering{PodDisruptionBudget: budget, selector: selector})
		}
	}
	for _, pod := range cluster.Pods {
		for _, budget := range budgetsOf(all, pod) {
			budget.pods++
		}
	}
	return all
}

// budgetsOf returns the budgets that cover a pod. A finished pod leaves without asking them.
func budgetsOf(all map[string][]*covering, pod *corev1.Pod) []*covering {
	var covers []*covering
	for _, budget := range all[pod.Namespace] {
		if !state.IsOver(pod) && budget.selector.Matches(labels.Set(pod.Labels)) {
			covers = append(covers, budget)
		}
	}
	return covers
}

// never reports whether the budget allows no disruption even when all its pods are ready.
func (b *covering) never() bool {
	expected := b.pods
	if b.Status.ObservedGeneration > 0 {
		expected = int(b.Status.ExpectedPods)
	}
	scaled := func(of *intstr.IntOrString, other int) int {
		if of == nil {
			return other
		}
		value, err := intstr.GetScaledValueFromIntOrPercent(of, expected, true)
		if err != nil {
			return other
		}
		return value
	}
	return scaled(b.Spec.MaxUnavailable, 1) == 0 || expected > 0 && scaled(b.Spec.MinAvailable, 0) >= expected
}

// asked is a pod about which the Eviction API is asked, and its budgets.
type asked struct {
	name    string
	budgets []*covering
}

// asked returns the pods about which the policy asks the Eviction API.
func (s *selection) asked(covers map[string][]*covering) []asked {
	if s.Spec.Action != v1alpha1.ActionEvict {
		return nil
	}
	var all []asked
	for _, pod := range s.pods {
		all = append(all, asked{pod.Namespace + "/" + pod.Name, budgetsOf(covers, pod)})
	}
	return all
}

// stay says how long pods that the Eviction API never evicts stay on their nodes.
func (s *selection) stay() string {
	switch {
	case s.Spec.Deadline != nil:
		return "until the deadline"
	case s.Spec.Unready == v1alpha1.UnreadyAsk:
		return "until someone deletes them"
	}
	return "as long as they are ready"
}

// budgetNames lists the names of budgets, each once.
func budgetNames(budgets []*covering) string {
	var all []string
	said := map[*covering]bool{}
	for _, budget := range budgets {
		if !said[budget] {
			said[budget] = true
			all = append(all, budget.Namespace+"/"+budget.Name)
		}
	}
	if len(all) == 1 {
		return "PodDisruptionBudget " + all[0]
	}
	return "PodDisruptionBudgets " + sentence.Enumerate(all)
}

// falseComfort: a taint-based eviction is a delete, which ignores PodDisruptionBudgets.
var falseComfort = Rule{
	ID:       "budget-false-comfort",
	Severity: cliv1alpha1.SeverityWarning,
	Title:    "A PodDisruptionBudget protects less than it seems to",
	Advice:   "Spread the pods over more nodes (topologySpreadConstraints), and run kubectl drain before you taint a node.",
	Find: func(facts *Facts) []Finding {
		byNamespace := map[string][]*corev1.Pod{}
		for _, pod := range facts.Pods {
			if !state.IsOver(pod) {
				byNamespace[pod.Namespace] = append(byNamespace[pod.Namespace], pod)
			}
		}
		var all []Finding
		if len(facts.Pods) == 0 {
			return nil // it is not known what they cover
		}
		heeded := facts.heeded()
		for _, budget := range facts.Budgets {
			if finding, ok := judge(budget, byNamespace[budget.Namespace], heeded); ok {
				finding.Object = objectOf("PodDisruptionBudget", budget.Namespace, budget.Name)
				all = append(all, finding)
			}
		}
		return all
	},
}

// judge looks for a node with more pods of a budget than it allows to leave. Pods that policies protect do not count.
func judge(budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod, heeded map[*corev1.Pod]bool) (Finding, bool) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return Finding{Message: fmt.Sprintf("Its selector cannot be read, so it covers no pods: %v.", err), Advice: "Correct the selector."}, true
	}
	covered := 0
	leaving := map[string][]string{}
	for _, pod := range pods {
		if !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		covered++
		if node := pod.Spec.NodeName; node != "" && !state.IsStatic(pod) && !heeded[pod] && leaves(pod.Spec.Tolerations, unforeseen) {
			leaving[node] = append(leaving[node], pod.Name)
		}
	}
	allowed := int(budget.Status.DisruptionsAllowed)
	most := withMost(leaving)
	switch together := leaving[most]; {
	case covered == 0:
		return Finding{
			Severity: cliv1alpha1.SeverityInfo,
			Message:  "It covers no pods.", Advice: "Correct the selector, or delete the PodDisruptionBudget.",
		}, true
	case budget.Status.ObservedGeneration == 0 || len(together) <= allowed:
		return Finding{}, false // it is not known what it allows, or the budget is kept
	default:
		advice := ""
		if allowed == 0 {
			advice = "Run more replicas, or let the PodDisruptionBudget allow a disruption: kubectl drain cannot evict these pods either."
		}
		return Finding{
			Advice: advice,
			Message: fmt.Sprintf("It covers %s and allows %s, but a NoExecute taint on node %s alone evicts %d.",
				sentence.Counted(covered, "pod"), sentence.Counted(allowed, "disruption"), most, len(together)),
			Names: together,
		}, true
	}
}

// withMost returns the node that most pods leave, the first by name if there are several. It is empty if no pod leaves.
func withMost(leaving map[string][]string) string {
	most := ""
	for node, pods := range leaving {
		if n := len(pods); n > len(leaving[most]) || n == len(leaving[most]) && node < most {
			most = node
		}
	}
	return most
}
