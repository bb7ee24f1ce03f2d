// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import "github.com/taintkeeper/taintkeeper/api/v1alpha1"

// Outcome is what happened to a pod that had to leave, or that the built-in evicted.
type Outcome string

const (
	// OnTime is an eviction at the instant that the rule says, within [Tolerance].
	OnTime Outcome = "on_time"
	// Early is an eviction before that.
	Early Outcome = "early"
	// Late is an eviction after that.
	Late Outcome = "late"
	// Never is a pod that is due and still there after [NeverAfter], or that was due for [MissedAfter] and then ended in
	// another way or no longer had to leave.
	Never Outcome = "never"
	// Stayed is a pod that was evicted and should have stayed.
	Stayed Outcome = "should_have_stayed"
	// Twice is a pod that was evicted again: it was already terminating, or its predecessor of the same name had to leave.
	Twice Outcome = "twice"
	// Unjudged is an eviction for which the rule cannot tell whether it was on time, because the countdown began
	// unseen, the node is gone, or a watch was interrupted.
	Unjudged Outcome = "unjudged"
)

// outcomes are all outcomes.
var outcomes = []Outcome{OnTime, Early, Late, Never, Stayed, Twice, Unjudged}

// differs reports whether the outcome is a difference from the rule.
func (o Outcome) differs() bool { return o != OnTime && o != Unjudged }

// EventReasons returns the reasons of shadow mode's events on nodes, each with its outcome.
func EventReasons() map[string]Outcome {
	reasons := map[string]Outcome{}
	for _, outcome := range outcomes {
		if outcome.differs() {
			reasons[outcome.eventReason()] = outcome
		}
	}
	return reasons
}

// eventReason is the reason of the event on the node.
func (o Outcome) eventReason() string {
	switch o {
	case Early:
		return v1alpha1.EventBuiltInEarly
	case Late:
		return v1alpha1.EventBuiltInLate
	case Never:
		return v1alpha1.EventBuiltInNever
	case Twice:
		return v1alpha1.EventBuiltInTwice
	default:
		return v1alpha1.EventBuiltInUnfounded
	}
}
