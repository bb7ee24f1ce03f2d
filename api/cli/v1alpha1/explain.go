// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Explanation says whether, when and why a pod leaves its node because of taints. For a pod without a node, it says
// which nodes refuse it.
type Explanation struct {
	metav1.TypeMeta `json:",inline"`

	// At is the instant for which the answer is given.
	At        metav1.MicroTime `json:"at"`
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	UID       types.UID        `json:"uid"`
	// Node is absent if the pod is not bound.
	Node  string   `json:"node,omitempty"`
	State PodState `json:"state"`
	Owner *Owner   `json:"owner,omitempty"`
	// EvictedBy says who evicts in the cluster. Due is according to kube-controller-manager's rule if that is BuiltIn, and
	// otherwise according to Taintkeeper's rule. It is absent if it is not known who evicts.
	EvictedBy Who `json:"evictedBy,omitempty"`
	// Leaves is true if a NoExecute taint makes the pod leave, now or later.
	Leaves bool `json:"leaves"`
	// Due is when the pod must leave. It is absent if the pod stays.
	Due *metav1.MicroTime `json:"due,omitempty"`
	// Taint is the taint that decides. Toleration is the one that applies to it. It is absent if no toleration matches
	// the taint.
	Taint      string             `json:"taint,omitempty"`
	Toleration *corev1.Toleration `json:"toleration,omitempty"`
	// Reason says why a pod stays although no toleration keeps it, or why there is no answer.
	Reason string `json:"reason,omitempty"`
	// Terminating says why a pod is terminating, and what it waits for. It is absent for other pods.
	Terminating *Termination `json:"terminating,omitempty"`
	// Evicted is what events say about a pod that is gone.
	Evicted *Eviction `json:"evicted,omitempty"`
	// Timing says how the due time is computed. It is absent if the pod stays.
	Timing *Timing `json:"timing,omitempty"`
	// Taints are all taints of the pod's node, in the node's order.
	Taints []ExplainedTaint `json:"taints"`
	// LastWrite is the last write of the node's taints. It is absent if the node's managedFields do not have it.
	LastWrite *Write `json:"lastWrite,omitempty"`
	// Tolerations are all tolerations of the pod, in the pod's order. Positions count from 0.
	Tolerations []ExplainedToleration `json:"tolerations"`
	// NodeClasses groups nodes by their taints, those that refuse the pod first: all nodes, or those that the pod's
	// required affinity names. It is set only if the pod is not bound.
	NodeClasses []NodeClass `json:"nodeClasses,omitempty"`
	// Answer is what all EvictionPolicies say together. It is absent if the pod stays, and if no policy selects it.
	Answer *PolicyAnswer `json:"answer,omitempty"`
	// Policies are all EvictionPolicies, by name. They are absent if the pod is not on a node.
	Policies []ExplainedPolicy `json:"policies,omitempty"`
	// Changes are the smallest changes that would alter the answer.
	Changes []SmallestChange `json:"changes,omitempty"`
	// Notes are sentences about what the command could not find out, and about anything else that matters.
	Notes []string `json:"notes,omitempty"`
}

// ExplainedPolicy is an EvictionPolicy, and what it alone says about the pod.
type ExplainedPolicy struct {
	Name string `json:"name"`
	// Selects is true if all selectors match. If not, Mismatch is the first that does not match: namespaceSelector,
	// podSelector or nodeSelector.
	Selects  bool   `json:"selects"`
	Mismatch string `json:"mismatch,omitempty"`
	// DryRun is true if the policy is a dry run, which objects to nothing.
	DryRun bool `json:"dryRun,omitempty"`
	// Answer is absent if the policy does not select the pod, or applies to none of the taints that make it leave.
	Answer *PolicyAnswer `json:"answer,omitempty"`
	// Release says what makes the policy release the pod. ReleaseCommand does it, if one command can. Both are absent if
	// the policy does not keep the pod, or releases it soon anyway.
	Release        string `json:"release,omitempty"`
	ReleaseCommand string `json:"releaseCommand,omitempty"`
	// Pace is how fast the policy releases pods. It is absent if the policy sets no pace.
	Pace string `json:"pace,omitempty"`
}

