// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verdict decides when a pod must leave its node because of NoExecute taints.
//
// The decision is a pure function of facts that the API server stores: the taints of the node, the tolerations of the
// pod, the instant from which each taint counts and the instant at which the pod was bound. It has no client, no clock
// and no goroutine, so a controller, a restarted controller, a command line and a simulator all come to the same
// verdict.
//
// For every NoExecute taint t on the node of pod p:
//
//	start(t, p) = max(since(t), bound(p))
//	due(t, p)   = never                      if the first toleration that matches t sets no tolerationSeconds
//	            = start + tolerationSeconds  if it sets them (zero or less: start; the sum saturates at [Latest])
//	            = start                      if none matches
//	due(p)      = the earliest of them
//
// A taint whose value changes continues: a deadline that one value has set remains while the next value is tolerated
// for only a while, so that writing values repeatedly postpones nothing. An earlier value does not affect pods that
// were bound after it was replaced.
//
// That the first matching toleration in list order counts is Kubernetes' rule (GetMatchingTolerations in
// k8s.io/kubernetes/pkg/apis/core/v1/helper, as used by pkg/controller/tainteviction). That a countdown starts with the
// taint or the binding, and not with the controller's first sight of it, is the fix of kubernetes/kubernetes#108268.
package verdict

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

// Latest is the last possible due instant, and the last that RFC 3339 can represent: start + tolerationSeconds
// saturates here instead of overflowing.
var Latest = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// Pod is what the rule needs to know about a pod.
type Pod struct {
	// Tolerations is the pod's toleration list, in its order. It is read, never modified.
	Tolerations []corev1.Toleration
	// Bound is the instant at which the pod was bound to its node: [Bound], dated by [Sight.Start].
	Bound time.Time
}

// Reason is what one taint means for one pod, and why.
type Reason struct {
	// Taint is the taint that is judged.
	Taint Taint
	// Toleration is the toleration that counts, the first in list order that matches; nil when
	// none matches. It points into the list that was given.
	Toleration *corev1.Toleration
	// TolerationIndex is its position in the list, -1 when none matches.
	TolerationIndex int
	// Shadowed holds the positions of the tolerations that also match the taint but do not count, because they come later
	// in the list.
	Shadowed []int
	// Start is the instant from which the toleration's seconds count.
	Start time.Time
	// Leaves is false when the taint is tolerated indefinitely.
	Leaves bool
	// Due is the instant at which the pod must start to leave, when it leaves.
	Due time.Time
}

// Stays reports whether the taint is tolerated indefinitely.
func (r Reason) Stays() bool { return !r.Leaves }

// Verdict says whether one pod on one node stays, or when it is due and why.
type Verdict struct {
	// Reason is the one that decides, for the taint that makes the pod due first. For a pod that stays, it is for one of
	// the taints that are tolerated indefinitely, or the zero value when the node has no NoExecute taint.
	Reason
}

// DueAt reports whether the pod must leave at the instant now or should have left before.
func (v Verdict) DueAt(now time.Time) bool { return v.Leaves && !v.Due.After(now) }

// PendingAt reports whether the pod is due after the instant now.
func (v Verdict) PendingAt(now time.Time) bool { return v.Leaves && v.Due.After(now) }

// Rule holds what the rule depends on apart from its inputs. The zero value is the rule with Kubernetes 1.37's
// defaults. A Rule is safe for concurrent use.
type Rule struct {
	// Matcher decides which toleration matches which taint.
	Matcher taints.Matcher
}

// Decide returns the verdict on a pod on a node with the given taints. Taints with an effect other than NoExecute are
// ignored. The order of the taints does not matter: of two that make the pod due at the same instant, the one with the
// smaller key and then value is named.
func (r Rule) Decide(pod Pod, nodeTaints []Taint) Verdict {
	var verdict Verdict
	found := false
	for i := range nodeTaints {
		if nodeTaints[i].Effect != corev1.TaintEffectNoExecute {
			continue
		}
		reason := r.Judge(pod, nodeTaints[i])
		if !found || decidesOver(reason, verdict.Reason) {
			verdict.Reason, found = reason, true
		}
	}
	return verdict
}

