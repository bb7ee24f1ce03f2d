// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Pod is what the policies need to know of a pod, its namespace and its node.
type Pod struct {
	// Labels of the pod, its namespace and its node; nil: not known.
	Labels, NamespaceLabels, NodeLabels labels.Labels
	// NamespaceEnds is set if the namespace is being deleted.
	NamespaceEnds bool
	// Finished is set if the pod has succeeded or failed.
	Finished bool
	// Unready is set if the pod has not been Ready for [UnreadyFor], or its node is not Ready.
	Unready bool
	// Budgets says what is known of the pod's PodDisruptionBudgets.
	Budgets Budgets
}

// UnreadyFor is how long a pod must not have been Ready until it counts as unready. It keeps a readiness probe that
// failed once from costing a pod its budget's protection.
const UnreadyFor = 30 * time.Second

// Budgets is what is known of the PodDisruptionBudgets of a pod. The zero value lets the Eviction API be asked.
type Budgets struct {
	// Objects is Budget, SeveralBudgets or NotPermitted if it is of no use to ask, and empty otherwise.
	Objects Why
	// Name is of the budget, if the pod has one; names, if it has several.
	Name string
}

// BudgetsNamed returns what is known of a pod that has the PodDisruptionBudgets of these names: the Eviction API
// answers 500 for a pod with several, whatever they allow (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go).
func BudgetsNamed(names ...string) Budgets {
	is := Budgets{Name: strings.Join(slices.Sorted(slices.Values(names)), ", ")}
	if len(names) > 1 {
		is.Objects = SeveralBudgets
	}
	return is
}

// Allowed returns how many disruptions a budget allows now: none while its status lags behind its spec, because the
// Eviction API refuses all then.
func Allowed(budget *policyv1.PodDisruptionBudget) int {
	if budget.Status.ObservedGeneration < budget.Generation {
		return 0
	}
	return int(budget.Status.DisruptionsAllowed)
}

// State is what a policy remembers.
type State struct {
	// Open says why the breaker is open; empty if it is closed. See [Latch].
	Open string
	// Room returns when the pace has room for the pod; zero or an instant that has passed means now, and [Later] that it
	// is not known when. It is asked only if the pace is all that objects. nil: now.
	Room func() time.Time
}

// Later is an instant that is not known and has not come.
var Later = verdict.Latest

// Cause is a taint because of which a pod must leave, and the instant at which it is due because of it.
type Cause struct {
	Taint *corev1.Taint
	Due   time.Time
}

// CausesOf returns the taints of a node because of which a pod must leave by a rule, now or later. They point into the
// taints.
func CausesOf(rule verdict.Rule, pod verdict.Pod, taints []verdict.Taint) (causes []Cause) {
	for i := range taints {
		if r := rule.Judge(pod, taints[i]); r.Leaves {
			causes = append(causes, Cause{Taint: &taints[i].Taint, Due: r.Due})
		}
	}
	return causes
}

// Says returns the answer of one policy that selects the pod and applies to the cause, which is due.
func (p *Policy) Says(pod *Pod, due, now time.Time, state State) Answer {
	if p.DryRun || pod.NamespaceEnds {
		return Answer{}
	}
	if halt := p.halts(pod, due, now, state); halt.Stays() {
		return halt
	}
	action := p.acts(pod, due, now)
	if action.Stays() || state.Room == nil {
		return action
	}
	switch room := state.Room(); {
	case !room.After(now):
		return action
	case room.Equal(Later):
		return p.answer(Wait, Paced, time.Time{}, "")
	default:
		return p.answer(Wait, Paced, room, "")
	}
}

// halts returns what keeps the pod whatever the action and its deadline, or Free.
func (p *Policy) halts(pod *Pod, due, now time.Time, state State) Answer {
	switch {
	case p.keep && pod.Finished:
		return p.answer(Hold, Finished, time.Time{}, "")
	case p.paused != nil:
		return p.answer(Hold, Paused, time.Time{}, *p.paused)
	case p.breaker == nil:
		return Answer{}
	case state.Open != "" && !p.breaker.Resumed(due, now):
		return p.answer(Hold, BreakerOpen, p.breaker.resumes(due), state.Open)
	case now.Before(due.Add(p.breaker.Settle)):
		return p.answer(Wait, Settling, due.Add(p.breaker.Settle), "")
	}
	return Answer{}
}

// acts returns what the action says, until its deadline ends it.
func (p *Policy) acts(pod *Pod, due, now time.Time) Answer {
	var ends time.Time
	if p.deadline != nil {
		if ends = due.Add(*p.deadline); !now.Before(ends) {
			return Answer{}
		}
	}
	switch {
	case p.action == v1alpha1.ActionHold:
		return p.answer(Hold, Held, ends, "")
	case p.action == v1alpha1.ActionDelete, pod.Unready && !p.ask:
		return Answer{}
	case pod.Budgets.Objects != "":
		return p.answer(Hold, pod.Budgets.Objects, ends, pod.Budgets.Name)
	}
	return p.answer(Ask, "", ends, pod.Budgets.Name)
}

func (p *Policy) answer(step Step, why Why, until time.Time, detail string) Answer {
	return Answer{Step: step, Until: until, Policy: p.Name, Why: why, Detail: detail}
}

// Pacing returns the policies whose pace counts when a pod leaves because of a taint, of those that select it.
func Pacing(policies []*Policy, pod *Pod, taint *corev1.Taint) (paced []*Policy) {
	for _, p := range policies {
		if p.pace != nil && !p.DryRun && !pod.NamespaceEnds && p.Applies(taint) {
			paced = append(paced, p)
		}
	}
	return paced
}

// Decide returns what all policies that select a pod say of it together. The causes are all taints because of which it
// must leave, due or not; at least one of them is due. Again is the next instant at which the answer can change while
// everything but the time stays as it is; zero if there is none.
func Decide(policies []*Policy, pod *Pod, causes []Cause, now time.Time, state func(*Policy) State) (
	mildest Answer, again time.Time,
) {
	next := func(at time.Time) {
		if at.After(now) && (again.IsZero() || at.Before(again)) {
			again = at
		}
	}
	found := false
	for _, cause := range causes {
		if cause.Due.After(now) {
			next(cause.Due)
			continue
		}
		var strictest Answer
		for _, p := range policies {
			if !p.Applies(cause.Taint) {
				continue
			}
			says := p.Says(pod, cause.Due, now, state(p))
			next(says.Until)
			if says.stricter(strictest) {
				strictest = says
			}
		}
		if !found || mildest.stricter(strictest) {
			mildest, found = strictest, true
		}
	}
	return mildest, again
}