// PodState distinguishes pods on which taints have different effects.
type PodState string

// States of a pod.
const (
	PodBound       PodState = "Bound"       // it is on its node, and taints decide whether it stays
	PodFinished    PodState = "Finished"    // it has succeeded or failed, and taints delete its object
	PodPending     PodState = "Pending"     // it has no node yet
	PodStatic      PodState = "Static"      // only its kubelet can stop it
	PodTerminating PodState = "Terminating" // it is already being deleted
	PodNodeGone    PodState = "NodeGone"    // its node's object is gone, and pod garbage collection deletes it
	PodNodeUnknown PodState = "NodeUnknown" // its node could not be read
	PodGone        PodState = "Gone"        // it was evicted, and does not exist any more
)

// Termination says why a pod is terminating, and what it waits for.
type Termination struct {
	// Since is when its deletion was requested. Until is how long its containers may take to stop.
	Since metav1.Time `json:"since"`
	Until metav1.Time `json:"until"`
	// Cause is the reason of the pod's condition DisruptionTarget, such as DeletionByTaintManager. It is absent if the pod
	// has no such condition.
	Cause    string          `json:"cause,omitempty"`
	WaitsFor TerminationWait `json:"waitsFor"`
	// Finalizers must be removed before the pod can go.
	Finalizers []string `json:"finalizers,omitempty"`
}

// TerminationWait is what a terminating pod still needs in order to go.
type TerminationWait string

// What terminating pods wait for.
const (
	WaitsForContainers        TerminationWait = "Containers"        // they may take until Until to stop
	WaitsForKubelet           TerminationWait = "Kubelet"           // which is alive, and should have ended the pod
	WaitsForSilentKubelet     TerminationWait = "SilentKubelet"     // of a node that gives no sign of life
	WaitsForFinalizers        TerminationWait = "Finalizers"        // which their owners must remove
	WaitsForGarbageCollection TerminationWait = "GarbageCollection" // the node is gone or out of service
)

// Timing says how a pod's due time is computed: the later of since and bound, plus the seconds of the
// toleration.
type Timing struct {
	// Since is when the taint starts to count. SinceFrom is its source: TimeAdded, ManagedFields or Now.
	Since     metav1.MicroTime `json:"since"`
	SinceFrom TimeSource       `json:"sinceFrom"`
	// Bound is when the pod was bound to its node. BoundFrom is its source: PodScheduled, CreationTimestamp or Now.
	Bound     metav1.MicroTime `json:"bound"`
	BoundFrom TimeSource       `json:"boundFrom"`
	// Start is the later of Since and Bound.
	Start metav1.MicroTime `json:"start"`
	// TolerationSeconds are added to Start. They are absent if nothing tolerates the taint.
	TolerationSeconds *int64           `json:"tolerationSeconds,omitempty"`
	Due               metav1.MicroTime `json:"due"`
}

// TimeSource says where an instant comes from.
type TimeSource string

// Sources of instants.
const (
	FromTimeAdded         TimeSource = "TimeAdded"         // the taint's timeAdded
	FromManagedFields     TimeSource = "ManagedFields"     // roughly when the node's taints were last written
	FromPodScheduled      TimeSource = "PodScheduled"      // the transition time of the pod's condition PodScheduled
	FromCreationTimestamp TimeSource = "CreationTimestamp" // when the pod was created
	FromNow               TimeSource = "Now"               // nothing is recorded, or only instants in the future
)

// ExplainedTaint is a taint of the pod's node.
type ExplainedTaint struct {
	Taint string `json:"taint"`
	// Effect is the effect of the taint. Only NoExecute makes pods leave; NoSchedule keeps new ones away.
	Effect corev1.TaintEffect `json:"effect"`
	// TimeAdded is absent if the taint does not have it.
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
	Tolerated Tolerance    `json:"tolerated"`
	// Toleration is the position of the toleration that counts, which is the first that matches. It is absent if none
	// matches.
	Toleration *int `json:"toleration,omitempty"`
	// Shadowed are the positions of later ones that also match, which have no effect.
	Shadowed []int `json:"shadowed,omitempty"`
	// Due is when this taint alone would make the pod leave. It is absent if it would not.
	Due *metav1.MicroTime `json:"due,omitempty"`
	// Decides is true for the taint that makes the pod leave first.
	Decides bool `json:"decides,omitempty"`
}

