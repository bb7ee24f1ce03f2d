// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StatusReport says how Taintkeeper does in a cluster.
//
// +kubebuilder:object:root=true
type StatusReport struct {
	metav1.TypeMeta `json:",inline"`

	// At is the instant at which the cluster was read.
	At metav1.MicroTime `json:"at"`
	// Health is what the exit code says.
	Health Health `json:"health"`
	// Problems are sentences about why Health is not Healthy.
	Problems []string `json:"problems,omitempty"`
	// Notes are sentences about what could not be known.
	Notes []string `json:"notes,omitempty"`
	// Unknown are the fields whose absence, or zero, says nothing, and why.
	Unknown []UnknownField `json:"unknown,omitempty"`
	// Mode is absent if Taintkeeper does not run, or if that is not known.
	Mode Mode `json:"mode,omitempty"`
	// Controllers are those that run; absent if no pod of Taintkeeper shows them.
	Controllers []string `json:"controllers,omitempty"`
	// Version is what the leader has written on its Lease, or what a replica without an election has as a label.
	Version string `json:"version,omitempty"`
	// Leader is absent if no replica holds the Lease.
	Leader *Leader `json:"leader,omitempty"`
	// Replicas are the pods that run Taintkeeper.
	Replicas []Replica  `json:"replicas,omitempty"`
	Pods     PodsToGo   `json:"pods"`
	HeldBy   []Objector `json:"heldBy,omitempty"`
	// EvictionClock is absent without coexistence.
	EvictionClock *EvictionClockStatus `json:"evictionClock,omitempty"`
	// BuiltInBacklog is what kube-controller-manager has left of evictions that it began while it was kept from them;
	// absent if there is none.
	BuiltInBacklog *BuiltInBacklog `json:"builtInBacklog,omitempty"`
	// LastError is the newest event of Taintkeeper about something that failed; absent if there is none. The API server
	// keeps events for an hour by default.
	LastError *LastError `json:"lastError,omitempty"`
}

// UnknownField is a field of a StatusReport that is not known.
type UnknownField struct {
	// Field is its name in JSON.
	Field string `json:"field"`
	// Reason is a part of a sentence.
	Reason string `json:"reason"`
}

// Health says whether Taintkeeper does its task.
type Health string

// Values of Health.
const (
	Healthy       Health = "Healthy"       // it runs, and nothing is wrong
	Degraded      Health = "Degraded"      // it runs, and something is wrong
	NotRunning    Health = "NotRunning"    // no replica leads, and none runs without an election
	HealthUnknown Health = "HealthUnknown" // what could be read does not show whether it runs
)

// Mode is what Taintkeeper does.
type Mode string

// Values of Mode.
const (
	ModeEnforce Mode = "Enforce" // it evicts and taints
	ModeShadow  Mode = "Shadow"  // it compares what the built-in evicts with the rule
	ModeDryRun  Mode = "DryRun"  // it logs what it would do
)

// Leader is the replica that holds the Lease.
type Leader struct {
	// Identity begins with the name of the replica's pod.
	Identity string `json:"identity"`
	// Lease is the Lease as NAMESPACE/NAME.
	Lease string `json:"lease"`
	// Since is when the leader acquired the Lease, and Renewed when it last renewed it, according to its own clock.
	Since   metav1.MicroTime `json:"since,omitzero"`
	Renewed metav1.MicroTime `json:"renewed"`
}

// Replica is a pod that runs Taintkeeper.
type Replica struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node,omitempty"`
	Ready     bool   `json:"ready"`
}

// PodsToGo counts the pods that must leave because of taints, and are not terminating yet.
type PodsToGo struct {
	// Later are those that are due in the future, and Next is when the first of them is due.
	Later int               `json:"later"`
	Next  *metav1.MicroTime `json:"next,omitempty"`
	// Due are those that are due now and that no EvictionPolicy holds.
	Due int `json:"due"`
	// Overdue are those among Due that have been due for more than a minute, and Oldest is when the first of them was due.
	Overdue int               `json:"overdue"`
	Oldest  *metav1.MicroTime `json:"oldest,omitempty"`
	// Held are those that are due and that an EvictionPolicy holds. They do not count as Due.
	Held int `json:"held"`
}

// Objector is an EvictionPolicy that holds pods. A pod counts once, for the policy that objects most strictly.
type Objector struct {
	Policy string `json:"policy"`
	// Reason is why it holds them.
	Reason string `json:"reason"`
	Pods   int    `json:"pods"`
}

// EvictionClockStatus says whether the built-in is kept from evicting.
type EvictionClockStatus struct {
	State ClockState `json:"state"`
	// ServiceAccount carries the clock, as NAMESPACE/NAME.
	ServiceAccount string `json:"serviceAccount"`
	// Renewed is absent if the clock is not set.
	Renewed *metav1.Time `json:"renewed,omitempty"`
}

// ClockState is what the eviction clock says.
type ClockState string

// Values of ClockState.
const (
	ClockFresh  ClockState = "Fresh"  // the built-in is kept from evicting
	ClockStale  ClockState = "Stale"  // it was not renewed for 30 seconds, so the built-in evicts
	ClockNotSet ClockState = "NotSet" // it was handed back, or never renewed, so the built-in evicts
)

// BuiltInBacklog is what kube-controller-manager has left to do.
type BuiltInBacklog struct {
	// Until is when it is over at the latest.
	Until metav1.Time `json:"until"`
	// SparedNodes are those on which the built-in may evict no pod until then; AllSpared stands for all nodes.
	SparedNodes []string `json:"sparedNodes,omitempty"`
	AllSpared   bool     `json:"allSpared,omitempty"`
}

// LastError is something that Taintkeeper could not do.
type LastError struct {
	At metav1.MicroTime `json:"at"`
	// Object is what it is about, as KIND NAMESPACE/NAME.
	Object string `json:"object"`
	// Reason and Message are the event's.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}
