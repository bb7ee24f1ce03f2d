// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Grace says for how long a node may be silent.
type Grace struct {
	// Monitor is for a node that has posted its status before (--node-monitor-grace-period).
	Monitor time.Duration
	// Startup is for a node that never has, from its creation (--node-startup-grace-period).
	Startup time.Duration
}

// of returns the grace of a node.
func (g Grace) of(node *corev1.Node) time.Duration {
	if condition(node, corev1.NodeReady) == nil {
		return g.Startup
	}
	return g.Monitor
}

// Assessment says what a node should look like at an instant.
type Assessment struct {
	// Conditions are those that have to change, as they should be written.
	Conditions []corev1.NodeCondition
	// Ready is the status of the condition Ready once they are written; empty while there is none.
	Ready corev1.ConditionStatus
	// SilentAt is the instant at which the assessment changes if the node gives no sign of life until
	// then. It is zero if it does not change by time alone.
	SilentAt time.Time
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

// Assess says what a node should look like that gave its last sign of life at the instant probe: as it
// does, unless its grace period is over and its Ready condition says otherwise than Unknown. Both
// instants are of one clock, that of this process (kubelets' clocks are not compared with it).
func Assess(node *corev1.Node, probe time.Time, grace Grace, now time.Time) Assessment {
	ready := condition(node, corev1.NodeReady)
	if ready != nil && ready.Status == corev1.ConditionUnknown {
		return Assessment{Ready: ready.Status}
	}
	silentAt := probe.Add(grace.of(node))
	if now.After(silentAt) {
		return Assessment{Conditions: unknown(node, now), Ready: corev1.ConditionUnknown}
	}
	a := Assessment{SilentAt: silentAt}
	if ready != nil {
		a.Ready = ready.Status
	}
	return a
}

// unknown returns the conditions of a silent node that are not Unknown yet, as they should be.
func unknown(node *corev1.Node, now time.Time) []corev1.NodeCondition {
	var changed []corev1.NodeCondition
	for _, kind := range kubeletConditions {
		known := condition(node, kind)
		if known == nil {
			changed = append(changed, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: reasonNever, Message: messageNever,
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
			continue
		}
		if known.Status == corev1.ConditionUnknown {
			continue
		}
		silent := *known
		silent.Status, silent.Reason, silent.Message = corev1.ConditionUnknown, reasonSilent, messageSilent
		silent.LastTransitionTime = metav1.NewTime(now)
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
