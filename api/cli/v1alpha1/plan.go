// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TaintPlan is what a change of taints, or the silence of nodes, would do to a cluster as it stands.
//
// +kubebuilder:object:root=true
type TaintPlan struct {
	metav1.TypeMeta `json:",inline"`

	// At is the instant for which the plan is made: the taints are added then, or the nodes fall silent.
	At metav1.MicroTime `json:"at"`
	// Context and Cluster are the names in the kubeconfig of the cluster that the plan is of, and Server is its address.
	// They are absent if the plan was made from files.
	Context string `json:"context,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Server  string `json:"server,omitempty"`
	// Taints are the arguments of the plan, in kubectl's grammar: additions, and removals with a trailing "-". Empty if
	// Silent.
	Taints []string `json:"taints"`
	// Silent: the plan is of nodes that give no sign of life from At on. Each says when it is tainted, or why it is not.
	Silent bool `json:"silent,omitempty"`
	// Summary counts.
	Summary PlanSummary `json:"summary"`
	// Notes are sentences about what could not be known, and what follows for the plan.
	Notes []string `json:"notes,omitempty"`
	// Nodes are the nodes whose taints change, by name.
	Nodes []PlannedNode `json:"nodes"`
	// Pods are all pods on these nodes: those that leave first, soonest first, then those that stay, by name.
	Pods []PlannedPod `json:"pods"`
	// Workloads are the owners of the pods that leave, those that lose every replica first.
	Workloads []PlannedWorkload `json:"workloads,omitempty"`
	// Budgets are the PodDisruptionBudgets that cover pods that leave. Evictions by taint do not ask them.
	Budgets []PlannedBudget `json:"budgets,omitempty"`
	// Policies are the EvictionPolicies that select pods that leave, by name.
	Policies []PlannedPolicy `json:"policies,omitempty"`
}

// PlannedPolicy is what an EvictionPolicy does about the pods of a plan.
type PlannedPolicy struct {
	Name string `json:"name"`
	// Pods is the number of pods that must leave because of a taint that the policy applies to, Held of those that it
	// holds when they are due, and Asked of those that it asks the Eviction API about.
	Pods  int `json:"pods"`
	Held  int `json:"held"`
	Asked int `json:"asked"`
	// TripsAt is when the breaker opens because of the plan, and Trips why; absent if it does not, or is open already.
	TripsAt *metav1.MicroTime `json:"tripsAt,omitempty"`
	Trips   string            `json:"trips,omitempty"`
	// Pace is how fast the policy lets pods go, and LastAt when it lets the last one go that nothing else keeps, if no
	// others start to leave meanwhile.
	Pace   string            `json:"pace,omitempty"`
	LastAt *metav1.MicroTime `json:"lastAt,omitempty"`
}

// PlanSummary counts the pods of a plan.
type PlanSummary struct {
	// Nodes is the number of nodes whose taints change, and Emptied of those that no pod but static ones stays on.
	Nodes   int `json:"nodes"`
	Emptied int `json:"emptied"`
	// Pods is the number of pods on these nodes: Leave of them are due because of a taint, AtOnce of these at the instant
	// of the plan. Those that EvictionPolicies hold are among them.
	Pods   int `json:"pods"`
	Leave  int `json:"leave"`
	AtOnce int `json:"atOnce"`
	// Changed is the number of pods for which the plan changes something.
	Changed int `json:"changed"`
	// WorkloadsLost is the number of workloads that lose every replica.
	WorkloadsLost int `json:"workloadsLost"`
	// BudgetsBreached is the number of PodDisruptionBudgets of which more pods leave than they allow.
	BudgetsBreached int `json:"budgetsBreached"`
	// Placed is the number of pods whose successors have a node in the plan, Nowhere of those that no node would take,
	// Bounds of those for which only a bound is known, and NoSuccessor of those without a successor. All are 0 if where
	// they go was not asked.
	Placed      int `json:"placed,omitempty"`
	Nowhere     int `json:"nowhere,omitempty"`
	Bounds      int `json:"bounds,omitempty"`
	NoSuccessor int `json:"noSuccessor,omitempty"`
	// Held is the number of silent nodes that their zones keep from being tainted NoExecute.
	Held int `json:"held,omitempty"`
	// Last is when the last pod is due.
	Last *metav1.MicroTime `json:"last,omitempty"`
}

// PlannedNode is a node whose taints change.
type PlannedNode struct {
	Name   string   `json:"name"`
	Before []string `json:"before"`
	After  []string `json:"after"`
	Pods   int      `json:"pods"`
	// Leave is how many of its pods leave, without those that EvictionPolicies keep without an end.
	Leave int `json:"leave"`
	// Emptied: all pods leave but static ones, which only their kubelet can end.
	Emptied bool `json:"emptied"`
	// Zone is the node's label topology.kubernetes.io/zone.
	Zone string `json:"zone,omitempty"`
	// SilentAt is when the conditions of a silent node become Unknown; absent if they are so already.
	SilentAt *metav1.MicroTime `json:"silentAt,omitempty"`
	// TaintedAt is when a silent node gets the taint node.kubernetes.io/unreachable:NoExecute; absent if it has it, or
	// gets none.
	TaintedAt *metav1.MicroTime `json:"taintedAt,omitempty"`
	// Steps are the taints of a silent node, from each instant on at which they change. The last ones are After.
	Steps []TaintStep `json:"steps,omitempty"`
	// Held says why a silent node gets no NoExecute taint.
	Held string `json:"held,omitempty"`
}

// TaintStep is the taints of a node from an instant on.
type TaintStep struct {
	At     metav1.MicroTime `json:"at"`
	Taints []string         `json:"taints"`
}

// Change says how a plan differs for a pod from what is the case without it.
type Change string

// Changes. The empty one is none.
const (
	ChangeNone    Change = ""
	ChangeLeaves  Change = "Leaves"  // it stays without the plan
	ChangeStays   Change = "Stays"   // it leaves without the plan
	ChangeEarlier Change = "Earlier" // it leaves earlier than without the plan
	ChangeLater   Change = "Later"   // it leaves later than without the plan
)

// PlannedPod is a pod on a node whose taints change.
type PlannedPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Node      string    `json:"node"`
	// Leaves is true if a NoExecute taint makes the pod leave, now or later. Answer says whether EvictionPolicies object.
	Leaves bool `json:"leaves"`
	// Due is when it must leave; absent for a pod that stays.
	Due *metav1.MicroTime `json:"due,omitempty"`
	// About is true if Due is about right only: the taint has no timeAdded, and counts from about when it was written.
	About bool `json:"about,omitempty"`
	// Taint is the one that decides, and Toleration what counts against it: absent if nothing tolerates it.
	Taint      string             `json:"taint,omitempty"`
	Toleration *corev1.Toleration `json:"toleration,omitempty"`
	// Reason says why a pod stays that no toleration keeps.
	Reason string `json:"reason,omitempty"`
	// Change says how the plan changes when the pod leaves, and DueBefore when it must leave without the plan.
	Change    Change            `json:"change,omitempty"`
	DueBefore *metav1.MicroTime `json:"dueBefore,omitempty"`
	Owner     *Owner            `json:"owner,omitempty"`
	Priority  int32             `json:"priority"`
	// GracePeriodSeconds is how long the pod may take to end.
	GracePeriodSeconds int64 `json:"gracePeriodSeconds"`
	// Budgets are the names of the PodDisruptionBudgets that cover the pod.
	Budgets []string `json:"budgets,omitempty"`
	// Answer is what EvictionPolicies say of a pod that leaves; absent if none selects it.
	Answer *PolicyAnswer `json:"answer,omitempty"`
	// WhereTo says where the successor of a pod that leaves would go; absent if that was not asked.
	WhereTo *WhereTo `json:"whereTo,omitempty"`
}

// Owner is the workload that a pod belongs to: the topmost owner that is known, a Deployment and not its ReplicaSet.
type Owner struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// WhereTo says where the successor of a pod that leaves would go, by the scheduler's own filters.
type WhereTo struct {
	// Reason says why no node was asked: the pod has no successor, or the scheduler cannot be asked about it. The rest is
	// empty then.
	Reason string `json:"reason,omitempty"`
	// NoSuccessor is true if nothing makes a successor of the pod, for the reason given.
	NoSuccessor bool `json:"noSuccessor,omitempty"`
	// Node is the one on which the plan places it: of those that would take it, the scheduler's scores prefer this one.
	// Where scores are equal the scheduler draws lots, so it may choose another. Empty if none would take it, and for a
	// bound.
	Node string `json:"node,omitempty"`
	// Fits is the number of nodes that would take it when it is its turn, as if all pods before it were placed already.
	// Nodes names them, a hundred at the most.
	Fits  int      `json:"fits"`
	Nodes []string `json:"nodes,omitempty"`
	// Bound is true where Fits and Nodes are not the answer for this pod but the last one for a pod equal to it: pods
	// placed since may have filled some of these nodes.
	Bound bool `json:"bound,omitempty"`
	// Warnings say what to look at.
	Warnings []PlacementWarning `json:"warnings,omitempty"`
}

// PlacementWarning is something to look at before a pod leaves.
type PlacementWarning struct {
	Type PlacementWarningType `json:"type"`
	// Message is a sentence. Pods that are warned of the same have the same.
	Message string `json:"message"`
}

// PlacementWarningType says what a warning is about.
type PlacementWarningType string

// Warnings about where a successor would go.
const (
	WarningNowhere    PlacementWarningType = "Nowhere"    // no node would take it
	WarningOutAgain   PlacementWarningType = "OutAgain"   // a node would take it whose taint makes it leave again
	WarningZoneSpread PlacementWarningType = "ZoneSpread" // its workload would be in one zone only
	WarningSkew       PlacementWarningType = "Skew"       // its workload would be spread less evenly than it asks for
	WarningVolume     PlacementWarningType = "Volume"     // a volume binds it to a node, or to a zone without room
)

// PlannedWorkload is the owner of pods that leave.
type PlannedWorkload struct {
	Owner     `json:",inline"`
	Namespace string `json:"namespace"`
	// Replicas is the number of its pods in the cluster that run or are to run.
	Replicas int `json:"replicas"`
	// Leave is how many of them leave, without those that EvictionPolicies keep without an end.
	Leave int `json:"leave"`
}

// PlannedBudget is a PodDisruptionBudget that covers pods that leave.
type PlannedBudget struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Allowed is how many disruptions it allows now, and Leave how many of its pods leave. EvictionPolicies ask it about
	// Asked of these first.
	Allowed int32 `json:"allowed"`
	Leave   int   `json:"leave"`
	Asked   int   `json:"asked,omitempty"`
	// Breach is by how many more pods leave without asking it than it allows; 0 if it is kept.
	Breach int `json:"breach"`
}
