// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

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

// selectionsOf finds the pods of each policy.
func selectionsOf(cluster *state.Cluster) (all []*selection) {
	set := cluster.PoliciesOf()
	if set == nil {
		return nil
	}
	nodes := map[string]policies.Node{}
	for _, node := range cluster.Nodes {
		nodes[node.Name] = policies.NodeOf(node)
	}
	for _, object := range cluster.Policies {
		compiled, _ := policy.New(object) // a selector that cannot be read selects everything
		s := &selection{EvictionPolicy: object}
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

func (s *selection) finding(message string) finding {
	return finding{object: objectOf("EvictionPolicy", "", s.Name), message: message}
}

// eachPolicy says the same of each policy of which something is true. Dry runs hold nothing.
func eachPolicy(says string, is func(*facts, *selection) bool) search {
	return func(f *facts, found func(finding)) {
		for _, s := range f.policies {
			if !s.Spec.DryRun && is(f, s) {
				found(s.finding(says))
			}
		}
	}
}

func selectsNothing(f *facts, s *selection) bool { return len(f.Pods) > 0 && len(s.pods) == 0 }

// policySelectsNothing: someone relies on a policy whose selectors have a typo.
var policySelectsNothing = eachPolicy("Its selectors match no pods, so it holds nothing.", selectsNothing)

// policyHoldsWithoutEnd: a pause has a reason and is ended by someone, and a breaker counts. A bare Hold is forgotten.
var policyHoldsWithoutEnd = eachPolicy("Its action is Hold, and it sets no deadline, breaker or reason in paused: pods stay on tainted nodes until someone deletes the policy.",
	func(f *facts, s *selection) bool {
		return s.Spec.Action == v1alpha1.ActionHold && s.Spec.Deadline == nil && s.Spec.Paused == nil &&
			s.Spec.Breaker == nil && !selectsNothing(f, s)
	})

// policyDown: the built-in controller does not know policies. Only an admission policy can stop it.
var policyDown = eachPolicy("It has ifDown: Hold, but no ValidatingAdmissionPolicy takes EvictionPolicies as its parameters: while Taintkeeper is not running, the built-in controller evicts the selected pods when they are due.",
	func(f *facts, s *selection) bool {
		return s.Spec.IfDown == v1alpha1.IfDownHold && f.Signs.HoldersKnown && len(f.Signs.Holders) == 0 &&
			f.who.Eviction.BuiltIn.State != who.NotRunning
	})

// policyUnknownKey: a policy with a misspelled key applies to no taint.
func policyUnknownKey(f *facts, found func(finding)) {
	for _, s := range f.policies {
		for i, taint := range s.Spec.Taints {
			if is := f.judgeKey(fmt.Sprintf("spec.taints[%d]", i), taint.Key); is.message != "" {
				is.object = s.finding("").object
				found(is)
			}
		}
	}
}

// policyBlockedBudget: the Eviction API never evicts such pods, and nothing else ends the wait.
var policyBlockedBudget = neverEvicted("It has no deadline, so pods whose PodDisruptionBudget can never allow an eviction",
	func(s *selection, budgets []*covering) bool {
		return s.Spec.Deadline == nil && len(budgets) == 1 && budgets[0].never()
	})

// policySeveralBudgets: the Eviction API returns 500 for such pods, whatever the budgets allow.
var policySeveralBudgets = neverEvicted("The Eviction API refuses pods that have several PodDisruptionBudgets, so they",
	func(_ *selection, budgets []*covering) bool { return len(budgets) > 1 })

// neverEvicted finds policies that ask the Eviction API about pods that it never evicts, according to their budgets.
func neverEvicted(why string, is func(*selection, []*covering) bool) search {
	return func(f *facts, found func(finding)) {
		for _, s := range f.policies {
			for _, pod := range s.pods {
				if budgets := f.budgetsOf[pod]; s.Spec.Action == v1alpha1.ActionEvict && !s.Spec.DryRun && is(s, budgets) {
					says := s.finding(why + " stay " + s.stay() + ": {pods}, {budgets}.")
					says.pods, says.budgets = []string{pod.Namespace + "/" + pod.Name}, namesOf(budgets)
					found(says)
				}
			}
		}
	}
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

// covering is a PodDisruptionBudget and the pods that it covers: a finished pod leaves without asking it.
type covering struct {
	*policyv1.PodDisruptionBudget

	pods []*corev1.Pod
	err  error // of its selector, which then covers no pods
}

// coveringOf returns the budgets, and those of each pod.
func coveringOf(cluster *state.Cluster) (all []*covering, of map[*corev1.Pod][]*covering) {
	of = map[*corev1.Pod][]*covering{}
	pods := map[string][]*corev1.Pod{}
	for _, pod := range cluster.Pods {
		if !state.IsOver(pod) {
			pods[pod.Namespace] = append(pods[pod.Namespace], pod)
		}
	}
	for _, budget := range cluster.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		is := &covering{PodDisruptionBudget: budget, err: err}
		all = append(all, is)
		for _, pod := range pods[budget.Namespace] {
			if err == nil && selector.Matches(labels.Set(pod.Labels)) {
				is.pods, of[pod] = append(is.pods, pod), append(of[pod], is)
			}
		}
	}
	return all, of
}

// never reports whether the budget allows no disruption even when all its pods are ready.
func (b *covering) never() bool {
	expected := len(b.pods)
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

func namesOf(budgets []*covering) (names []string) {
	for _, budget := range budgets {
		names = append(names, budget.Namespace+"/"+budget.Name)
	}
	return names
}

func budgetNames(names []string) string {
	return sentence.Agree(len(names), "PodDisruptionBudget ", "PodDisruptionBudgets ") + sentence.Enumerate(names)
}

// severalBudgets: the Eviction API returns 500 for such pods, so kubectl drain never ends.
func severalBudgets(f *facts, found func(finding)) {
	for w, l := range f.lists() {
		for _, pod := range l.pods {
			if budgets := f.budgetsOf[pod]; len(budgets) > 1 {
				found(finding{
					object: w.object, pods: []string{pod.Name}, budgets: namesOf(budgets),
					message: "kubectl drain cannot evict {pods}: {budgets}.",
				})
			}
		}
	}
}

// falseComfort: a taint-based eviction is a delete, which ignores PodDisruptionBudgets. Without pods, it is not known
// what budgets cover.
func falseComfort(f *facts, found func(finding)) {
	heeded := f.heeded()
	for _, budget := range f.budgets {
		is := finding{object: objectOf("PodDisruptionBudget", budget.Namespace, budget.Name)}
		node, together := budget.mostOnANode(heeded)
		allowed := int(budget.Status.DisruptionsAllowed)
		switch {
		case len(f.Pods) == 0:
			return
		case budget.err != nil:
			is.message = fmt.Sprintf("Its selector cannot be read, so it covers no pods: %v.", budget.err)
			is.advice = "Correct the selector."
		case len(budget.pods) == 0:
			is.severity, is.message, is.advice = info, "It covers no pods.", "Correct the selector, or delete the PodDisruptionBudget."
		case budget.Status.ObservedGeneration == 0 || len(together) <= allowed:
			continue // it is not known what it allows, or the budget is kept
		default:
			is.pods = together
			is.message = fmt.Sprintf("It covers %s and allows %s, but a NoExecute taint on node %s alone evicts %d.",
				sentence.Counted(len(budget.pods), "pod"), sentence.Counted(allowed, "disruption"), node, len(together))
			if budget.never() { // spreading does not help, and kubectl drain never ends
				is.advice = "Run more replicas, or loosen the PodDisruptionBudget: kubectl drain can never evict these pods either."
			} else if allowed == 0 {
				is.advice = "Find out why not all of its pods are ready: until they are, kubectl drain cannot evict these pods either."
			}
		}
		found(is)
	}
}

// heeded returns the pods that policies hold, or about which they ask budgets, for any taint. Deadlines do not count,
// because they were chosen deliberately.
func (f *facts) heeded() map[*corev1.Pod]bool {
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

// mostOnANode returns the node on which a taint evicts the most pods of the budget, the first by name if there are
// several. Pods that policies protect do not count.
func (b *covering) mostOnANode(heeded map[*corev1.Pod]bool) (most string, together []string) {
	on := map[string][]string{}
	for _, pod := range b.pods {
		if node := pod.Spec.NodeName; node != "" && !state.IsStatic(pod) && !heeded[pod] && leaves(pod.Spec.Tolerations, unforeseen) {
			on[node] = append(on[node], pod.Name)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(on)) {
		if len(on[node]) > len(together) {
			most, together = node, on[node]
		}
	}
	return most, together
}