// Tolerance says how long a pod tolerates a taint.
type Tolerance string

// Tolerances. Only NoExecute taints can be tolerated for a limited time.
const (
	ToleratedIndefinitely Tolerance = "Indefinite" // for as long as the taint is there
	ToleratedForAWhile    Tolerance = "ForAWhile"  // for tolerationSeconds
	ToleratedNotAtAll     Tolerance = "NotAtAll"   // no toleration matches
)

// ExplainedToleration is a toleration of the pod.
type ExplainedToleration struct {
	Toleration corev1.Toleration `json:"toleration"`
	// Matches are the taints of the node that it matches. Counts are those that no earlier toleration matches.
	Matches []string `json:"matches,omitempty"`
	Counts  []string `json:"counts,omitempty"`
	// ShadowedBy is the position of an earlier toleration that matches everything that this one matches, so that
	// this one never counts.
	ShadowedBy *int `json:"shadowedBy,omitempty"`
	// Origin says who put the toleration into the pod, and OriginDetail describes that in words.
	Origin       TolerationOrigin `json:"origin"`
	OriginDetail string           `json:"originDetail"`
	// Certain is false if the origin was inferred from the toleration's form alone. Someone may have written it by hand.
	Certain bool `json:"certain"`
}

// TolerationOrigin says who put a toleration into a pod.
type TolerationOrigin string

// Origins of tolerations.
const (
	OriginTemplate                   TolerationOrigin = "Template"                   // the pod template of the owner
	OriginManifest                   TolerationOrigin = "Manifest"                   // a static pod's file
	OriginKubelet                    TolerationOrigin = "Kubelet"                    // the kubelet, for static pods
	OriginDaemonSetController        TolerationOrigin = "DaemonSetController"        // the DaemonSet controller
	OriginDefaultTolerationSeconds   TolerationOrigin = "DefaultTolerationSeconds"   // the admission plugin of that name
	OriginPodTolerationRestriction   TolerationOrigin = "PodTolerationRestriction"   // the admission plugin of that name
	OriginExtendedResourceToleration TolerationOrigin = "ExtendedResourceToleration" // the admission plugin of that name
	OriginTaintkeeper                TolerationOrigin = "Taintkeeper"                // Taintkeeper, for a due pod that stays
	OriginUnknown                    TolerationOrigin = "Unknown"                    // nothing shows the origin
)

// NodeClass is all nodes with the same taints. Cordoned nodes count as tainted even before they have the taint.
type NodeClass struct {
	Taints []string `json:"taints"`
	// Nodes are sorted by name.
	Nodes []string `json:"nodes"`
	// Refuse are the taints that keep the pod away. Missing are the tolerations that would let it in.
	Refuse  []string            `json:"refuse,omitempty"`
	Missing []corev1.Toleration `json:"missing,omitempty"`
	// LeavesAfterSeconds is how long the pod could stay there, if it tolerates a NoExecute taint for a limited time.
	LeavesAfterSeconds *int64 `json:"leavesAfterSeconds,omitempty"`
}

// SmallestChange is a change that would alter the answer, but would no longer do so if any part of it were left out.
type SmallestChange struct {
	// What is a sentence. Command makes the change, if one command can.
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
	// Tolerations are the tolerations to add to the pod.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Leaves and Due are the answer after the change, for a pod on a node.
	Leaves bool              `json:"leaves,omitempty"`
	Due    *metav1.MicroTime `json:"due,omitempty"`
	// Nodes is the number of nodes that would no longer refuse the pod, if it has no node.
	Nodes int `json:"nodes,omitempty"`
}
