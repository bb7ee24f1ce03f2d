// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// Standing is whether a node gives signs of life.
type Standing int

const (
	// Heard is the standing of a node that gave a sign of life within its grace period.
	Heard Standing = iota
	// Doubtful is the standing of a node that seems silent, but not certainly, or whose conditions do not say so yet.
	Doubtful
	// Silent is the standing of a node that gave no sign of life for longer than its grace period.
	Silent
)

// RenewalInterval is how often a kubelet renews its Lease by default: after a quarter of the 40 s for which it is valid
// (k8s.io/kubernetes/pkg/kubelet).
const RenewalInterval = 10 * time.Second

// LeastGrace is the shortest grace period in which a kubelet can renew its Lease twice, with a second to spare. In a
// shorter one, a single renewal that is late or fails makes a node that lives look silent.
const LeastGrace = 2*RenewalInterval + time.Second

// Grace is how long a node may be silent.
type Grace struct {
	// Monitor is for a node that has posted its status before (--node-monitor-grace-period).
	Monitor time.Duration
	// Startup is for a node that never has, from its creation (--node-startup-grace-period).
	Startup time.Duration
}

// Of returns the grace period of a node that has posted its status, or never has.
func (g Grace) Of(posted bool) time.Duration {
	if posted {
		return g.Monitor
	}
	return g.Startup
}

// FirstSign returns when a node that is seen for the first time gave a sign of life: at first sight or, if it never
// posted its status, at its creation. The API server recorded the creation, so [verdict.Sight.Start] dates it, never
// too early.
func FirstSign(node *corev1.Node, seen verdict.Sight) time.Time {
	if Condition(node, corev1.NodeReady) != nil {
		return seen.At
	}
	return seen.Start(node.CreationTimestamp.Time)
}

// IsReady reports whether a node says that it is ready.
func IsReady(node *corev1.Node) bool {
	ready := Condition(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// IsUnknown reports whether the Ready condition of a node is Unknown: its kubelet is silent.
func IsUnknown(node *corev1.Node) bool {
	ready := Condition(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown
}

// Condition returns the condition of the given type of a node, or nil if it has none.
func Condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &node.Status.Conditions[i]
}

// WithConditions returns the node with some of its conditions replaced.
func WithConditions(node *corev1.Node, conditions []corev1.NodeCondition) *corev1.Node {
	changed := node.DeepCopy()
	for _, c := range conditions {
		if known := Condition(changed, c.Type); known != nil {
			*known = c
			continue
		}
		changed.Status.Conditions = append(changed.Status.Conditions, c)
	}
	return changed
}
