// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// Relative formats the time from one instant to another.
func Relative(from, to time.Time) string {
	if !to.After(from) {
		return "now"
	}
	if to.Sub(from) < time.Second {
		return "1s"
	}
	return duration.HumanDuration(to.Sub(from))
}

// About is like Relative, for an instant that is only an estimate.
func About(from, to time.Time) string {
	if relative := Relative(from, to); relative != "now" {
		return "about " + relative
	}
	return "now"
}

// Absolute formats an instant like the API server.
func Absolute(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Instant formats an instant in a table: as the time of day if it is today, and in full if details are requested.
func (p *Printer) Instant(now, at time.Time) string {
	now, at = now.UTC(), at.UTC()
	switch {
	case p.detailed():
		return Absolute(at)
	case at.Truncate(24 * time.Hour).Equal(now.Truncate(24 * time.Hour)):
		return at.Format("15:04:05Z")
	}
	return at.Format("Jan 02 15:04Z")
}

// Age says how old something is. The clock that recorded its beginning may be ahead.
func Age(began, now time.Time) string {
	if began.After(now) {
		return "in " + Relative(now, began)
	}
	return Span(began, now)
}

// Span formats the time from one instant to a later one.
func Span(from, to time.Time) string { return duration.HumanDuration(to.Sub(from)) }

// When says when an instant is, relative to another one.
func When(from, instant time.Time) string {
	switch {
	case instant.Equal(from):
		return "now"
	case instant.Before(from):
		return Span(instant, from) + " ago"
	}
	return "in " + Relative(from, instant)
}

// Toleration formats a toleration as the taints that it matches, and for how long.
func Toleration(t corev1.Toleration) string {
	what := t.Key
	switch {
	case t.Key == "":
		what = "everything"
	case t.Operator == "" || t.Operator == corev1.TolerationOpEqual:
		if t.Value != "" {
			what += "=" + t.Value
		}
	case t.Operator != corev1.TolerationOpExists:
		what += " " + string(t.Operator) + " " + t.Value
	default:
		what += "=*"
	}
	if t.Effect != "" {
		what += ":" + string(t.Effect)
	}
	if t.TolerationSeconds != nil {
		return fmt.Sprintf("%s for %ds", what, *t.TolerationSeconds)
	}
	return what + " forever"
}

// HeldBy says, for a cell, which EvictionPolicy keeps a due pod, why, and for how long if nothing but the time changes.
// It is empty if none does.
func HeldBy(now time.Time, answer *cliv1alpha1.PolicyAnswer) string {
	if answer.Stays() && answer.LeavesAt != nil {
		return answer.HeldBy() + " for " + Relative(now, answer.LeavesAt.Time)
	}
	return answer.HeldBy()
}

// Answer begins an answer with who evicts in the cluster, if that is not Taintkeeper and is known.
func Answer(by cliv1alpha1.Who, answer string) string {
	if by != cliv1alpha1.WhoBuiltIn {
		return answer
	}
	answer = strings.Replace(answer, "No pod leaves: ", "No pod leaves, as ", 1)
	return "kube-controller-manager evicts here, not Taintkeeper: " + strings.ToLower(answer[:1]) + answer[1:]
}
