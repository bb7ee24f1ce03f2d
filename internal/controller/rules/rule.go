// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/custom"
)

// rule is a version of a NodeTaintRule, prepared for planning.
type rule struct {
	object   *v1alpha1.NodeTaintRule
	ruling   ruling
	text     string   // its taint, as key=value:Effect
	label    string   // the key of the label of the nodes that have the taint from this rule
	print    string   // the label's value
	inherits []string // the labels of the rules that it continues, see passOn
	selector labels.Selector
	// dryRun means that no node gets the taint, and that nodes lose it if they have it. What would be done counts as done.
	dryRun bool
	// frozen means that the rule writes to no node: it is invalid, or another rule continues it.
	frozen bool
}

// newRule prepares a rule for planning. A rule that is not accepted, or is being deleted, selects no node.
func newRule(object *v1alpha1.NodeTaintRule, ruled ruling, dryRun bool) *rule {
	r := &rule{
		object: object, ruling: ruled, label: v1alpha1.TaintedLabelPrefix + object.Name, selector: labels.Nothing(),
		dryRun: object.Spec.DryRun || dryRun, frozen: ruled.flawed() && object.DeletionTimestamp.IsZero(),
	}
	taint := r.taint()
	r.text = taint.ToString()
	r.print = fingerprint(r.text)
	if selector, err := object.Spec.NodeSelector.Compile(); err == nil && r.inForce() {
		r.selector = selector
	}
	return r
}

// taint returns the taint that a node gets, without timeAdded.
func (r *rule) taint() corev1.Taint {
	is := r.object.Spec.Taint
	return corev1.Taint{Key: is.Key, Value: is.Value, Effect: is.Effect}
}

// labels are the keys of the labels by which a node's taint belongs to the rule.
func (r *rule) labels() []string { return append([]string{r.label}, r.inherits...) }

// fingerprint is the value of the label for a taint. It distinguishes a rule's taint from one of an earlier rule with
// the same name. A client that may write the label may write the taint, see [v1alpha1.TaintedLabelPrefix].
func fingerprint(taint string) string {
	const enough = 8
	sum := sha256.Sum256([]byte(taint))
	return hex.EncodeToString(sum[:enough])
}

func (r *rule) inForce() bool { return r.ruling.accepted() && r.object.DeletionTimestamp.IsZero() }

// passOn makes each rule that taints nodes continue the rules with the very same taint that are leaving: they are
// deleted, or a rule takes precedence. No node loses the taint in between, as if the spec of one rule had been edited.
// If only the value of the taint differs, the taint of the leaving rule is in the way until it is removed.
func passOn(rules map[types.UID]*rule) {
	for _, heir := range rules {
		if !heir.inForce() || heir.dryRun {
			continue
		}
		for _, r := range rules {
			if r.text == heir.text && !r.inForce() && !r.frozen {
				r.frozen = true
				heir.inherits = append(heir.inherits, r.label)
			}
		}
		slices.Sort(heir.inherits)
	}
}

// same reports whether two versions of a rule are planned in the same way.
func (r *rule) same(other *rule) bool {
	return r.ruling == other.ruling && r.frozen == other.frozen &&
		slices.Equal(r.inherits, other.inherits) && custom.SameSpec(r.object, other.object)
}

// bound returns the most nodes that may have the taint at once, and whether there is a bound.
func (r *rule) bound(selected int) (int, bool) {
	bound := r.object.Spec.MaxTainted
	if bound == nil {
		return 0, false
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(bound, selected, false)
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
	winner := object
	for _, other := range all {
		a, b := other.Spec.Taint, object.Spec.Taint
		if a.Key != b.Key || a.Effect != b.Effect || !other.DeletionTimestamp.IsZero() || compareAge(other, winner) >= 0 {
			continue
		}
		if _, flawed := flawOf(other); !flawed {
			winner = other
		}
	}
	switch {
	case winner.Name != object.Name:
		return ruling{v1alpha1.ReasonTaintConflict, fmt.Sprintf("Rule %s has the same taint key and effect and takes precedence: delete one of the two.", winner.Name)}
	case object.Spec.DryRun:
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

// compareAge puts older rules first.
func compareAge(a, b *v1alpha1.NodeTaintRule) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
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
