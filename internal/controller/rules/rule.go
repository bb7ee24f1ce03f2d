// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// rule is a NodeTaintRule, prepared for planning.
type rule struct {
	name     string
	text     string // its taint, as key=value:Effect
	label    string // the key of the label of the nodes that have the taint from this rule
	print    string // the label's value
	selector labels.Selector
	spec     v1alpha1.NodeTaintRuleSpec
	// onlyReports means that no node gets the taint from this rule, and that nodes lose it if they have it.
	onlyReports bool
	// asIf means that nothing is written, so what would be done counts as done.
	asIf bool
	// frozen means that the rule is invalid: its existing taints stay, and it adds none.
	frozen bool
}

// taint returns the taint that a node gets, without timeAdded.
func (r *rule) taint() corev1.Taint {
	return corev1.Taint{Key: r.spec.Taint.Key, Value: r.spec.Taint.Value, Effect: r.spec.Taint.Effect}
}

// fingerprint is the value of the label for a taint. It distinguishes a rule's taint from one of an earlier rule with
// the same name. A client that may write the label may write the taint, see [v1alpha1.TaintedLabelPrefix].
func fingerprint(taint string) string {
	const enough = 8
	sum := sha256.Sum256([]byte(taint))
	return hex.EncodeToString(sum[:enough])
}

// rivals reports whether two rules cannot both have their taints on a node, because they have the same key and effect,
// or the same name.
func (r *rule) rivals(other *rule) bool {
	a, b := r.spec.Taint, other.spec.Taint
	return a.Key == b.Key && a.Effect == b.Effect || r.label == other.label
}

// bound returns the most nodes that may have the taint at once, and whether there is a bound.
func (r *rule) bound(selected int) (int, bool) {
	if r.spec.MaxTainted == nil {
		return 0, false
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(r.spec.MaxTainted, selected, false)
	if err != nil {
		return 0, true // judge refuses such a rule
	}
	return max(most, 0), true
}

// ruling is whether a rule is accepted, and if not, why.
type ruling struct {
	reason  string
	message string
}

func (r ruling) accepted() bool { return r.reason == v1alpha1.ReasonAccepted }

// flawed reports whether the rule cannot be accepted, whatever other rules exist.
func (r ruling) flawed() bool {
	return r.reason == v1alpha1.ReasonInvalid || r.reason == v1alpha1.ReasonBuiltInKey
}

// judge decides whether a rule is accepted, given all other rules. A rule that is invalid or being deleted leaves its
// taint to the next.
func judge(object *v1alpha1.NodeTaintRule, all []*v1alpha1.NodeTaintRule) ruling {
	if flaw, found := flawOf(object); found {
		return flaw
	}
	rivals := slices.DeleteFunc(slices.Clone(all), func(other *v1alpha1.NodeTaintRule) bool {
		_, flawed := flawOf(other)
		return flawed || other.Name == object.Name || !other.DeletionTimestamp.IsZero() ||
			!sameTaint(other, object) || !older(other, object)
	})
	if len(rivals) > 0 {
		winner := slices.MinFunc(rivals, compareAge)
		return ruling{v1alpha1.ReasonTaintConflict, fmt.Sprintf("Rule %s has the same taint key and effect and takes precedence: delete one of the two.", winner.Name)}
	}
	if object.Spec.DryRun {
		return ruling{v1alpha1.ReasonAccepted, "The rule only reports: dryRun is true."}
	}
	return ruling{v1alpha1.ReasonAccepted, "The rule is in force."}
}

// flawOf returns what is wrong with a rule, whatever other rules exist. The API server refuses most such rules, but not
// those that it accepted before it had these checks.
func flawOf(object *v1alpha1.NodeTaintRule) (ruling, bool) {
	if key := object.Spec.Taint.Key; builtIn(key) {
		return ruling{v1alpha1.ReasonBuiltInKey, fmt.Sprintf("Taint key %s belongs to Kubernetes itself: create the rule again with a key of your own. %s", key, untilFixed)}, true
	}
	if err := validate(object); err != nil {
		return ruling{v1alpha1.ReasonInvalid, fmt.Sprintf("Invalid %v. %s", err, untilFixed)}, true
	}
	return ruling{}, false
}

// pressures are the conditions, in addition to Ready, that become Unknown when a kubelet is silent.
var pressures = []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// Messages about rules that are not accepted. The API server uses them, too (config/crd.yaml).
const (
	aboutReady    = "a rule about Ready would taint nodes without regard to the state of their zones: use the taints node.kubernetes.io/not-ready and node.kubernetes.io/unreachable, which node health sets"
	aboutUnknown  = "MemoryPressure, DiskPressure and PIDPressure become Unknown on all nodes at once when the control plane is disrupted: use the status True, or the taint node.kubernetes.io/unreachable, which node health sets"
	withoutABound = "a rule with the effect NoExecute evicts pods and needs maxTainted: set it to the maximum number of nodes that may have the taint at once"
	tooLong       = "the name of a rule can have at most 63 characters, because it becomes a label of the nodes that the rule taints: create the rule under a shorter name"
	untilFixed    = "Until this is fixed, the rule neither adds nor removes taints."
)

// validate returns which field of a rule is invalid, and why.
func validate(object *v1alpha1.NodeTaintRule) error {
	if len(object.Name) > v1alpha1.LongestName {
		return fmt.Errorf("metadata.name: %s", tooLong)
	}
	spec := object.Spec
	kind := spec.Condition.Type
	if kind == corev1.NodeReady {
		return fmt.Errorf("condition: %s", aboutReady)
	}
	if spec.Condition.Status == corev1.ConditionUnknown && slices.Contains(pressures, kind) {
		return fmt.Errorf("condition: %s", aboutUnknown)
	}
	if _, err := spec.NodeSelector.Compile(); err != nil {
		return fmt.Errorf("nodeSelector: %w", err)
	}
	if spec.MaxTainted == nil {
		if spec.Taint.Effect == corev1.TaintEffectNoExecute {
			return fmt.Errorf("maxTainted: %s", withoutABound)
		}
		return nil
	}
	if _, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxTainted, 100, false); err != nil {
		return fmt.Errorf("maxTainted: %w", err)
	}
	return nil
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

// newRule prepares a rule for planning. A rule that is not accepted, or is being deleted, selects no node.
func newRule(object *v1alpha1.NodeTaintRule, verdict ruling, dryRun bool) *rule {
	deleted := !object.DeletionTimestamp.IsZero()
	r := &rule{
		name: object.Name, label: v1alpha1.TaintedLabelPrefix + object.Name, selector: labels.Nothing(), spec: object.Spec,
		onlyReports: object.Spec.DryRun, asIf: object.Spec.DryRun || dryRun,
		frozen: verdict.flawed() && !deleted,
	}
	taint := r.taint()
	r.text = taint.ToString()
	r.print = fingerprint(r.text)
	if !verdict.accepted() || deleted {
		return r
	}
	if selector, err := object.Spec.NodeSelector.Compile(); err == nil {
		r.selector = selector
	}
	return r
}

// condition returns the condition of the given type of a node, or nil if it has none.
func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
