// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Explanation says of one pod whether and when it leaves its node because of taints, and why; of a pod without a node,
// which nodes refuse it.
//
// +kubebuilder:object:root=true
type Explanation struct {
	metav1.TypeMeta `json:",inline"`

	// At is the instant that the answer is for.
	At        metav1.MicroTime `json:"at"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	UID       types.UID        `json:"uid"`
	// Node is absent for a pod that is not bound.
	Node  string   `json:"node,omitempty"`
	State PodState `json:"state"`
	Owner *Owner   `json:"owner,omitempty"`
	// Leaves is true if a NoExecute taint makes the pod leave, now or later.
	Leaves bool `json:"leaves"`
	// Due is when it must leave; absent for a pod that stays.
	Due *metav1.MicroTime `json:"due,omitempty"`
	// Taint is the one that decides, and Toleration what counts against it: absent if nothing tolerates it.
	Taint      string             `json:"taint,omitempty"`
	Toleration *corev1.Toleration `json:"toleration,omitempty"`
	// Reason says why a pod stays that no toleration keeps, or why there is no answer.
	Reason string `json:"reason,omitempty"`
	// Clock is what the pod's time is made of; absent for a pod that stays.
	Clock *EvictionClock `json:"clock,omitempty"`
	// Taints are all taints of the pod's node, in their order.
	Taints []ExplainedTaint `json:"taints"`
	// Tolerations are all tolerations of the pod, in their order. Positions count from 0.
	Tolerations []ExplainedToleration `json:"tolerations"`
	// NodeClasses are, for a pod that is not bound, all nodes by equal taints: those that refuse it first.
	NodeClasses []NodeClass `json:"nodeClasses,omitempty"`
	// Answer is what all EvictionPolicies say together; absent for a pod that stays, and if none selects it.
	Answer *PolicyAnswer `json:"answer,omitempty"`
	// Policies are all EvictionPolicies, by name, for a pod on a node.
	Policies []ExplainedPolicy `json:"policies,omitempty"`
	// Changes are the smallest changes that would alter the answer.
	Changes []SmallestChange `json:"changes,omitempty"`
	// Notes are sentences about what could not be known, and what else counts.
	Notes []string `json:"notes,omitempty"`
}

// ExplainedPolicy is an EvictionPolicy, and what it says of the pod by itself.
type ExplainedPolicy struct {
	Name string `json:"name"`
	// Selects is true if all selectors match; else Mismatch is the first that does not: namespaceSelector, podSelector or
	// nodeSelector.
	Selects  bool   `json:"selects"`
	Mismatch string `json:"mismatch,omitempty"`
	// DryRun policies object to nothing.
	DryRun bool `json:"dryRun,omitempty"`
	// Answer is absent if the policy does not select the pod, or applies to no taint because of which it leaves.
	Answer *PolicyAnswer `json:"answer,omitempty"`
	// Release says what makes the policy let the pod go, and ReleaseCommand does it, where one command can. Both are
	// absent if the policy does not keep the pod, or lets it go soon by itself.
	Release        string `json:"release,omitempty"`
	ReleaseCommand string `json:"releaseCommand,omitempty"`
	// Pace is how fast the policy lets pods go; absent if it sets none.
	Pace string `json:"pace,omitempty"`
}

// PodState tells the pods apart for which taints mean something else.
type PodState string

// States of a pod.
const (
	PodBound       PodState = "Bound"       // it is on its node, and taints decide whether it stays
	PodFinished    PodState = "Finished"    // it has succeeded or failed: taints make its object go
	PodPending     PodState = "Pending"     // it has no node yet
	PodStatic      PodState = "Static"      // only its kubelet can end it
	PodTerminating PodState = "Terminating" // it is being deleted already
	PodNodeGone    PodState = "NodeGone"    // its node's object is gone: pod garbage collection deletes it
	PodNodeUnknown PodState = "NodeUnknown" // its node could not be read
)

// EvictionClock is what a pod's due instant is made of: the later of since and bound, and the seconds of the
// toleration.
type EvictionClock struct {
	// Since is the instant from which the taint counts, and SinceFrom what tells it: TimeAdded, ManagedFields or Now.
	Since     metav1.MicroTime `json:"since"`
	SinceFrom ClockSource      `json:"sinceFrom"`
	// Bound is when the pod was bound to its node, and BoundFrom what tells it: PodScheduled, CreationTimestamp or Now.
	Bound     metav1.MicroTime `json:"bound"`
	BoundFrom ClockSource      `json:"boundFrom"`
	// Start is the later of the two.
	Start metav1.MicroTime `json:"start"`
	// TolerationSeconds count from there; absent if nothing tolerates the taint.
	TolerationSeconds *int64           `json:"tolerationSeconds,omitempty"`
	Due               metav1.MicroTime `json:"due"`
}

// ClockSource is what tells an instant.
type ClockSource string

// Sources of instants.
const (
	FromTimeAdded         ClockSource = "TimeAdded"         // the taint's timeAdded
	FromManagedFields     ClockSource = "ManagedFields"     // about: when the taints of the node were last written
	FromPodScheduled      ClockSource = "PodScheduled"      // the transition time of the pod's condition PodScheduled
	FromCreationTimestamp ClockSource = "CreationTimestamp" // when the pod was created
	FromNow               ClockSource = "Now"               // nothing is recorded, or nothing that is past
)

// ExplainedTaint is a taint of the pod's node.
type ExplainedTaint struct {
	Taint string `json:"taint"`
	// Effect is the taint's. NoExecute alone makes pods leave; NoSchedule keeps new ones away.
	Effect corev1.TaintEffect `json:"effect"`
	// TimeAdded is absent if nobody wrote it down.
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
	Tolerated Tolerance    `json:"tolerated"`
	// Toleration is the position of the one that counts, the first that matches; absent if none does.
	Toleration *int `json:"toleration,omitempty"`
	// Shadowed are the positions of those that match too, and play no part because they come later.
	Shadowed []int `json:"shadowed,omitempty"`
	// Due is when this taint alone would make the pod leave; absent if it would not.
	Due *metav1.MicroTime `json:"due,omitempty"`
	// Decides is true for the taint that makes the pod leave first.
	Decides bool `json:"decides,omitempty"`
}

// Tolerance says how a pod takes a taint.
type Tolerance string

// Tolerances. Only NoExecute is tolerated for a while.
const (
	ToleratedForEver   Tolerance = "ForEver"
	ToleratedForAWhile Tolerance = "ForAWhile"
	ToleratedNotAtAll  Tolerance = "NotAtAll"
)

// ExplainedToleration is a toleration of the pod.
type ExplainedToleration struct {
	Toleration corev1.Toleration `json:"toleration"`
	// Matches are the taints of the node that it matches, and Counts those among them that no earlier one matches.
	Matches []string `json:"matches,omitempty"`
	Counts  []string `json:"counts,omitempty"`
	// ShadowedBy is the position of an earlier one that matches everything that it matches: it never counts.
	ShadowedBy *int `json:"shadowedBy,omitempty"`
	// Origin is who put it there, and OriginDetail the same in words.
	Origin       TolerationOrigin `json:"origin"`
	OriginDetail string           `json:"originDetail"`
	// Certain is false if the origin is told by the toleration's form alone, so that somebody may have written it by hand.
	Certain bool `json:"certain"`
}

// TolerationOrigin is who put a toleration into a pod.
type TolerationOrigin string

// Origins of tolerations.
const (
	OriginTemplate                   TolerationOrigin = "Template"                   // the pod template of the owner
	OriginManifest                   TolerationOrigin = "Manifest"                   // a static pod's file
	OriginKubelet                    TolerationOrigin = "Kubelet"                    // the kubelet, for static pods
	OriginDaemonSetController        TolerationOrigin = "DaemonSetController"        // the DaemonSet controller
	OriginDefaultTolerationSeconds   TolerationOrigin = "DefaultTolerationSeconds"   // that plugin of the API server
	OriginPodTolerationRestriction   TolerationOrigin = "PodTolerationRestriction"   // that plugin of the API server
	OriginExtendedResourceToleration TolerationOrigin = "ExtendedResourceToleration" // that plugin of the API server
	OriginUnknown                    TolerationOrigin = "Unknown"                    // it cannot be told
)

// NodeClass is all nodes with equal taints. Cordoned nodes count as tainted, whether their taint is there yet or not.
type NodeClass struct {
	Taints []string `json:"taints"`
	// Nodes are by name.
	Nodes []string `json:"nodes"`
	// Refuse are the taints that keep the pod away, and Missing the tolerations that would change that.
	Refuse  []string            `json:"refuse,omitempty"`
	Missing []corev1.Toleration `json:"missing,omitempty"`
	// LeavesAfterSeconds is for how long the pod could stay there, if a NoExecute taint is tolerated for a while.
	LeavesAfterSeconds *int64 `json:"leavesAfterSeconds,omitempty"`
}

// SmallestChange is one change that would alter the answer, and no part of it could be left out.
type SmallestChange struct {
	// What is a sentence, and Command what does it, where one command can.
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
	// Tolerations are those to add to the pod.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Leaves and Due are the answer with the change, for a pod on a node.
	Leaves bool              `json:"leaves,omitempty"`
	Due    *metav1.MicroTime `json:"due,omitempty"`
	// Nodes is, for a pod that has no node, how many nodes would no longer refuse it.
	Nodes int `json:"nodes,omitempty"`
}
