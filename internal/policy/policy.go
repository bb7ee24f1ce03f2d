// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// Policy is an EvictionPolicy in a form that answers quickly. It is never modified.
type Policy struct {
	Name string
	// IfDown says what the built-in controller may do while Taintkeeper is not running.
	IfDown v1alpha1.IfDown
	// DryRun means that the policy objects to nothing.
	DryRun bool
	// Halted is when the last halt ended that kept any of the policy's pods, according to its status; zero if there was
	// none. It makes up for a [Halt] that is not known.
	Halted time.Time
	// Tripped is since when the breaker has been open, according to the policy's status; zero if it is not.
	Tripped time.Time

	namespaces, pods, nodes labels.Selector

	taints   []v1alpha1.EvictionPolicyTaint
	action   v1alpha1.EvictionAction
	deadline *time.Duration
	ask      bool // also for pods that are not ready
	keep     bool // finished pods
	paused   *string
	pace     *Pace
	breaker  *Breaker
}

// Pace bounds how many pods start to leave in any window.
type Pace struct {
	Pods  int
	Per   time.Duration
	Scope v1alpha1.PaceScope
}

// In returns the name of the scope in which the pace counts pods that leave a node, among the scopes of the pace.
func (p *Pace) In(node, zone string) string {
	switch p.Scope {
	case v1alpha1.ScopeNode:
		return node
	case v1alpha1.ScopeZone:
		return zone
	}
	return ""
}

// Breaker stops all evictions while too many pods would leave at once.
type Breaker struct {
	Settle time.Duration

	maxDue    intstr.IntOrString
	resumedAt time.Time // zero if never resumed
}

// defaultSettle is the CRD's default, for objects that were made without it.
const defaultSettle = time.Minute

// New compiles a policy. An error names the invalid fields. The API server refuses such a policy, but may have accepted
// it under another version of the CRD. The policy that is returned with an error holds too much rather than too little:
// an unreadable selector selects everything, an unknown action holds, and a breaker with an unreadable maxDue opens
// when more than one pod is due.
func New(object *v1alpha1.EvictionPolicy) (*Policy, error) {
	spec := &object.Spec
	p := &Policy{
		Name: object.Name, IfDown: cmp.Or(spec.IfDown, v1alpha1.IfDownEvict), DryRun: spec.DryRun,
		taints: spec.Taints, action: spec.Action,
		ask: spec.Unready == v1alpha1.UnreadyAsk, keep: spec.Finished == v1alpha1.FinishedKeep, paused: spec.Paused,
	}
	if spec.Deadline != nil {
		p.deadline = &spec.Deadline.Duration
	}
	if until := object.Status.HaltedUntil; until != nil {
		p.Halted = until.Time
	}
	trips := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionTripped)
	if trips != nil && trips.Status == metav1.ConditionTrue {
		p.Tripped = trips.LastTransitionTime.Time
	}
	if spec.Pace != nil {
		scope := cmp.Or(spec.Pace.Scope, v1alpha1.ScopeCluster)
		p.pace = &Pace{Pods: int(spec.Pace.Pods), Per: spec.Pace.Per.Duration, Scope: scope}
	}
	if b := spec.Breaker; b != nil {
		p.breaker = &Breaker{maxDue: b.MaxDue, Settle: defaultSettle}
		if b.Settle != nil {
			p.breaker.Settle = b.Settle.Duration
		}
		if b.ResumedAt != nil {
			p.breaker.resumedAt = b.ResumedAt.Time
		}
	}
	return p, p.compile(spec)
}

func (p *Policy) compile(spec *v1alpha1.EvictionPolicySpec) error {
	var flaws []error
	for _, one := range []struct {
		field string
		from  *v1alpha1.Selector
		to    *labels.Selector
	}{
		{"namespaceSelector", spec.NamespaceSelector, &p.namespaces},
		{"podSelector", spec.PodSelector, &p.pods},
		{"nodeSelector", spec.NodeSelector, &p.nodes},
	} {
		selector, err := one.from.Compile()
		if err != nil {
			flaws = append(flaws, fmt.Errorf("%s: %w", one.field, err))
			selector = labels.Everything()
		}
		*one.to = selector
	}
	switch spec.Action {
	case v1alpha1.ActionDelete, v1alpha1.ActionEvict, v1alpha1.ActionHold:
	default:
		p.action = v1alpha1.ActionHold
		flaws = append(flaws, fmt.Errorf("action: %q is not Delete, Evict or Hold", spec.Action))
	}
	if p.breaker != nil {
		if _, err := p.breaker.scaled(1); err != nil {
			flaws = append(flaws, fmt.Errorf("breaker.maxDue: %w", err))
		}
	}
	return errors.Join(flaws...)
}

