// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
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

// facts are what a plan for one node is made of.
type facts struct {
	node *corev1.Node
	// silent: it has given no sign of life for longer than its grace period.
	silent bool
	// doubtful: it seems silent, and its conditions could not be written, so its Ready condition is not believed either.
	doubtful bool
	// disrupted: every zone is fully disrupted.
	disrupted bool
	// granted: its zone lets it be tainted NoExecute now.
	granted bool
	now     time.Time
}

// plan is what a node should become.
type plan struct {
	// conditions are those that have to change, as they should be written. Only then is the rest planned.
	conditions []corev1.NodeCondition
	state      state
	// asks: it should get a NoExecute taint for which its zone has to give it a turn.
	asks bool
	// taints are all that it should have. retaints: they are others than it has, scheduling apart from its readiness.
	taints   []corev1.Taint
	retaints bool
	// executes: a NoExecute taint comes with them that the node has not had.
	executes bool
	labels   map[string]*string
}

// planFor says what a node should become. It is pure. Its rules are those of pkg/controller/nodelifecycle.
func planFor(f facts) plan {
	if conditions := f.unknownConditions(); len(conditions) > 0 {
		return plan{conditions: conditions, state: unreachable}
	}
	p := plan{state: f.state(), labels: legacyLabels(f.node)}
	has := noExecuteKeys(f.node)
	keys := has
	switch {
	case p.state == ready:
		keys = nil
	case p.state == undecided:
	case f.disrupted:
		keys, p.asks = nil, true
	case len(has) == 0 && !f.granted:
		p.asks = true
	default: // one for the other at once: it has had its turn
		keys = []string{p.state.key()}
	}
	taints, executing := retaintNoExecute(f.node.Spec.Taints, keys, f.now)
	taints, scheduling := retaint(taints, ownsNoSchedule, corev1.TaintEffectNoSchedule, noScheduleKeys(f.node), f.now)
	p.taints, p.retaints, p.executes = taints, executing || scheduling, executing && len(keys) > 0
	return p
}

// state returns what the node's Ready condition says.
func (f facts) state() state {
	posted := condition(f.node, corev1.NodeReady)
	switch {
	case posted == nil:
	case posted.Status == corev1.ConditionFalse:
		return notReady
	case posted.Status == corev1.ConditionUnknown:
		return unreachable
	case posted.Status == corev1.ConditionTrue && !f.doubtful:
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
func (f facts) unknownConditions() []corev1.NodeCondition {
	if posted := condition(f.node, corev1.NodeReady); !f.silent || posted != nil && posted.Status == corev1.ConditionUnknown {
		return nil
	}
	var changed []corev1.NodeCondition
	for _, kind := range kubeletConditions {
		known := condition(f.node, kind)
		if known == nil {
			changed = append(changed, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: reasonNever, Message: messageNever,
				LastHeartbeatTime: f.node.CreationTimestamp, LastTransitionTime: metav1.NewTime(f.now),
			})
			continue
		}
		if known.Status == corev1.ConditionUnknown {
			continue
		}
		silent := *known
		silent.Status, silent.Reason, silent.Message = corev1.ConditionUnknown, reasonSilent, messageSilent
		silent.LastTransitionTime = metav1.NewTime(f.now)
		changed = append(changed, silent)
	}
	return changed
}

// condition returns the condition of a node of a type, nil if there is none.
func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &node.Status.Conditions[i]
}

// with returns the node with some conditions in the place of its own.
func with(node *corev1.Node, conditions []corev1.NodeCondition) *corev1.Node {
	changed := node.DeepCopy()
	for _, c := range conditions {
		if known := condition(changed, c.Type); known != nil {
			*known = c
			continue
		}
		changed.Status.Conditions = append(changed.Status.Conditions, c)
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
