// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TaintPlan says what a change of taints, or the silence of nodes, would do to the cluster in its current state.
type TaintPlan struct {
	metav1.TypeMeta `json:",inline"`

	// At is when the taints are added.
	At metav1.MicroTime `json:"at"`
	// Context and Cluster are names from the kubeconfig, and Server is the address of the cluster. They are absent if
	// the plan was made from files.
	Context string `json:"context,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Server  string `json:"server,omitempty"`
	// Taints are the arguments of the plan, in kubectl's grammar: additions, and removals with a trailing "-".
	Taints []string `json:"taints"`
	// EvictedBy says who evicts in the cluster. Times are according to kube-controller-manager's rule and rate if that is
	// BuiltIn, and otherwise according to Taintkeeper's rule. It is absent if it is not known who evicts.
	EvictedBy Who `json:"evictedBy,omitempty"`
	// Summary counts nodes, pods, workloads and budgets.
	Summary PlanSummary `json:"summary"`
	// Notes are sentences about what the command could not find out, and how that limits the plan.
	Notes []string `json:"notes,omitempty"`
	// Nodes are the nodes whose taints change, by name.
	Nodes []PlannedNode `json:"nodes"`
	// Pods are all pods on these nodes: first those that leave, soonest first, then those that stay, by priority and
	// name.
	Pods []PlannedPod `json:"pods"`
	// Preempted are pods, most of them on other nodes, that the scheduler preempts to make room for successors. They are
	// absent without --where-to.
	Preempted []PlannedPod `json:"preempted,omitempty"`
	// Workloads are the owners of the pods that leave or are preempted. Those that lose every replica come first.
	Workloads []PlannedWorkload `json:"workloads,omitempty"`
	// Budgets are the PodDisruptionBudgets that cover pods that leave or are preempted. Taint-based evictions ignore
	// them, except where an EvictionPolicy uses the Eviction API.
	Budgets []PlannedBudget `json:"budgets,omitempty"`
	// Policies are the EvictionPolicies that select pods that leave, by name.
	Policies []PlannedPolicy `json:"policies,omitempty"`
	// Resumed is what happens to the pods that pauses and open breakers keep when all of these end. It is absent if they
	// keep none.
	Resumed *PlannedResume `json:"resumed,omitempty"`
}

// Leaving returns all pods that may leave: those on the nodes, and those that are preempted.
func (p *TaintPlan) Leaving() []*PlannedPod {
	all := make([]*PlannedPod, 0, len(p.Pods)+len(p.Preempted))
	for i := range p.Pods {
		all = append(all, &p.Pods[i])
	}
	for i := range p.Preempted {
		all = append(all, &p.Preempted[i])
	}
	return all
}

// PlannedResume is what happens to pods that pauses and open breakers keep if all of these end at the instant of the
// plan.
type PlannedResume struct {
	// Pods is the number of these pods. Leave is how many of them then leave when they are due, although some only at a
	// pace. The Eviction API is asked first about Asked of those.
	Pods  int `json:"pods"`
	Leave int `json:"leave"`
	Asked int `json:"asked"`
	// Late is how many a deadline deletes without asking if they are still there, between LateFrom and LateTo after the
	// resume.
	Late     int             `json:"late"`
	LateFrom metav1.Duration `json:"lateFrom,omitzero"`
	LateTo   metav1.Duration `json:"lateTo,omitzero"`
}

// PlannedPolicy is what an EvictionPolicy does with the pods of a plan.
type PlannedPolicy struct {
	Name string `json:"name"`
	// Pods is the number of pods that must leave because of a taint that the policy applies to. The policy holds Held of
	// them when they are due, and asks the Eviction API about Asked of them.
	Pods  int `json:"pods"`
	Held  int `json:"held"`
	Asked int `json:"asked"`
	// TripsAt is when the plan makes the breaker open, and Trips says why. They are absent if it stays closed or is
	// already open.
	TripsAt *metav1.MicroTime `json:"tripsAt,omitempty"`
	Trips   string            `json:"trips,omitempty"`
	// Pace is how fast the policy releases pods. LastAt is when the last of them leaves that leaves at all.
	Pace   string            `json:"pace,omitempty"`
	LastAt *metav1.MicroTime `json:"lastAt,omitempty"`
}

// PlanSummary counts the nodes, pods, workloads and budgets of a plan.
type PlanSummary struct {
	// Nodes is the number of nodes whose taints change. Emptied is the number of those that pods leave and that then
	// have only static pods.
	Nodes   int `json:"nodes"`
	Emptied int `json:"emptied"`
	// Pods is the number of pods on these nodes. Leave is the number of those that must leave because of a taint,
	// including pods that EvictionPolicies hold. AtOnce is the number of those that are due at the instant of the plan.
	Pods   int `json:"pods"`
	Leave  int `json:"leave"`
	AtOnce int `json:"atOnce"`
	// Changed is the number of pods that the plan affects.
	Changed int `json:"changed"`
	// PodsLost is the number of pods that leave and that no controller replaces, and LocalData the number of those that
	// lose the data in their emptyDir volumes.
	PodsLost  int `json:"podsLost"`
	LocalData int `json:"localData"`
	// WorkloadsLost is the number of workloads that have no ready replica at some instant.
	WorkloadsLost int `json:"workloadsLost"`
	// BudgetsBreached is the number of PodDisruptionBudgets whose Breach is more than 0.
	BudgetsBreached int `json:"budgetsBreached"`
	// Placed is the number of pods whose successors have a node in the plan. Nowhere counts pods that fit no node,
	// Bounds pods for which Fits is only an upper bound, and NoSuccessor pods without a successor. All are 0 without
	// --where-to.
	// LeaveAgain is the number of the placed pods that must leave their new nodes, which may be the old ones.
	Placed      int `json:"placed,omitempty"`
	LeaveAgain  int `json:"leaveAgain,omitempty"`
	Nowhere     int `json:"nowhere,omitempty"`
	Bounds      int `json:"bounds,omitempty"`
	NoSuccessor int `json:"noSuccessor,omitempty"`
	// Preempted is the number of pods that are preempted, which do not count as Leave.
	Preempted int `json:"preempted,omitempty"`
	// Last is when the last pod is due.
	Last *metav1.MicroTime `json:"last,omitempty"`
}

// PlannedNode is a node whose taints change.
type PlannedNode struct {
	Name   string   `json:"name"`
	Before []string `json:"before"`
	After  []string `json:"after"`
	Pods   int      `json:"pods"`
	// Leave is how many of its pods leave. Pods that EvictionPolicies keep without end do not count.
	Leave int `json:"leave"`
	// Emptied is true if all pods leave except static ones, which only their kubelet can end. With --where-to, no
	// successor comes to it either.
	Emptied bool `json:"emptied"`
	// Zone is the node's label topology.kubernetes.io/zone.
	Zone string `json:"zone,omitempty"`
}

// Change says how the plan affects whether and when a pod leaves.
type Change string

// Changes. The empty value means that nothing changes.
const (
	ChangeNone    Change = ""
	ChangeLeaves  Change = "Leaves"  // it would stay without the plan
	ChangeStays   Change = "Stays"   // it would leave without the plan
	ChangeEarlier Change = "Earlier" // it leaves earlier than without the plan
	ChangeLater   Change = "Later"   // it leaves later than without the plan
)

// PlannedPod is a pod on a node whose taints change.
type PlannedPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Node      string    `json:"node"`
	// Leaves is true if a NoExecute taint makes the pod leave, now or later. Answer says whether EvictionPolicies
	// object.
	Leaves bool `json:"leaves"`
	// Due is when the pod must leave. It is absent if the pod stays.
	Due *metav1.MicroTime `json:"due,omitempty"`
	// About is true if Due is an estimate: the taint has no timeAdded, and counts from roughly when it was written.
	About bool `json:"about,omitempty"`
	// Taint is the taint that decides. Toleration is the one that applies to it. It is absent if no toleration matches
	// the taint.
	Taint      string             `json:"taint,omitempty"`
	Toleration *corev1.Toleration `json:"toleration,omitempty"`
	// Reason says why a pod stays although no toleration keeps it.
	Reason string `json:"reason,omitempty"`
	// Change says how the plan affects whether and when the pod leaves. DueBefore is when it must leave without the
	// plan.
	Change    Change            `json:"change,omitempty"`
	DueBefore *metav1.MicroTime `json:"dueBefore,omitempty"`
	Owner     *Owner            `json:"owner,omitempty"`
	Priority  int32             `json:"priority"`
	// GracePeriodSeconds is how long the pod may take to shut down.
	GracePeriodSeconds int64 `json:"gracePeriodSeconds"`
	// Budgets are the names of the PodDisruptionBudgets that cover a pod that leaves.
	Budgets []string `json:"budgets,omitempty"`
	// Lost is true if the pod leaves and has no controller that replaces it. LocalData is true if it leaves and has
	// emptyDir volumes, whose data is lost with it.
	Lost      bool `json:"lost,omitempty"`
	LocalData bool `json:"localData,omitempty"`
	// Answer is what EvictionPolicies say about a pod that leaves. It is absent if none selects it.
	Answer *PolicyAnswer `json:"answer,omitempty"`
	// WhereTo says where the successor of a pod that leaves would go. It is absent without --where-to.
	WhereTo *WhereTo `json:"whereTo,omitempty"`
}

// Owner is the workload that a pod belongs to. It is the topmost known owner, for example the Deployment instead of
// its ReplicaSet.
type Owner struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// WhereTo says where the successor of a pod that leaves would go, according to the scheduler's own filters.
type WhereTo struct {
	// Reason says why no node was considered: the pod has no successor, or the scheduler cannot answer for it. All other
	// fields except NoSuccessor are then empty.
	Reason string `json:"reason,omitempty"`
	// NoSuccessor is true if nothing creates a successor of the pod. Reason says why.
	NoSuccessor bool `json:"noSuccessor,omitempty"`
	// Node is where the plan places it: the node with the best score of those that would take it. If scores are equal,
	// the scheduler chooses at random, so it may choose another. It is empty if no node would take it, and if Bound is
	// true.
	Node string `json:"node,omitempty"`
	// Fits is the number of nodes that would take it, once the pods that are placed before it have nodes. Nodes lists
	// at most 100 of them.
	Fits  int      `json:"fits"`
	Nodes []string `json:"nodes,omitempty"`
	// Preempts are the pods of lower priority that the scheduler preempts to make room for it. The plan lists them, too.
	Preempts []string `json:"preempts,omitempty"`
	// Bound is true if Fits and Nodes are the most recent answer for an identical pod instead of an answer for this one.
	// Pods placed since then may have filled some of these nodes.
	Bound bool `json:"bound,omitempty"`
	// LeavesAgain is true if it must leave Node again, because it tolerates a NoExecute taint there only for a while.
	LeavesAgain bool `json:"leavesAgain,omitempty"`
	// Warnings are the problems to look at.
	Warnings []PlacementWarning `json:"warnings,omitempty"`
}

// PlacementWarning is a problem to look at before a pod leaves.
type PlacementWarning struct {
	Type PlacementWarningType `json:"type"`
	// Message is a sentence. Pods with the same problem have the same message.
	Message string `json:"message"`
}

// PlacementWarningType says what a warning is about.
type PlacementWarningType string

// Warnings about where a successor would go.
const (
	WarningNowhere    PlacementWarningType = "Nowhere"    // no node would take it
	WarningPreempts   PlacementWarningType = "Preempts"   // others are preempted to make room for it
	WarningOutAgain   PlacementWarningType = "OutAgain"   // a node would take it, but a taint there makes it leave again
	WarningZoneSpread PlacementWarningType = "ZoneSpread" // its workload would be in one zone only
	WarningSkew       PlacementWarningType = "Skew"       // its workload would be spread less evenly than it requests
	WarningVolume     PlacementWarningType = "Volume"     // a volume ties it to one node, or to a zone without room
)

// PlannedWorkload is the owner of pods that leave.
type PlannedWorkload struct {
	Owner     `json:",inline"`
	Namespace string `json:"namespace"`
	// Replicas is the number of its pods in the cluster that are ready.
	Replicas int `json:"replicas"`
	// Leave is how many of them leave the nodes of the plan. Pods that EvictionPolicies keep without end do not count.
	Leave int `json:"leave"`
	// Lowest is the lowest number of ready pods over time. A pod that leaves gets a successor, if its controller creates
	// one and a node takes it, which is ready 5 s after it is bound.
	Lowest int `json:"lowest"`
}

// PlannedBudget is a PodDisruptionBudget that covers pods that leave.
type PlannedBudget struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Allowed is how many disruptions it allows now. Leave is how many of its pods leave, and Asked how many of them
	// leave only when the Eviction API allows it, because an EvictionPolicy requires that.
	Allowed int32 `json:"allowed"`
	Leave   int   `json:"leave"`
	Asked   int   `json:"asked,omitempty"`
	// Breach is how many more of its healthy pods are missing at one time than the budget allows. It is 0 if the budget
	// is not overrun.
	Breach int `json:"breach"`
}