// InEarnest returns the policy as it would be without dryRun.
func (p *Policy) InEarnest() *Policy {
	earnest := *p
	earnest.DryRun = false
	return &earnest
}

// Resumed returns the policy as it would be without a pause and a breaker.
func (p *Policy) Resumed() *Policy {
	resumed := *p
	resumed.paused, resumed.breaker = nil, nil
	return &resumed
}

// Pace returns the policy's pace, or nil.
func (p *Policy) Pace() *Pace { return p.pace }

// Breaker returns the policy's breaker, or nil.
func (p *Policy) Breaker() *Breaker { return p.breaker }

// HoldsWithoutEnd reports whether pods stay for as long as the policy applies to them.
func (p *Policy) HoldsWithoutEnd() bool { return p.action == v1alpha1.ActionHold && p.deadline == nil }

// HasDeadline reports whether the action ends by itself.
func (p *Policy) HasDeadline() bool { return p.deadline != nil }

// Asks reports whether the policy asks the Eviction API.
func (p *Policy) Asks() bool { return p.action == v1alpha1.ActionEvict }

// MaxDue returns how many pods may leave at once, given how many are selected: at least 1.
func (b *Breaker) MaxDue(selected int) int {
	most, _ := b.scaled(selected) // New has returned the error
	return max(most, 1)
}

func (b *Breaker) scaled(selected int) (int, error) {
	return intstr.GetScaledValueFromIntOrPercent(&b.maxDue, selected, false)
}

// ResumeAt sets when a user resumed the breaker, for a caller that knows better than the spec.
func (b *Breaker) ResumeAt(at time.Time) { b.resumedAt = at }

// ResumedAt returns when a user resumed the breaker; zero if never.
func (b *Breaker) ResumedAt() time.Time { return b.resumedAt }

// resumes returns since when the breaker does not hold pods that were first seen as due at this instant; zero means
// never.
func (b *Breaker) resumes(seen time.Time) time.Time {
	if seen.Before(b.resumedAt) {
		return b.resumedAt
	}
	return time.Time{}
}

// Resumed reports whether a user has resumed the eviction of pods that were first seen as due at this instant. The
// breaker does not hold them, and they do not count.
func (b *Breaker) Resumed(seen, now time.Time) bool {
	at := b.resumes(seen)
	return !at.IsZero() && !at.After(now)
}

// Due returns the earliest instant at which a pod is due because of the causes that the policy applies to, and whether
// there are any.
func (p *Policy) Due(causes []Cause) (due time.Time, applies bool) {
	for _, cause := range causes {
		if p.Applies(cause.Taint) && (!applies || cause.Due.Before(due)) {
			due, applies = cause.Due, true
		}
	}
	return due, applies
}

// Mismatch returns the field of a selector that does not match a pod on its node, whatever the taint; empty if the
// policy selects the pod. Unknown labels match, so that a pod leaves later, never sooner.
func (p *Policy) Mismatch(pod *Pod) (field string) {
	matches := func(selector labels.Selector, set labels.Labels) bool { return set == nil || selector.Matches(set) }
	switch {
	case !matches(p.namespaces, pod.NamespaceLabels):
		return "namespaceSelector"
	case !matches(p.pods, pod.Labels):
		return "podSelector"
	case !matches(p.nodes, pod.NodeLabels):
		return "nodeSelector"
	}
	return ""
}

// PodLabels returns the keys of the pod labels by which the policy selects.
func (p *Policy) PodLabels() (keys []string) {
	requirements, _ := p.pods.Requirements()
	for _, r := range requirements {
		keys = append(keys, r.Key())
	}
	return keys
}

// Applies reports whether the policy applies to a taint. No policy applies to out-of-service, because pod garbage
// collection removes only pods that were deleted first.
func (p *Policy) Applies(taint *corev1.Taint) bool {
	if taint.Key == corev1.TaintNodeOutOfService {
		return false
	}
	return len(p.taints) == 0 || slices.ContainsFunc(p.taints, func(t v1alpha1.EvictionPolicyTaint) bool {
		return t.Key == taint.Key && (t.Value == nil || *t.Value == taint.Value)
	})
}
