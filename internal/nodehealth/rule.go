// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// rule is a NodeTaintRule as it is planned.
type rule struct {
	name     string
	uid      types.UID
	text     string // its taint, as key=value:Effect
	selector labels.Selector
	spec     v1alpha1.NodeTaintRuleSpec
	// onlyReports: no node gets the taint from this rule, and one that has it loses it.
	onlyReports bool
	// asIf: nothing is written, so what would be done counts as done.
	asIf bool
}

// taint returns what a node gets, without an instant.
func (r *rule) taint() corev1.Taint {
	return corev1.Taint{Key: r.spec.Taint.Key, Value: r.spec.Taint.Value, Effect: r.spec.Taint.Effect}
}

func (r *rule) selects(node *corev1.Node) bool { return r.selector.Matches(labels.Set(node.Labels)) }

// matches reports whether a node has the condition now.
func (r *rule) matches(node *corev1.Node) bool {
	c := condition(node, r.spec.Condition.Type)
	return c != nil && c.Status == r.spec.Condition.Status
}

// bound returns the most nodes that may have the taint at once, and whether there is a bound.
func (r *rule) bound(selected int) (int, bool) {
	if r.spec.MaxTainted == nil {
		return 0, false
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(r.spec.MaxTainted, selected, false)
	if err != nil {
		return 0, true // judge does not accept such a rule
	}
	return max(most, 0), true
}

// ruling is whether a rule does its work; if not, why.
type ruling struct {
	reason  string
	message string
}

func (r ruling) accepted() bool { return r.reason == v1alpha1.ReasonAccepted }

// judge says whether a rule does its work, beside all the others there are. One that cannot do its own, or is
// being deleted, leaves its taint to the next.
func judge(object *v1alpha1.NodeTaintRule, all []*v1alpha1.NodeTaintRule) ruling {
	if flaw, found := flawOf(object); found {
		return flaw
	}
	rivals := slices.DeleteFunc(slices.Clone(all), func(other *v1alpha1.NodeTaintRule) bool {
		_, flawed := flawOf(other)
		return flawed || other.Name == object.Name || !other.DeletionTimestamp.IsZero() || !sameTaint(other, object) || !older(other, object)
	})
	if len(rivals) > 0 {
		winner := slices.MinFunc(rivals, compareAge)
		return ruling{v1alpha1.ReasonTaintConflict, fmt.Sprintf("Rule %s is older and has the same taint key and effect: delete one of the two.", winner.Name)}
	}
	if object.Spec.DryRun {
		return ruling{v1alpha1.ReasonAccepted, "The rule only reports: dryRun is true."}
	}
	return ruling{v1alpha1.ReasonAccepted, "The rule does its work."}
}

// flawOf returns what keeps a rule from doing its work, whatever others there are.
func flawOf(object *v1alpha1.NodeTaintRule) (ruling, bool) {
	if key := object.Spec.Taint.Key; builtIn(key) {
		return ruling{v1alpha1.ReasonBuiltInKey, fmt.Sprintf("Taint key %s belongs to Kubernetes itself: create the rule anew with a key of your own.", key)}, true
	}
	if _, err := metav1.LabelSelectorAsSelector(object.Spec.NodeSelector); err != nil {
		return ruling{v1alpha1.ReasonInvalid, fmt.Sprintf("nodeSelector cannot be used: %v.", err)}, true
	}
	if bound := object.Spec.MaxTainted; bound != nil {
		if _, err := intstr.GetScaledValueFromIntOrPercent(bound, 100, false); err != nil {
			return ruling{v1alpha1.ReasonInvalid, fmt.Sprintf("maxTainted cannot be used: %v.", err)}, true
		}
	}
	return ruling{}, false
}

// builtIn reports whether a taint key is in a domain that is reserved for Kubernetes
// (kubernetes.io/docs/reference/labels-annotations-taints).
func builtIn(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io"}, func(reserved string) bool {
		return prefix == reserved || strings.HasSuffix(prefix, "."+reserved)
	})
}

func sameTaint(a, b *v1alpha1.NodeTaintRule) bool {
	return a.Spec.Taint.Key == b.Spec.Taint.Key && a.Spec.Taint.Effect == b.Spec.Taint.Effect
}

func older(a, b *v1alpha1.NodeTaintRule) bool { return compareAge(a, b) < 0 }

func compareAge(a, b *v1alpha1.NodeTaintRule) int {
	if by := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); by != 0 {
		return by
	}
	return strings.Compare(a.Name, b.Name)
}

// newRule returns a rule as it is planned. One that is not accepted, or is being deleted, selects no node.
func newRule(object *v1alpha1.NodeTaintRule, accepted, dryRun bool) *rule {
	r := &rule{
		name: object.Name, uid: object.UID, selector: labels.Nothing(), spec: object.Spec,
		onlyReports: object.Spec.DryRun, asIf: object.Spec.DryRun || dryRun,
	}
	taint := r.taint()
	r.text = taint.ToString()
	if !accepted || !object.DeletionTimestamp.IsZero() {
		return r
	}
	if object.Spec.NodeSelector == nil {
		r.selector = labels.Everything()
		return r
	}
	if selector, err := metav1.LabelSelectorAsSelector(object.Spec.NodeSelector); err == nil {
		r.selector = selector
	}
	return r
}
