// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Simulation is a scenario: what happens to the nodes of a cluster, and when. Times count from the start.
type Simulation struct {
	metav1.TypeMeta `json:",inline"`

	// Until is when the simulation ends.
	Until metav1.Duration `json:"until"`
	// Steps are what happens. Steps at the same time happen in the order of the list.
	Steps []SimulationStep `json:"steps"`
}

// SimulationStep is one thing that happens. Exactly one field besides At is set.
type SimulationStep struct {
	// At is when it happens.
	At metav1.Duration `json:"at"`
	// Silent nodes give no sign of life from now on.
	Silent *SimulationNodes `json:"silent,omitempty"`
	// Back are silent nodes that give signs of life again.
	Back *SimulationNodes `json:"back,omitempty"`
	// Taint sets and removes taints.
	Taint *SimulationTaint `json:"taint,omitempty"`
	// APIServerDown is how long the API server does not respond, starting now.
	APIServerDown *metav1.Duration `json:"apiServerDown,omitempty"`
}

// SimulationNodes selects nodes. Exactly one of its fields is set.
type SimulationNodes struct {
	// Nodes are the names of nodes.
	Nodes []string `json:"nodes,omitempty"`
	// Selector is a label selector in kubectl's grammar.
	Selector string `json:"selector,omitempty"`
	// All selects all nodes.
	All bool `json:"all,omitempty"`
}

// SimulationTaint changes the taints of nodes.
type SimulationTaint struct {
	SimulationNodes `json:",inline"`

	// Taints are in kubectl's grammar: additions, and removals with a trailing "-". A taint replaces a taint with the
	// same key and effect.
	Taints []string `json:"taints"`
}

// SimulationReport is what happens in a simulation. Times count from its start.
type SimulationReport struct {
	metav1.TypeMeta `json:",inline"`

	// At is when the simulation starts, with the cluster in the state that it had at that time.
	At metav1.MicroTime `json:"at"`
	// Context and Cluster are names from the kubeconfig, and Server is the address of the cluster. They are absent if
	// the cluster was read from files.
	Context string `json:"context,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Server  string `json:"server,omitempty"`
	// Until is when the simulation ends.
	Until metav1.Duration `json:"until"`
	// EvictedBy says who evicts in the cluster. Pods leave according to kube-controller-manager's rule and rate if that is
	// BuiltIn, and otherwise according to Taintkeeper's rule. It is absent if it is not known who evicts.
	EvictedBy Who               `json:"evictedBy,omitempty"`
	Summary   SimulationSummary `json:"summary"`
	// Story is what happens, in chronological order. It groups similar events.
	Story []SimulationEvent `json:"story"`
	// Nodes are the affected nodes and those that pods leave, by name.
	Nodes []SimulatedNode `json:"nodes"`
	// Pods are the pods that leave, that EvictionPolicies hold or that wait for room, in the order in which that
	// happens.
	Pods []SimulatedPod `json:"pods"`
	// Workloads are those that at some point have fewer ready replicas than at the start, the worst first.
	Workloads []SimulatedWorkload `json:"workloads,omitempty"`
	// Budgets are the PodDisruptionBudgets with enough healthy pods at the start, but too few at some point, the worst
	// first.
	Budgets []SimulatedBudget `json:"budgets,omitempty"`
	// Notes are sentences about what the command could not find out, and NotSimulated about what is never simulated.
	Notes        []string `json:"notes,omitempty"`
	NotSimulated []string `json:"notSimulated"`
}

// SimulationSummary counts nodes, pods, workloads and budgets.
type SimulationSummary struct {
	// Unreachable is how many nodes are unreachable at some point, and Tainted is how many nodes whose taints change
	// have a NoExecute taint at some point.
	Unreachable int `json:"unreachable"`
	Tainted     int `json:"tainted"`
	// Left is how many pods leave, and Held is how many due pods EvictionPolicies hold at the end.
	Left int `json:"left"`
	Held int `json:"held"`
	// Preempted is how many of these make room for pods of higher priority. It is 0 without --where-to.
	Preempted int `json:"preempted,omitempty"`
	// PodsLost is how many pods leave that no controller replaces, and LocalData how many lose the data in their emptyDir
	// volumes.
	PodsLost  int `json:"podsLost"`
	LocalData int `json:"localData"`
	// WorkloadsLost is how many workloads at some point have no ready replica, but had one at the start.
	WorkloadsLost int `json:"workloadsLost"`
	// BudgetsOverrun is how many budgets at some point have fewer healthy pods than they require, but had enough at the
	// start.
	BudgetsOverrun int `json:"budgetsOverrun"`
	// Nowhere is how many pods wait for room at the end.
	Nowhere int `json:"nowhere"`
	// Unattached is how many pods wait at the end for volumes that are attached to other nodes.
	Unattached int `json:"unattached"`
}

// SimulationEvent is a line of the story.
type SimulationEvent struct {
	At metav1.Duration `json:"at"`
	// Ends is when the event ends or last happens. It is absent if the event is a single instant or does not end.
	Ends *metav1.Duration `json:"ends,omitempty"`
	// Message is a sentence without its final period.
	Message string `json:"message"`
}

// SimulatedNode is a node that something happens to, or that pods leave.
type SimulatedNode struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// Before are its taints at the start.
	Before []string `json:"before,omitempty"`
	// UnreachableAt is when its conditions become Unknown for the first time.
	UnreachableAt *metav1.Duration `json:"unreachableAt,omitempty"`
	// Steps are its taints over time.
	Steps []SimulatedTaints `json:"steps,omitempty"`
	// Held says why node health has not tainted the node by the end or, if the node is back before that, until then.
	Held string `json:"held,omitempty"`
}

// SimulatedTaints is the taints that a node has from a given time on.
type SimulatedTaints struct {
	At     metav1.Duration `json:"at"`
	Taints []string        `json:"taints"`
}

// SimulatedPod is a pod that something happens to. A successor has the name of its predecessor with a number, such as
// web-1~2.
type SimulatedPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	Owner     *Owner    `json:"owner,omitempty"`
	// Node is the node that the pod is on. It is empty without --where-to, or if the pod waits for room.
	Node string `json:"node,omitempty"`
	// WaitsSince is when the pod starts to wait for room, and Reason says why. They are absent if it has room at once.
	// WaitsUntil is when it finds room. It is absent if the pod still waits at the end.
	WaitsSince *metav1.Duration `json:"waitsSince,omitempty"`
	WaitsUntil *metav1.Duration `json:"waitsUntil,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	// Volume says which volume the pod, which has a node, waits for at the end, and where that is still attached.
	Volume string `json:"volume,omitempty"`
	// LeavesAt is when it starts to leave, and Taint is the taint that makes it leave. Taint is empty if the pod ends
	// because its Job fails, or because PreemptedBy, a pod of higher priority, needs its room.
	LeavesAt    *metav1.Duration `json:"leavesAt,omitempty"`
	Taint       string           `json:"taint,omitempty"`
	PreemptedBy string           `json:"preemptedBy,omitempty"`
	// Lost is true if the pod leaves and has no controller that replaces it. LocalData is true if it leaves and has
	// emptyDir volumes, whose data is lost with it.
	Lost      bool `json:"lost,omitempty"`
	LocalData bool `json:"localData,omitempty"`
	// HeldBy says which EvictionPolicy holds the pod at the end, and why.
	HeldBy string `json:"heldBy,omitempty"`
	// Successor is the name of the pod that replaces it, and NoSuccessor says why none does. SuccessorUnknown is true if
	// it is not known whether a pod replaces it; NoSuccessor then says why.
	Successor        string `json:"successor,omitempty"`
	NoSuccessor      string `json:"noSuccessor,omitempty"`
	SuccessorUnknown bool   `json:"successorUnknown,omitempty"`
	// SuccessorNode is where that pod goes. It is empty without --where-to, or if that pod waits for room.
	SuccessorNode string `json:"successorNode,omitempty"`
}

