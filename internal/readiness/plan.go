// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// state is what is known about a node's readiness that matters for its NoExecute taint.
type state int

const (
	undecided   state = iota // its kubelet has not reported yet, or the state is uncertain: the taint stays as it is
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

// Facts are the input of a plan for one node.
type Facts struct {
	Node *corev1.Node
	// Standing of the node: the conditions of a silent node become Unknown, and the Ready condition of a doubtful one is
	// ignored.
	Standing Standing
	// Fresh means that silence can be detected now. Otherwise no node is considered silent, and silence has no new
	// consequences.
	Fresh bool
	// Disrupted means that every zone is fully disrupted.
	Disrupted bool
	// Granted means that it has the token of its zone, or can have it.
	Granted bool
	Now     time.Time // written to the API, so on the API server's clock
}

// Plan is what a node should become.
type Plan struct {
	// Conditions are the conditions to change, as they should be written. The rest is planned once there are none.
	Conditions []corev1.NodeCondition
	// Key is the key of the NoExecute taint for the node's state. It is empty if the state has none.
	Key string
	// Stale means that more would change if silence could be detected now.
	Stale bool
	// Asks means that it should get a NoExecute taint but has no token. Takes means that it gets one, for its token.
	Asks, Takes bool
	// Taints are all taints that it should have. Retaints means that they differ from those that it has.
	Taints   []corev1.Taint
	Retaints bool
	// Executes means that they include a NoExecute taint that the node did not have.
	Executes bool
	Labels   map[string]*string
}

// Writes reports whether its taints or labels must be written.
func (p Plan) Writes() bool { return p.Retaints || len(p.Labels) > 0 }

// WithoutLabels is the plan without its labels.
func (p Plan) WithoutLabels() Plan {
	p.Labels = nil
	return p
}

// WithoutTaints is the plan without its taints.
func (p Plan) WithoutTaints() Plan {
	p.Taints, p.Retaints, p.Executes = nil, false, false
	return p
}

// Plan returns what a node should become. It is pure. It follows the rules of pkg/controller/nodelifecycle.
func (f Facts) Plan() Plan {
	conditions := f.unknownConditions()
	if len(conditions) > 0 && f.Fresh {
		return Plan{Conditions: conditions, Key: unreachable.key()}
	}
	p := Plan{Labels: legacyLabels(f.Node)}
	if len(conditions) > 0 {
		f.Standing, p.Stale = Doubtful, true
	}
	keys := f.noExecute(&p)
	taints, executing := retaintNoExecute(f.Node.Spec.Taints, keys, f.Now)
	taints, scheduling := retaint(taints, ownsNoSchedule, corev1.TaintEffectNoSchedule, noScheduleKeys(f.Node), f.Now)
	p.Taints, p.Retaints, p.Executes = taints, executing || scheduling, executing && len(keys) > 0
	return p
}

// noExecute plans the NoExecute taint for the node's state, and returns the keys of the NoExecute taints that it should
// have now.
func (f Facts) noExecute(p *Plan) []string {
	is, has := f.state(), noExecuteKeys(f.Node)
	p.Key = is.key()
	switch {
	case is == ready:
		return nil
	case is == undecided:
		return has
	case f.Disrupted:
		p.Asks = true
		return nil
	case is == unreachable && !f.Fresh && !slices.Contains(has, p.Key):
		p.Stale = true
		return has
	case len(has) == 0 && !f.Granted:
		p.Asks = true
		return nil
	}
	p.Takes = len(has) == 0
	return []string{p.Key} // one replaces the other at once, because it has had its token
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

// The reasons and messages of conditions that are set on behalf of a silent kubelet, exactly the same as upstream's
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

// unknownConditions returns the conditions of a silent node that are not Unknown yet, as they should be. It returns
// none if its Ready condition is already Unknown, or if the node is not silent.
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

// legacyLabels returns the beta labels for the operating system and the architecture that must be set to equal the
// stable ones.
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
