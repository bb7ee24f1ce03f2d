// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PolicyStep is what EvictionPolicies say about a pod that is due.
type PolicyStep string

// The steps, from the mildest to the strictest.
const (
	PolicyFree PolicyStep = "Free" // it may be deleted
	PolicyAsk  PolicyStep = "Ask"  // Taintkeeper asks the Eviction API
	PolicyWait PolicyStep = "Wait" // it stays until a given instant
	PolicyHold PolicyStep = "Hold" // it stays
)

// Stays reports whether a policy keeps the pod. A nil answer does not.
func (a *PolicyAnswer) Stays() bool {
	return a != nil && (a.Says == PolicyWait || a.Says == PolicyHold)
}

// HeldBy says which policy keeps the pod, and why. It is empty if none does.
func (a *PolicyAnswer) HeldBy() string {
	if !a.Stays() {
		return ""
	}
	return a.Policy + ": " + a.Reason
}

// PolicyAnswer is what EvictionPolicies say about a pod when it is due, or now if it is already due.
type PolicyAnswer struct {
	Says PolicyStep `json:"says"`
	// Policy is the policy that objects or asks, and Reason is its reason. Message says all of it in a sentence without a
	// final period.
	Policy  string `json:"policy,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Until is when this answer ends if the cluster does not change. It is absent if the answer then never ends.
	Until *metav1.MicroTime `json:"until,omitempty"`
	// LeavesAt is when the last policy stops objecting if nothing but the time changes. It is absent if that never
	// happens. Only a plan takes into account that other pods leave, and with them paces, breakers that open, and what
	// successors change in budgets.
	LeavesAt *metav1.MicroTime `json:"leavesAt,omitempty"`
	// LastPolicy is the policy that releases the pod last. It is absent if no policy objects.
	LastPolicy string `json:"lastPolicy,omitempty"`
}
