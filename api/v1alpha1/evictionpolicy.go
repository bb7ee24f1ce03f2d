// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// An EvictionPolicy can hold, slow or stop taint-based evictions. It never changes when a pod is due: a pod leaves once
// it is due and no policy objects. If several policies select a pod, the strictest answer counts for each taint. If
// several taints make the pod due, the mildest of these answers counts.
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a policy can have at most 63 characters, because it is a label value in metrics: create the policy under a shorter name"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=evp
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.action`
// +kubebuilder:printcolumn:name="Deadline",type=string,JSONPath=`.spec.deadline`
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.selected`
// +kubebuilder:printcolumn:name="Due",type=integer,JSONPath=`.status.due`
// +kubebuilder:printcolumn:name="Held",type=integer,JSONPath=`.status.held`
// +kubebuilder:printcolumn:name="Holding",type=string,JSONPath=`.status.conditions[?(@.type=="Holding")].reason`
// +kubebuilder:printcolumn:name="Dry run",type=boolean,JSONPath=`.spec.dryRun`
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EvictionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec EvictionPolicySpec `json:"spec"`
	// +optional
	Status EvictionPolicyStatus `json:"status,omitzero"`
}

// EvictionPolicySpec says which evictions the policy applies to, and when it objects to them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.deadline) || self.action != 'Delete'",message="a deadline ends the action Evict or Hold, and the action Delete needs none: remove the deadline, or choose another action"
// +kubebuilder:validation:XValidation:rule="!has(self.unready) || self.action == 'Evict'",message="unready says what happens to pods that the action Evict asks about: remove it, or set the action to Evict"
// +kubebuilder:validation:XValidation:rule="self.action != 'Delete' || has(self.pace) || has(self.breaker) || has(self.paused) || has(self.finished) && self.finished == 'Keep' || has(self.ifDown) && self.ifDown == 'Hold'",message="the policy does nothing: set the action to Evict or Hold, or add a pace, a breaker, paused, finished: Keep, or ifDown: Hold"
// +kubebuilder:validation:XValidation:rule="!has(self.dryRun) || !self.dryRun || !has(self.paused)",message="a dry run holds nothing, so it pauses nothing: remove dryRun, or paused"
// +kubebuilder:validation:XValidation:rule="!has(self.dryRun) || !self.dryRun || !has(self.ifDown) || self.ifDown != 'Hold'",message="a dry run holds nothing, so it does not hold back the built-in controller: remove dryRun, or ifDown: Hold"
type EvictionPolicySpec struct {
	// The NoExecute taints that the policy applies to. The default is all of them except
	// node.kubernetes.io/out-of-service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="!self.exists(taint, taint.key == 'node.kubernetes.io/out-of-service')",message="no policy can hold pods of a node that is out of service: pod garbage collection removes only pods that somebody deleted first. Remove the taint from the list"
	Taints []EvictionPolicyTaint `json:"taints,omitempty"`

	// Selects the namespaces of the pods by their labels. The default is all namespaces.
	// +optional
	// +structType=atomic
	NamespaceSelector *Selector `json:"namespaceSelector,omitempty"`

	// Selects the pods by their labels. The default is all pods.
	// +optional
	// +structType=atomic
	PodSelector *Selector `json:"podSelector,omitempty"`

	// Selects pods by the labels of their nodes. The default is all nodes.
	// +optional
	// +structType=atomic
	NodeSelector *Selector `json:"nodeSelector,omitempty"`

	// What to do with a pod that is due. Delete deletes it, as without a policy. Evict asks the Eviction API, which
	// respects PodDisruptionBudgets. Hold keeps it.
	// +required
	// +kubebuilder:validation:Enum=Delete;Evict;Hold
	Action EvictionAction `json:"action"`

	// How long the action Evict or Hold lasts after a pod is due, for example 15m. Then the pod is deleted. Without a
	// deadline the action never ends. If a pause or an open breaker of any policy kept the pod, the deadline counts from
	// when that ended. A deadline ends only the action: a pod still stays while the policy is paused, its breaker is open,
	// or its pace is used up.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) > duration('0s') && duration(self) <= duration('168h')",message="a deadline must be more than 0s and at most 168h, a week, for example 15m or 1h30m: to hold longer, leave it out, and delete the policy when you no longer need it"
	Deadline *metav1.Duration `json:"deadline,omitempty"`

	// What the action Evict does with a pod that has been unready for 30 seconds, or whose node is not Ready. Delete,
	// the default, deletes it, because most PodDisruptionBudgets refuse every eviction once nothing is ready. Ask asks
	// the Eviction API anyway.
	// +optional
	// +kubebuilder:validation:Enum=Delete;Ask
	Unready UnreadyPods `json:"unready,omitempty"`

	// What to do with pods that have succeeded or failed. Delete, the default, treats them like other pods. Keep keeps
	// them, regardless of the action and its deadline.
	// +optional
	// +kubebuilder:default=Delete
	// +kubebuilder:validation:Enum=Delete;Keep
	Finished FinishedPods `json:"finished,omitempty"`

	// Limits how many selected pods may start to leave in any window of the given length.
	// +optional
	Pace *EvictionPace `json:"pace,omitempty"`

	// Stops all evictions of selected pods when too many would leave at once.
	// +optional
	Breaker *EvictionBreaker `json:"breaker,omitempty"`

	// Why no selected pod may leave. While this is set, none leaves, regardless of the deadline.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.trim() != ''",message="an empty reason does not pause: say why pods must stay, or remove the field"
	Paused *string `json:"paused,omitempty"`

	// What the built-in taint-eviction-controller may do with selected pods while Taintkeeper is not running. Evict lets
	// it evict them. Hold prevents that with an admission policy, which looks only at the labels of pods and namespaces,
	// not at taints and nodes.
	// +optional
	// +kubebuilder:default=Evict
	// +kubebuilder:validation:Enum=Evict;Hold
	IfDown IfDown `json:"ifDown,omitempty"`

	// Only report: the policy objects to nothing, and its status says what it would hold.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// EvictionPolicyTaint selects NoExecute taints.
type EvictionPolicyTaint struct {
	// The key of the taint.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$') && (self.contains('/') ? self.split('/')[0].size() <= 253 && self.split('/')[1].size() <= 63 : self.size() <= 63)",message="it must be the key of a taint: a name of at most 63 characters, after a DNS prefix of at most 253 and a slash if there is one"
	Key string `json:"key"`

	// The value of the taint. The default is any value. An empty value selects taints without a value.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="it must be the value of a taint: letters, digits, dashes, underscores and dots, beginning and ending with a letter or a digit"
	Value *string `json:"value,omitempty"`
}

// EvictionAction is what a policy does with a pod that is due. More actions may be added, such as a request to the
// Eviction Request API (KEP-4563).
type EvictionAction string

const (
	// ActionDelete deletes the pod.
	ActionDelete EvictionAction = "Delete"
	// ActionEvict asks the Eviction API.
	ActionEvict EvictionAction = "Evict"
	// ActionHold keeps the pod.
	ActionHold EvictionAction = "Hold"
)

// UnreadyPods is what the action Evict does with a pod that is not ready.
type UnreadyPods string

const (
	// UnreadyDelete deletes it. It is the default.
	UnreadyDelete UnreadyPods = "Delete"
	// UnreadyAsk asks the Eviction API, as for other pods.
	UnreadyAsk UnreadyPods = "Ask"
)

// FinishedPods is what a policy does with a pod that has succeeded or failed.
type FinishedPods string

const (
	// FinishedDelete treats it like other pods. It is the default.
	FinishedDelete FinishedPods = "Delete"
	// FinishedKeep keeps it.
	FinishedKeep FinishedPods = "Keep"
)

// IfDown is what the built-in taint-eviction-controller may do while Taintkeeper is not running.
type IfDown string

const (
	// IfDownEvict lets it evict. It is the default.
	IfDownEvict IfDown = "Evict"
	// IfDownHold prevents it from evicting.
	IfDownHold IfDown = "Hold"
)

// EvictionPace limits how many pods start to leave in any window of time.
type EvictionPace struct {
	// How many pods may start to leave in a window. Every selected pod that starts to leave while its node has a
	// NoExecute taint counts, no matter who deletes it.
	// +required
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 10000",message="it must be a number of pods from 1 to 10000: to let none leave, use paused or the action Hold"
	Pods int32 `json:"pods"`

	// How long the window is, for example 30s.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="a window must be 1s to 1h long, for example 30s or 5m"
	Per metav1.Duration `json:"per"`

	// What each window applies to: a node, a zone or the whole cluster.
	// +optional
	// +kubebuilder:default=Cluster
	// +kubebuilder:validation:Enum=Node;Zone;Cluster
	Scope PaceScope `json:"scope,omitempty"`
}

// PaceScope is what a window of a pace applies to.
type PaceScope string

const (
	// ScopeNode counts the pods of each node.
	ScopeNode PaceScope = "Node"
	// ScopeZone counts the pods of each zone, according to the label topology.kubernetes.io/zone.
	ScopeZone PaceScope = "Zone"
	// ScopeCluster counts all pods. It is the default.
	ScopeCluster PaceScope = "Cluster"
)

// EvictionBreaker stops evictions when too many pods would leave at once. It counts the pods that are due and that
// nothing but breakers and paces keeps. It stays open until the number has been at most maxDue for the time that settle
// sets.
type EvictionBreaker struct {
	// How many selected pods may leave at once, as a number or as a percentage of the selected pods, rounded down but at
	// least 1. While more would leave, none does. 100% is not accepted, because such a breaker would never open.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : type(self) == string && self.matches('^[1-9][0-9]?%$')",message="it must be a number of pods, 1 or more, or a percentage from 1% to 99%: to let none leave, use paused or the action Hold"
	MaxDue intstr.IntOrString `json:"maxDue"`

	// How long a pod stays after it was due, so that the size of a wave is known before its first pod leaves. Node health
	// taints one node of a zone in 10 seconds, so the default shows a breaker six nodes of each zone at once.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) <= duration('10m')",message="it must be from 0s to 10m, for example 30s"
	Settle *metav1.Duration `json:"settle,omitempty"`

	// Set it to the current time to release the pods that are due now: the breaker neither holds nor counts them. It still
	// counts pods that are due later. What counts is when Taintkeeper sees that the field changes, so the clock with which
	// it was set need not be right.
	// +optional
	ResumedAt *metav1.Time `json:"resumedAt,omitempty"`
}

// EvictionPolicyStatus says what the policy does.
type EvictionPolicyStatus struct {
	// The generation of the spec that the rest of the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// How many pods the selectors select, on any node.
	// +optional
	Selected int32 `json:"selected"`

	// How many of the selected pods are due because of a taint that the policy applies to.
	// +optional
	Due int32 `json:"due"`

	// How many of the due pods the policy holds, without those that only wait for settle. In a dry run, how many it would
	// hold.
	// +optional
	Held int32 `json:"held"`

	// How many of the due pods Taintkeeper asks the Eviction API about.
	// +optional
	Asking int32 `json:"asking"`

	// When the first of the held pods was due.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// How many of the due pods a pause or an open breaker of any policy keeps. Their deadline does not count until that
	// ends. It is set only if the policy has a deadline.
	// +optional
	Halted int32 `json:"halted,omitempty"`

	// When the last pause or open breaker ended that kept pods which are still due. The deadline of pods that were due
	// before counts from this instant.
	// +optional
	HaltedUntil *metav1.Time `json:"haltedUntil,omitempty"`

	// The conditions Accepted, Holding, Tripped and HeldWhenDown.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a policy, in addition to [ConditionAccepted] and [ConditionHolding].
const (
	// ConditionTripped says whether the breaker is open.
	ConditionTripped = "Tripped"
	// ConditionHeldWhenDown says whether the pods that the policy holds would stay if Taintkeeper did not run.
	ConditionHeldWhenDown = "HeldWhenDown"
)

// EvictionPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type EvictionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []EvictionPolicy `json:"items"`
}