// Judge returns what one taint alone means for a pod.
func (r Rule) Judge(pod Pod, taint Taint) Reason {
	reason := r.judge(pod, taint)
	next, past := taint.Since, taint
	for _, before := range taint.Before {
		if before.Forgotten && asksForValue(pod.Tolerations, taint.Key) {
			break // a forgotten value may have been tolerated indefinitely, which ended the countdown
		}
		past.Value, past.Since = before.Value, before.Since
		earlier := r.judge(pod, past)
		if !reason.counts() || !earlier.counts() || !pod.Bound.Before(next) {
			break
		}
		next = before.Since
		if earlier.Due.Before(reason.Due) {
			earlier.Taint = taint
			reason = earlier
		}
	}
	return reason
}

// asksForValue reports whether a toleration of a key tolerates some values and not others.
func asksForValue(tolerations []corev1.Toleration, key string) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		return (t.Key == key || t.Key == "") && t.Operator != corev1.TolerationOpExists
	})
}

// counts reports whether the taint is tolerated for a while, so that a countdown runs. 0 seconds are no while: a
// toleration for 0 seconds is as good as none.
func (r Reason) counts() bool {
	return r.Leaves && r.Toleration != nil && *r.Toleration.TolerationSeconds > 0
}

// judge returns what one taint means for a pod, considering only its current value.
func (r Rule) judge(pod Pod, taint Taint) Reason {
	start := later(taint.Since, pod.Bound)
	reason := Reason{Taint: taint, TolerationIndex: -1, Start: start, Leaves: true, Due: start}
	index, tolerated := r.Matcher.First(pod.Tolerations, &taint.Taint)
	if !tolerated {
		return reason
	}
	reason.Toleration, reason.TolerationIndex = &pod.Tolerations[index], index
	reason.Shadowed = r.shadowed(pod.Tolerations, &taint.Taint, index+1)
	if reason.Toleration.TolerationSeconds == nil {
		reason.Leaves, reason.Due = false, time.Time{}
		return reason
	}
	reason.Due = addSeconds(reason.Start, *reason.Toleration.TolerationSeconds)
	return reason
}

// shadowed returns the positions from first on of the tolerations that match the taint.
func (r Rule) shadowed(tolerations []corev1.Toleration, taint *corev1.Taint, first int) []int {
	var positions []int
	for i := first; i < len(tolerations); i++ {
		if r.Matcher.Tolerates(&tolerations[i], taint) {
			positions = append(positions, i)
		}
	}
	return positions
}

// decidesOver reports whether reason a rather than b decides: the earlier one, and between equals the one whose taint
// sorts first, so that the order of the taints does not matter.
func decidesOver(a, b Reason) bool {
	if a.Leaves != b.Leaves {
		return a.Leaves
	}
	return cmp.Or(
		a.Due.Compare(b.Due),
		cmp.Compare(a.Taint.Key, b.Taint.Key),
		cmp.Compare(a.Taint.Value, b.Taint.Value),
		a.Start.Compare(b.Start),
	) < 0
}

// addSeconds adds tolerationSeconds to an instant. Zero or less adds nothing, and the sum
// saturates: 2^62 seconds are a valid tolerationSeconds, but neither a time.Duration nor a
// date (upstream overflows there and evicts at once).
func addSeconds(start time.Time, seconds int64) time.Time {
	if seconds <= 0 {
		return start
	}
	left := Latest.Unix() - start.Unix()
	if seconds >= left {
		return later(Latest, start)
	}
	return time.Unix(start.Unix()+seconds, int64(start.Nanosecond())).In(start.Location())
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
