// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"time"
)

// Step is what may happen to a due pod, from the mildest to the strictest.
type Step int

// The steps.
const (
	Free Step = iota
	Ask
	Wait
	Hold
)

// Why is the reason why a pod must wait or is held. Events, conditions and metrics use it.
type Why string

// Reasons why a policy objects.
const (
	Paused         Why = "Paused"
	BreakerOpen    Why = "Breaker"
	Settling       Why = "Settling"
	Held           Why = "Held" // the action is Hold
	Finished       Why = "Finished"
	NotPermitted   Why = "NotPermitted"  // Taintkeeper may not use the Eviction API
	BudgetsUnread  Why = "BudgetsUnread" // Taintkeeper is still reading them
	PodUnread      Why = "PodUnread"     // Taintkeeper is still reading the pod, or others that a breaker counts
	SeveralBudgets Why = "SeveralBudgets"
	Budget         Why = "Budget"     // a budget allows no disruption now
	BudgetBusy     Why = "BudgetBusy" // other pods of the budget are asked about first
	Paced          Why = "Pace"
	PoliciesUnread Why = "PoliciesUnread" // Taintkeeper cannot list or watch the policies
)

// Unread is the answer while it is not known which policies there are: any of them might hold the pod.
var Unread = Answer{Step: Hold, Why: PoliciesUnread}

// Answer is what policies say about a pod at an instant. The zero value lets it leave.
type Answer struct {
	Step Step
	// Until is when the answer ends by itself; zero means that it does not. Other answers may follow.
	Until time.Time
	// Policy and Why say which policy objects, and why; empty if none does.
	Policy string
	Why    Why
	// Detail is for people: the reason of a pause, the numbers of a breaker, the names of budgets.
	Detail string
}

// Said is what all policies together say about a pod.
type Said struct {
	Answer // the mildest, over the taints, of the strictest of each

	// Again is the next instant at which the answer can change while everything but the time stays as it is; zero if
	// there is none.
	Again time.Time
}

// Stays reports whether the pod may not be touched now.
func (a Answer) Stays() bool { return a.Step >= Wait }

// EndsByDeadline reports whether Until is when the action of a policy ends.
func (a Answer) EndsByDeadline() bool {
	switch a.Why {
	case Held, NotPermitted, BudgetsUnread, SeveralBudgets, Budget, BudgetBusy:
		return !a.Until.IsZero()
	}
	return false
}

// String says which policy objects and why, for people: EvictionPolicy q is paused: storage upgrade.
func (a Answer) String() string {
	text := map[Why]string{
		Paused: "is paused", BreakerOpen: "has tripped", Settling: "waits to see how many other pods are due",
		Held: "holds it", Finished: "keeps finished pods", NotPermitted: "asks the Eviction API, which Taintkeeper is not allowed to use",
		BudgetsUnread:  "will ask the Eviction API once Taintkeeper has read the PodDisruptionBudgets",
		PodUnread:      "waits until Taintkeeper has read due pods from the API server",
		SeveralBudgets: "asks the Eviction API, which refuses pods with several PodDisruptionBudgets",
		Budget:         "asks the Eviction API, and a PodDisruptionBudget allows no disruption",
		BudgetBusy:     "asks the Eviction API about other pods of a PodDisruptionBudget first", Paced: "has used up its pace",
	}[a.Why]
	switch {
	case a.Why == PoliciesUnread:
		return "Taintkeeper cannot read the EvictionPolicies yet"
	case a.Policy == "":
		return "no policy holds it"
	case a.Step == Ask:
		text = "asks the Eviction API"
	}
	text = fmt.Sprintf("EvictionPolicy %s %s", a.Policy, text)
	if a.Detail != "" {
		text += ": " + a.Detail
	}
	return text
}

// stricter compares two answers for one taint. If the steps are equal, the answer that ends later is stricter.
func (a Answer) stricter(b Answer) bool {
	return cmp.Or(
		cmp.Compare(a.Step, b.Step),
		a.end().Compare(b.end()),
		-cmp.Compare(a.Policy, b.Policy), // to name the same policy each time
	) > 0
}

// end returns when an answer ends; for one that does not, it is later than any instant.
func (a Answer) end() time.Time {
	if a.Until.IsZero() {
		return time.Unix(1<<62, 0)
	}
	return a.Until
}
