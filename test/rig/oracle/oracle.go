// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// Rule is the rule with the feature gates that it depends on. The zero value has Kubernetes' defaults.
type Rule struct {
	// ComparisonOperators is the feature gate TaintTolerationComparisonOperators: tolerations may ask for Gt and Lt.
	ComparisonOperators bool
}

// Pod is what the rule needs to know about a pod.
type Pod struct {
	Tolerations []corev1.Toleration
	Bound       Span
}

// Due returns when a pod must leave a node with these taints: Never if it stays.
func (r Rule) Due(pod Pod, taints []Taint) Span {
	due := At(Never)
	for _, taint := range taints {
		due = due.Min(r.dueBy(pod, taint))
	}
	return due
}

// dueBy is when a pod must leave because of one taint, by its value or by one that it had before.
func (r Rule) dueBy(pod Pod, taint Taint) Span {
	due, counts := r.dueByValue(pod, taint)
	next := taint.Since
	for _, value := range taint.Values {
		by, counted := r.dueByValue(pod, value)
		if !counts || !counted || !pod.Bound.From.Before(next.To) {
			break
		}
		if !pod.Bound.To.Before(next.From) { // nobody can say which came first
			by.To = Never
		}
		due, next = due.Min(by), value.Since
	}
	return due
}

// dueByValue is when a pod must leave because of a taint with its current value, and whether the pod tolerates it for a
// limited time.
func (r Rule) dueByValue(pod Pod, taint Taint) (due Span, counts bool) {
	start := taint.Since.Max(pod.Bound)
	switch first := r.First(pod.Tolerations, taint.Taint); {
	case first == nil:
		return start, false
	case first.TolerationSeconds == nil:
		return At(Never), false
	default:
		return start.Plus(*first.TolerationSeconds), *first.TolerationSeconds > 0
	}
}

// First is the first toleration in list order that matches a taint, nil if none does.
func (r Rule) First(tolerations []corev1.Toleration, taint corev1.Taint) *corev1.Toleration {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(logr.Discard(), &taint, r.ComparisonOperators) {
			return &tolerations[i]
		}
	}
	return nil
}

// State is what is true of a pod from a change of the pod on.
type State struct {
	At          Span
	Tolerations []corev1.Toleration
	// Spared says that it must not be evicted whatever its tolerations: it is a mirror pod, terminates, or is gone.
	Spared bool
}

// Promise is what must happen to a pod.
type Promise struct {
	// Due is when it must leave: from Never on if it stays. It is from an instant to Never if it may leave or stay, as
	// nobody can say what came first, its deadline or a change.
	Due Span
	// Cancelled are the deadlines that a change took away, or replaced by another, before the pod had left.
	Cancelled []Span
}

// Promise returns what must happen to a pod, given its history and the history of its node. Each is sorted by time.
func (r Rule) Promise(node []Version, bound Span, pod []State) Promise {
	promise, pending := Promise{Due: At(Never)}, At(Never)
	var taints []Taint
	state := State{Spared: true} // it is not there yet
	for len(node)+len(pod) > 0 {
		var at Span
		if len(pod) == 0 || len(node) > 0 && node[0].At.From.Before(pod[0].At.From) {
			at, taints, node = node[0].At, Next(taints, node[0]), node[1:]
		} else {
			at, state, pod = pod[0].At, pod[0], pod[1:]
		}
		due := At(Never)
		if !state.Spared {
			due = r.Due(Pod{state.Tolerations, bound}, taints)
		}
		if pending != At(Never) && due != pending {
			promise.Cancelled = append(promise.Cancelled, pending)
		}
		pending = due
		due, until := due.Max(at), nextChange(node, pod)
		if due.From.Before(until.To) {
			promise.Due = Span{Earlier(promise.Due.From, due.From), due.To}
		}
		if due.To.Before(until.From) {
			return promise
		}
		promise.Due.To = Never
	}
	return promise
}

// nextChange is when the first of what is left happens.
func nextChange(node []Version, pod []State) Span {
	next := At(Never)
	if len(node) > 0 {
		next = node[0].At
	}
	if len(pod) > 0 && pod[0].At.From.Before(next.From) {
		next = pod[0].At
	}
	return next
}
