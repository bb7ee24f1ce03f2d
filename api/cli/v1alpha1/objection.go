// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PolicyStep is what EvictionPolicies say of a pod that is due.
type PolicyStep string

// The steps, from the mildest to the strictest.
const (
	PolicyFree PolicyStep = "Free" // it may be deleted
	PolicyAsk  PolicyStep = "Ask"  // the Eviction API is asked
	PolicyWait PolicyStep = "Wait" // it stays until an instant
	PolicyHold PolicyStep = "Hold" // it stays
)

// Stays reports whether a policy keeps the pod; nil does not.
func (a *PolicyAnswer) Stays() bool {
	return a != nil && (a.Says == PolicyWait || a.Says == PolicyHold)
}

// HeldBy says which policy keeps the pod, and why; empty if none does.
func (a *PolicyAnswer) HeldBy() string {
	if !a.Stays() {
		return ""
	}
	return a.Policy + ": " + a.Reason
}

// PolicyAnswer is what EvictionPolicies say of a pod when it is due, or now if it is due already.
type PolicyAnswer struct {
	Says PolicyStep `json:"says"`
	// Policy is the one that objects or asks, Reason its reason, and Message the whole as a sentence without a full stop.
	Policy  string `json:"policy,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Until is when this answer ends by itself; absent if it does not.
	Until *metav1.MicroTime `json:"until,omitempty"`
	// LeavesAt is when no policy objects any more if nothing but the time changes; absent if time alone does not bring
	// that. Paces are not taken into account.
	LeavesAt *metav1.MicroTime `json:"leavesAt,omitempty"`
	// LastPolicy is the last one to let the pod go; absent if no policy objects.
	LastPolicy string `json:"lastPolicy,omitempty"`
}
