// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// StatusReport says how Taintkeeper is doing in a cluster.
type StatusReport struct {
	metav1.TypeMeta `json:",inline"`

	// At is when the cluster was read.
	At metav1.MicroTime `json:"at"`
	// Health determines the exit code.
	Health Health `json:"health"`
	// Problems are sentences about why Health is not Healthy.
	Problems []string `json:"problems,omitempty"`
	// Notes are sentences about what the command could not find out.
	Notes []string `json:"notes,omitempty"`
	// Unknown are the fields that may be absent or zero only because they could not be determined, and why.
	Unknown []UnknownField `json:"unknown,omitempty"`
	// Mode is absent if Taintkeeper is not running, or if its mode is not known.
	Mode Mode `json:"mode,omitempty"`
	// Controllers are the controllers that run. They are absent if no leader says on its Lease what it runs.
	Controllers []string `json:"controllers,omitempty"`
	// Version is what the leader wrote on its Lease. Shadow mode has no Lease; then it is what the pod has as a label.
	Version string `json:"version,omitempty"`
	// Leader is absent if no replica holds the Lease.
	Leader *Leader `json:"leader,omitempty"`
	// Replicas are the pods that run Taintkeeper.
	Replicas []Replica  `json:"replicas,omitempty"`
	Pods     PodsToGo   `json:"pods"`
	HeldBy   []Objector `json:"heldBy,omitempty"`
	// Zones count the nodes, by the name of their zone.
	Zones []ZoneNodes `json:"zones,omitempty"`
	// EvictionClock is absent without coexistence.
	EvictionClock *EvictionClockStatus `json:"evictionClock,omitempty"`
	// BuiltInBacklog is the evictions that kube-controller-manager began while it was kept from evicting, and has not
	// finished. It is absent if there are none.
	BuiltInBacklog *BuiltInBacklog `json:"builtInBacklog,omitempty"`
	// LastError is Taintkeeper's most recent event about a failure. It is absent if there is none. The API server keeps
	// events for an hour by default.
	LastError *LastError `json:"lastError,omitempty"`
	// Shadow is the report of shadow mode, which may be old. It is absent if there is none.
	Shadow *v1alpha1.ShadowReport `json:"shadow,omitempty"`
}

// UnknownField is a field of a StatusReport that could not be determined.
type UnknownField struct {
	// Field is its name in JSON.
	Field string `json:"field"`
	// Reason is part of a sentence.
	Reason string `json:"reason"`
}

// Health says whether Taintkeeper does its job.
type Health string

// Values of Health.
const (
	Healthy       Health = "Healthy"       // it runs, and nothing is wrong
	Degraded      Health = "Degraded"      // it runs, and something is wrong
	NotRunning    Health = "NotRunning"    // no replica is the leader, and none runs without leader election
	HealthUnknown Health = "HealthUnknown" // what could be read does not show whether it runs
)

// Mode is what Taintkeeper does.
type Mode string

// Values of Mode.
const (
	ModeEnforce Mode = "Enforce" // it evicts and taints
	ModeShadow  Mode = "Shadow"  // it compares the built-in's evictions with what taints and tolerations require
	ModeDryRun  Mode = "DryRun"  // it logs what it would do
)

// Leader is the replica that holds the Lease.
type Leader struct {
	// Identity begins with the name of the replica's pod.
	Identity string `json:"identity"`
	// Lease is the Lease as NAMESPACE/NAME.
	Lease string `json:"lease"`
	// Since is when the leader acquired the Lease. Renewed is when it last renewed it, according to the leader's own
	// clock.
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

// PodsToGo counts the pods that must leave because of taints and are not terminating yet.
type PodsToGo struct {
	// Later is the number of pods that are due in the future. Next is when the first of them is due.
	Later int               `json:"later"`
	Next  *metav1.MicroTime `json:"next,omitempty"`
	// Due is the number of pods that are due now and that no EvictionPolicy holds.
	Due int `json:"due"`
	// Overdue is how many of those have been due for more than a minute. Oldest is when the first of them was due.
	Overdue int               `json:"overdue"`
	Oldest  *metav1.MicroTime `json:"oldest,omitempty"`
	// Held is the number of pods that are due and that an EvictionPolicy holds. They do not count as Due.
	Held int `json:"held"`
}

// ZoneNodes counts the nodes of a zone.
type ZoneNodes struct {
	// Zone is the region and the zone, or (none).
	Zone  string `json:"zone"`
	Nodes int    `json:"nodes"`
	// NotReady is how many of them are not ready or unreachable, and Unreachable how many are unreachable.
	NotReady    int `json:"notReady"`
	Unreachable int `json:"unreachable"`
}

// Objector is an EvictionPolicy that holds pods, or a pause that holds none yet. A pod counts once, for the policy that
// objects most strictly.
type Objector struct {
	Policy string `json:"policy"`
	// Reason is why it holds them.
	Reason string `json:"reason"`
	Pods   int    `json:"pods"`
}

// EvictionClockStatus says whether the built-in is kept from evicting.
type EvictionClockStatus struct {
	State ClockState `json:"state"`
	// ServiceAccount is the object that carries the eviction clock, as NAMESPACE/NAME.
	ServiceAccount string `json:"serviceAccount"`
	// Renewed is absent if the eviction clock is not set.
	Renewed *metav1.Time `json:"renewed,omitempty"`
}

// ClockState is the state of the eviction clock.
type ClockState string

// Values of ClockState.
const (
	ClockFresh  ClockState = "Fresh"  // the built-in is kept from evicting
	ClockStale  ClockState = "Stale"  // it has not been renewed for 30 seconds, so the built-in may evict
	ClockNotSet ClockState = "NotSet" // it was cleared, or never set, so the built-in may evict
)

// BuiltInBacklog is the evictions that kube-controller-manager has begun and may still try.
type BuiltInBacklog struct {
	// Until is the latest time at which the backlog can end.
	Until metav1.Time `json:"until"`
	// SparedNodes are the nodes on which the built-in may evict no pods until then. AllSpared is true if that is all
	// nodes.
	SparedNodes []string `json:"sparedNodes,omitempty"`
	AllSpared   bool     `json:"allSpared,omitempty"`
}

// LastError is something that Taintkeeper failed to do.
type LastError struct {
	At metav1.MicroTime `json:"at"`
	// Object is the object of the event, as KIND NAMESPACE/NAME.
	Object string `json:"object"`
	// Reason and Message are the event's.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}
