// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// Leave is what a due pod may do, from the strictest to the mildest.
type Leave int

// What a pod may do.
const (
	Stay      Leave = iota
	AskFirst        // leave if the Eviction API agrees
	LeaveFree       // leave at once
)

// Policies is a pod with all that EvictionPolicies look at, and the rule of docs/eviction-policies.md written a second
// time: a policy has objections, each for a time that begins when the pod is due because of a taint, and the pod may
// leave while nothing objects because of one of its taints. Breakers are open or not; pace is left out.
type Policies struct {
	List []v1alpha1.EvictionPolicy
	// Open are those with an open breaker, by name.
	Open map[string]bool

	// The labels of the pod, its namespace and its node.
	Pod, Namespace, Node map[string]string
	// NamespaceEnds, Finished and Unready are facts about the pod; Refused says that its budgets refuse its eviction.
	NamespaceEnds, Finished, Unready, Refused bool

	Dues []DueBy
}

// DueBy is when a pod is due because of a taint.
type DueBy struct {
	Taint corev1.Taint
	At    time.Time
	// Seen is when anybody could first see that; zero means at once.
	Seen time.Time
	// Released is when a pause or an open breaker last let it go; zero if none ever kept it.
	Released time.Time
}

// seen is the later of due and seen as due.
func (d DueBy) seen() time.Time { return Later(d.At, d.Seen) }

// objection is what a policy lets a pod do during a time. The time ends just before To.
type objection struct {
	Span
	lets Leave
}

// May returns what the pod may do at an instant.
func (p Policies) May(now time.Time) Leave {
	most := Stay
	for _, due := range p.Dues {
		if !due.At.After(now) {
			most = max(most, p.mayBecauseOf(due, now))
		}
	}
	return most
}

func (p Policies) mayBecauseOf(due DueBy, now time.Time) Leave {
	least := LeaveFree
	for i := range p.List {
		if p.comes(&p.List[i], due, now) {
			least = Stay
		}
		for _, objection := range p.objections(&p.List[i], due) {
			if !now.Before(objection.From) && now.Before(objection.To) {
				least = min(least, objection.lets)
			}
		}
	}
	return least
}

// objections returns all that a policy has against the pod's leaving because of a taint. Their order tells nothing.
func (p Policies) objections(policy *v1alpha1.EvictionPolicy, due DueBy) (all []objection) {
	spec := &policy.Spec
	if spec.DryRun || p.NamespaceEnds || !p.selectedBy(spec) || !named(spec, due.Taint) {
		return nil
	}
	object := func(applies bool, until time.Time, lets Leave) {
		if applies {
			all = append(all, objection{Span{due.At, until}, lets})
		}
	}
	object(spec.Finished == v1alpha1.FinishedKeep && p.Finished, Never, Stay)
	object(spec.Paused != nil, Never, Stay)
	if breaker := spec.Breaker; breaker != nil {
		object(p.Open[policy.Name], resumed(breaker, due.seen()), Stay)
		object(true, Earlier(due.seen().Add(settles(breaker)), resumed(breaker, due.seen())), Stay)
	}
	deadline := Never
	if spec.Deadline != nil {
		deadline = Later(due.At, due.Released)
		if told := policy.Status.HaltedUntil; told != nil {
			deadline = Later(deadline, told.Time)
		}
		deadline = deadline.Add(spec.Deadline.Duration)
	}
	object(true, deadline, p.action(spec))
	return all
}

// comes reports whether the breaker of a policy has counted the pod only for less than settle. A pod that its budget
// may have kept until now begins to count now.
func (p Policies) comes(policy *v1alpha1.EvictionPolicy, due DueBy, now time.Time) bool {
	breaker := policy.Spec.Breaker
	if breaker == nil || len(p.objections(policy, due)) == 0 || !now.Before(resumed(breaker, due.seen())) {
		return false
	}
	is := p.counted(policy, now)
	for _, other := range p.List {
		for _, because := range p.Dues {
			for _, objection := range p.objections(&other, because) {
				end := objection.To
				if end.After(now.Add(-settles(breaker))) && !end.After(now) && p.counted(policy, end.Add(-1)) < is {
					return true
				}
			}
		}
	}
	return false
}

// counted is what the breaker of a policy counts the pod as at an instant.
func (p Policies) counted(policy *v1alpha1.EvictionPolicy, now time.Time) Leave {
	p.List = slices.Clone(p.List)
	for i := range p.List {
		p.List[i].Spec.Breaker = nil
		p.List[i].Spec.DryRun = p.List[i].Spec.DryRun && p.List[i].Name != policy.Name
	}
	p.Dues = slices.DeleteFunc(slices.Clone(p.Dues), func(due DueBy) bool {
		return !named(&policy.Spec, due.Taint) || !now.Before(resumed(policy.Spec.Breaker, due.seen()))
	})
	return p.May(now)
}

// action is what the action lets the pod do until its deadline.
func (p Policies) action(spec *v1alpha1.EvictionPolicySpec) Leave {
	var evict Leave
	switch {
	case p.Unready && spec.Unready != v1alpha1.UnreadyAsk:
		evict = LeaveFree
	case !p.Refused:
		evict = AskFirst
	}
	return map[v1alpha1.EvictionAction]Leave{
		v1alpha1.ActionDelete: LeaveFree, v1alpha1.ActionEvict: evict, v1alpha1.ActionHold: Stay,
	}[spec.Action] // Stay, if it is not known
}

// resumed is when an open breaker lets a pod go that was seen as due at this instant.
func resumed(breaker *v1alpha1.EvictionBreaker, seen time.Time) time.Time {
	if at := breaker.ResumedAt; at != nil && at.After(seen) {
		return at.Time
	}
	return Never
}

func settles(breaker *v1alpha1.EvictionBreaker) time.Duration {
	if breaker.Settle == nil {
		return time.Minute
	}
	return breaker.Settle.Duration
}

// named reports whether a policy is about a taint.
func named(spec *v1alpha1.EvictionPolicySpec, taint corev1.Taint) bool {
	about := len(spec.Taints) == 0
	for _, one := range spec.Taints {
		about = about || one.Key == taint.Key && (one.Value == nil || *one.Value == taint.Value)
	}
	return about && taint.Key != "node.kubernetes.io/out-of-service"
}

func (p Policies) selectedBy(spec *v1alpha1.EvictionPolicySpec) bool {
	return matches(spec.NamespaceSelector, p.Namespace) &&
		matches(spec.PodSelector, p.Pod) &&
		matches(spec.NodeSelector, p.Node)
}

// matches treats a selector that cannot be read like one that selects everything.
func matches(selector *v1alpha1.Selector, set map[string]string) bool {
	if selector == nil {
		return true
	}
	said := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for key, value := range selector.MatchLabels {
		said.MatchLabels[key] = string(value)
	}
	for _, one := range selector.MatchExpressions {
		requirement := metav1.LabelSelectorRequirement{Key: one.Key, Operator: one.Operator}
		for _, value := range one.Values {
			requirement.Values = append(requirement.Values, string(value))
		}
		said.MatchExpressions = append(said.MatchExpressions, requirement)
	}
	read, err := metav1.LabelSelectorAsSelector(&said)
	return err != nil || read.Matches(labels.Set(set))
}
