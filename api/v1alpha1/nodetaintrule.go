// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodeTaintRule turns a condition of nodes into a taint: while a selected node has the condition, it has the taint. Use
// it for conditions that Kubernetes itself ignores, such as those of node-problem-detector.
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a rule can have at most 63 characters, because it becomes a label of the nodes that the rule taints: create the rule under a shorter name"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ntr
// +kubebuilder:printcolumn:name="Condition",type=string,JSONPath=`.spec.condition.type`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.spec.condition.status`
// +kubebuilder:printcolumn:name="Taint",type=string,JSONPath=`.spec.taint.key`
// +kubebuilder:printcolumn:name="Effect",type=string,JSONPath=`.spec.taint.effect`
// +kubebuilder:printcolumn:name="Matching",type=integer,JSONPath=`.status.matching`
// +kubebuilder:printcolumn:name="Tainted",type=integer,JSONPath=`.status.tainted`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.held`
// +kubebuilder:printcolumn:name="Dry run",type=boolean,JSONPath=`.spec.dryRun`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeTaintRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec NodeTaintRuleSpec `json:"spec"`
	// +optional
	Status NodeTaintRuleStatus `json:"status,omitzero"`
}

// NodeTaintRuleSpec says which nodes get which taint when.
//
// +kubebuilder:validation:XValidation:rule="self.taint.effect != 'NoExecute' || has(self.maxTainted)",message="a rule with the effect NoExecute evicts pods and needs maxTainted: set it to the maximum number of nodes that may have the taint at once"
type NodeTaintRuleSpec struct {
	// The condition of a node that causes the taint.
	// +required
	Condition NodeTaintRuleCondition `json:"condition"`

	// The nodes that the rule applies to. The default is all nodes.
	// +optional
	// +structType=atomic
	NodeSelector *Selector `json:"nodeSelector,omitempty"`

	// The taint. It cannot be changed: delete the rule, which removes its taints, and create another.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the taint of a rule cannot be changed: delete the rule, which takes its taints off, and create another"
	Taint NodeTaintRuleTaint `json:"taint"`

	// How long a node must have had the condition before it gets the taint, for example 30s, 5m or 1h30m.
	// +optional
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	After metav1.Duration `json:"after,omitzero"`

	// How long the condition must have been over before the taint is removed.
	// +optional
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	ClearAfter metav1.Duration `json:"clearAfter,omitzero"`

	// How many nodes may have the rule's taint at once, as a number or as a percentage of the selected nodes, rounded
	// down. When that many have it, other nodes must wait until one of them loses it. Required with the effect NoExecute;
	// with other effects, the default is no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="it must be a number of nodes, 0 or more, or a percentage from 0% to 100%"
	MaxTainted *intstr.IntOrString `json:"maxTainted,omitempty"`

	// Only report: status, events and metrics say what the rule would do, and no node is tainted.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// NodeTaintRuleCondition is a condition of a node. Conditions that become Unknown on all nodes at once when the control
// plane is disrupted are left to node health, which takes zones into account.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'Ready'",message="a rule about Ready would taint nodes without regard to the state of their zones: use the taints node.kubernetes.io/not-ready and node.kubernetes.io/unreachable, which node health sets"
// +kubebuilder:validation:XValidation:rule="self.status != 'Unknown' || !(self.type in ['MemoryPressure', 'DiskPressure', 'PIDPressure'])",message="MemoryPressure, DiskPressure and PIDPressure become Unknown on all nodes at once when the control plane is disrupted: use the status True, or the taint node.kubernetes.io/unreachable, which node health sets"
type NodeTaintRuleCondition struct {
	// The type of the condition, for example KernelDeadlock.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Type corev1.NodeConditionType `json:"type"`

	// The status that causes the taint.
	// +required
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status corev1.ConditionStatus `json:"status"`

	// The reasons that cause the taint, spelled exactly as in the condition. Any of them matches. A condition with another
	// reason counts as over. The default is any reason.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.all(reason, reason.matches('^[^ ]+( [^ ]+)*$'))",message="write a reason exactly as in the condition: it must not be empty, begin or end with a space, or have two spaces in a row"
	Reasons []string `json:"reasons,omitempty"`
}

// NodeTaintRuleTaint is a taint as kubectl taint accepts it.
type NodeTaintRuleTaint struct {
	// The key, for example example.com/kernel-deadlock. Prefixes that end in kubernetes.io or k8s.io belong to Kubernetes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.contains('/') ? self.split('/')[0].size() <= 253 && self.split('/')[1].size() <= 63 : self.size() <= 63",message="it must be a name of at most 63 characters, after a prefix of at most 253 and a slash if there is one"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/')",message="keys of kubernetes.io and k8s.io belong to Kubernetes itself: choose a prefix of your own"
	Key string `json:"key"`

	// The value. The default is none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	Value string `json:"value,omitempty"`

	// The effect: NoSchedule, PreferNoSchedule or NoExecute.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect"`
}

// NodeTaintRuleStatus says what the rule does.
type NodeTaintRuleStatus struct {
	// The generation of the spec that the rest of the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// How many nodes the selector selects. 0 while the rule is not accepted.
	// +optional
	Selected int32 `json:"selected"`

	// How many of the selected nodes have the condition now, for any length of time.
	// +optional
	Matching int32 `json:"matching"`

	// How many nodes have the taint from this rule. In a dry run, how many would have it.
	// +optional
	Tainted int32 `json:"tainted"`

	// How many nodes have had the condition for long enough, but wait because of maxTainted or because the API server
	// refuses the taint.
	// +optional
	Held int32 `json:"held"`

	// The conditions Accepted and Holding.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a rule, and their reasons.
const (
	// ConditionAccepted is True while the rule is in force.
	ConditionAccepted = "Accepted"
	// ReasonAccepted is the reason of Accepted when it is True.
	ReasonAccepted = "Accepted"
	// ReasonTaintConflict says that an older rule has the same taint key and effect.
	ReasonTaintConflict = "TaintConflict"
	// ReasonBuiltInKey says that the taint key belongs to Kubernetes.
	ReasonBuiltInKey = "BuiltInKey"
	// ReasonInvalid says that a field has a value that cannot be used.
	ReasonInvalid = "Invalid"

	// ConditionHolding is True while nodes wait for the taint.
	ConditionHolding = "Holding"
	// ReasonMaxTainted is the reason of Holding when nodes wait because of maxTainted.
	ReasonMaxTainted = "MaxTainted"
	// ReasonRefused is the reason of Holding when nodes wait only because the API server refuses the taint.
	ReasonRefused = "Refused"
	// ReasonNoNodeHeld is the reason of Holding when it is False.
	ReasonNoNodeHeld = "NoNodeHeld"
)

// Finalizer keeps a rule until its taints are removed from all nodes.
const Finalizer = "taintkeeper.dev/taints"

// TaintedLabelPrefix is the prefix of a label on nodes that have a taint from a rule; the rule's name follows it. The
// admission plugin NodeRestriction prevents kubelets from changing labels of node-restriction.kubernetes.io, as well as
// the taints of their nodes.
const TaintedLabelPrefix = "taintkeeper.dev.node-restriction.kubernetes.io/"

// LongestName is the maximum length of the name of a rule, because it is also the name of a label.
const LongestName = 63

// NodeTaintRuleList is a list of rules.
//
// +kubebuilder:object:root=true
type NodeTaintRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeTaintRule `json:"items"`
}