// SimulatedWorkload is a workload that at some point has fewer ready replicas than at the start.
type SimulatedWorkload struct {
	Owner     `json:",inline"`
	Namespace string `json:"namespace"`
	// Replicas is how many are ready at the start, Lowest is the lowest number, LowestAt is when it is first reached,
	// and LowestFor is the total time at that number.
	Replicas  int             `json:"replicas"`
	Lowest    int             `json:"lowest"`
	LowestAt  metav1.Duration `json:"lowestAt"`
	LowestFor metav1.Duration `json:"lowestFor"`
	// AtEnd is how many are ready at the end.
	AtEnd int `json:"atEnd"`
	// Unknown is true if pods leave and it is not known whether their owner creates others, because it is not a
	// controller of Kubernetes. Numbers and times then do not count such pods.
	Unknown bool `json:"unknown,omitempty"`
	// Steps are the numbers of ready replicas over time.
	Steps []SimulatedReplicas `json:"steps"`
}

// SimulatedReplicas is how many replicas of a workload are ready from a given time on.
type SimulatedReplicas struct {
	At    metav1.Duration `json:"at"`
	Ready int             `json:"ready"`
}

// SimulatedBudget is a PodDisruptionBudget with enough healthy pods at the start, but too few at some point.
type SimulatedBudget struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Desired is how many healthy pods it requires, Lowest is the lowest number, LowestAt is when it is first reached,
	// and OverrunFor is the total time with too few.
	Desired    int             `json:"desired"`
	Lowest     int             `json:"lowest"`
	LowestAt   metav1.Duration `json:"lowestAt"`
	OverrunFor metav1.Duration `json:"overrunFor"`
}
