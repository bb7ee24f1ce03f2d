// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PendingList is all pods that must leave because of a taint, and are still there.
//
// +kubebuilder:object:root=true
type PendingList struct {
	metav1.TypeMeta `json:",inline"`

	// At is the instant at which they were read.
	At metav1.MicroTime `json:"at"`
	// Notes are sentences about what could not be known.
	Notes []string `json:"notes,omitempty"`
	// Pods are by due instant, soonest first. Those whose instant is before At are late.
	Pods []PendingPod `json:"pods"`
}

// PendingPod is a pod that must leave.
type PendingPod struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	UID       types.UID        `json:"uid"`
	Node      string           `json:"node"`
	Due       metav1.MicroTime `json:"due"`
	// About is true if Due is about right only: the taint has no timeAdded, and counts from about when it was written.
	About bool `json:"about,omitempty"`
	// Taint is the one that decides, and Toleration what counts against it: absent if nothing tolerates it.
	Taint      string             `json:"taint"`
	Toleration *corev1.Toleration `json:"toleration,omitempty"`
	Owner      *Owner             `json:"owner,omitempty"`
	Priority   int32              `json:"priority"`
	// Answer is what EvictionPolicies say of the pod; absent if none selects it.
	Answer *PolicyAnswer `json:"answer,omitempty"`
}

// PendingChange is one change of what is pending, as --watch tells it.
//
// +kubebuilder:object:root=true
type PendingChange struct {
	metav1.TypeMeta `json:",inline"`

	// At is when it was seen.
	At metav1.MicroTime `json:"at"`
	// Change is what happened to the pod.
	Change PendingEvent `json:"change"`
	Pod    PendingPod   `json:"pod"`
}

// PendingEvent is what happens to a pod that is pending.
type PendingEvent string

// What happens to pods that are pending.
const (
	PendingLeaves    PendingEvent = "Leaves"    // it must leave from now on
	PendingMoved     PendingEvent = "Moved"     // it is due at another instant than before
	PendingDueNow    PendingEvent = "DueNow"    // its instant has come
	PendingHeld      PendingEvent = "Held"      // an EvictionPolicy keeps it, or another one than before, or for another reason
	PendingReleased  PendingEvent = "Released"  // no EvictionPolicy keeps it any more
	PendingGone      PendingEvent = "Gone"      // it is deleted, or on its way
	PendingCancelled PendingEvent = "Cancelled" // it stays
)
