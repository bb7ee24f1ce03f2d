// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// state is what is known of a node's readiness, as far as it decides about its NoExecute taint.
type state int

const (
	undecided   state = iota // its kubelet has not reported yet, or nobody can tell: the taint stays as it is
	ready                    // no taint
	notReady                 // node.kubernetes.io/not-ready
	unreachable              // node.kubernetes.io/unreachable
)

// key returns the key of the NoExecute taint of a state; empty if it has none.
func (s state) key() string {
	switch s {
	case notReady:
		return corev1.TaintNodeNotReady
	case unreachable:
		return corev1.TaintNodeUnreachable
	}
	return ""
}

// Facts are what a plan for one node is made of.
type Facts struct {
	Node *corev1.Node
	// Standing: the conditions of a silent node become Unknown, and the Ready condition of a doubtful one is not believed.
	Standing Standing
	// Disrupted: every zone is fully disrupted.
	Disrupted bool
	// Granted: its zone lets it be tainted NoExecute now.
	Granted bool
	Now     time.Time // is written down: as the API server's clock tells it
}

// Plan is what a node should become.
type Plan struct {
	// Conditions are those that have to change, as they should be written. Only then is the rest planned.
	Conditions []corev1.NodeCondition
	// Key is that of the NoExecute taint for the node's state; empty: it has none.
	Key string
	// Asks: it should get a NoExecute taint for which its zone has to give it a turn.
	Asks bool
	// Taints are all that it should have. Retaints: they are others than it has, scheduling apart from its readiness.
	Taints   []corev1.Taint
	Retaints bool
	// Executes: a NoExecute taint comes with them that the node has not had.
	Executes bool
	Labels   map[string]*string
}

// Plan says what a node should become. It is pure. Its rules are those of pkg/controller/nodelifecycle.
func (f Facts) Plan() Plan {
	if conditions := f.unknownConditions(); len(conditions) > 0 {
		return Plan{Conditions: conditions, Key: unreachable.key()}
	}
	is := f.state()
	p := Plan{Key: is.key(), Labels: legacyLabels(f.Node)}
	has := noExecuteKeys(f.Node)
	keys := has
	switch {
	case is == ready:
		keys = nil
	case is == undecided:
	case f.Disrupted:
		keys, p.Asks = nil, true
	case len(has) == 0 && !f.Granted:
		p.Asks = true
	default: // one for the other at once: it has had its turn
		keys = []string{p.Key}
	}
	taints, executing := retaintNoExecute(f.Node.Spec.Taints, keys, f.Now)
	taints, scheduling := retaint(taints, ownsNoSchedule, corev1.TaintEffectNoSchedule, noScheduleKeys(f.Node), f.Now)
	p.Taints, p.Retaints, p.Executes = taints, executing || scheduling, executing && len(keys) > 0
	return p
}

// state returns what the node's Ready condition says.
func (f Facts) state() state {
	posted := Condition(f.Node, corev1.NodeReady)
	switch {
	case posted == nil:
	case posted.Status == corev1.ConditionFalse:
		return notReady
	case posted.Status == corev1.ConditionUnknown:
		return unreachable
	case posted.Status == corev1.ConditionTrue && f.Standing != Doubtful:
		return ready
	}
	return undecided
}

// The reasons and messages of conditions that are set in a silent kubelet's place, letter for letter
// (pkg/controller/nodelifecycle/node_lifecycle_controller.go).
const (
	reasonSilent  = "NodeStatusUnknown"
	messageSilent = "Kubelet stopped posting node status."
	reasonNever   = "NodeStatusNeverUpdated"
	messageNever  = "Kubelet never posted node status."
)

// kubeletConditions are the conditions that only the kubelet knows. NetworkUnavailable is not among
// them: the control plane manages it.
var kubeletConditions = []corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// unknownConditions returns the conditions of a silent node that are not Unknown yet, as they should be; none if its
// Ready condition is Unknown already, or it is not silent.
func (f Facts) unknownConditions() []corev1.NodeCondition {
	posted := Condition(f.Node, corev1.NodeReady)
	if f.Standing != Silent || posted != nil && posted.Status == corev1.ConditionUnknown {
		return nil
	}
	var changed []corev1.NodeCondition
	for _, kind := range kubeletConditions {
		known := Condition(f.Node, kind)
		if known == nil {
			changed = append(changed, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: reasonNever, Message: messageNever,
				LastHeartbeatTime: f.Node.CreationTimestamp, LastTransitionTime: metav1.NewTime(f.Now),
			})
			continue
		}
		if known.Status == corev1.ConditionUnknown {
			continue
		}
		silent := *known
		silent.Status, silent.Reason, silent.Message = corev1.ConditionUnknown, reasonSilent, messageSilent
		silent.LastTransitionTime = metav1.NewTime(f.Now)
		changed = append(changed, silent)
	}
	return changed
}

// legacyLabels returns the labels for the operating system and the architecture that have to be set so
// that the beta ones are equal to the stable ones.
func legacyLabels(node *corev1.Node) map[string]*string {
	labels := map[string]*string{}
	for stable, beta := range map[string]string{
		corev1.LabelOSStable:   "beta.kubernetes.io/os",
		corev1.LabelArchStable: "beta.kubernetes.io/arch",
	} {
		known, has := node.Labels[beta]
		if value, ok := node.Labels[stable]; ok && (!has || known != value) {
			labels[beta] = new(value)
		}
	}
	return labels
}
