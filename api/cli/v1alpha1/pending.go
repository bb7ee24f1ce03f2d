// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PendingList is all pods that must leave because of a taint and are still there.
type PendingList struct {
	metav1.TypeMeta `json:",inline"`

	// At is when the pods were read.
	At metav1.MicroTime `json:"at"`
	// EvictedBy says who evicts in the cluster. Times are according to kube-controller-manager's rule if that is BuiltIn,
	// and otherwise according to Taintkeeper's rule. It is absent if it is not known who evicts.
	EvictedBy Who `json:"evictedBy,omitempty"`
	// Notes are sentences about what the command could not find out.
	Notes []string `json:"notes,omitempty"`
	// Pods are sorted by due time, soonest first. Those that were due before At are late, unless an EvictionPolicy
	// holds them.
	Pods []PendingPod `json:"pods"`
	// Stuck are the pods that a taint has made leave, and that still exist although their containers had time to stop.
	Stuck []StuckPod `json:"stuck,omitempty"`
}

// StuckPod is a terminating pod.
type StuckPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Node      string    `json:"node"`
	Owner     *Owner    `json:"owner,omitempty"`

	Termination `json:",inline"`
}

// PendingPod is a pod that must leave.
type PendingPod struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	UID       types.UID        `json:"uid"`
	Node      string           `json:"node"`
	Due       metav1.MicroTime `json:"due"`
	// About is true if Due is an estimate: the taint has no timeAdded, and counts from roughly when it was written.
	About bool `json:"about,omitempty"`
	// Taint is the taint that decides. Toleration is the one that applies to it. It is absent if no toleration matches
	// the taint.
	Taint      string             `json:"taint"`
	Toleration *corev1.Toleration `json:"toleration,omitempty"`
	Owner      *Owner             `json:"owner,omitempty"`
	Priority   int32              `json:"priority"`
	// Answer is what EvictionPolicies say about the pod. It is absent if none selects it.
	Answer *PolicyAnswer `json:"answer,omitempty"`
	// EndsWithKubelet is a taint because of which the pod, which is due and stays, ends if its kubelet restarts. It is
	// absent if the pod would survive that.
	EndsWithKubelet string `json:"endsWithKubelet,omitempty"`
}

// EvictionList is the evictions of the past, as far as events tell of them. The API server keeps events for an hour, or
// for what its flag --event-ttl says.
//
// +kubebuilder:object:root=true
type EvictionList struct {
	metav1.TypeMeta `json:",inline"`

	// At is when the events were read. Since is the start of the time that the list is about.
	At    metav1.MicroTime `json:"at"`
	Since metav1.MicroTime `json:"since"`
	// Notes are sentences about what the command could not find out.
	Notes []string `json:"notes,omitempty"`
	// Evictions are sorted by time, oldest first.
	Evictions []Eviction `json:"evictions"`
}

// Eviction is what the event of an eviction says. What an event does not say is absent: the built-in's has neither node
// nor taint.
type Eviction struct {
	// At is when the eviction began, or was last tried. Due is when the pod had to leave.
	At  metav1.MicroTime  `json:"at"`
	Due *metav1.MicroTime `json:"due,omitempty"`
	// Cancelled is true if the pod was allowed to stay.
	Cancelled bool      `json:"cancelled,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	Node      string    `json:"node,omitempty"`
	Taint     string    `json:"taint,omitempty"`
	// By is Taintkeeper or BuiltIn.
	By Who `json:"by"`
	// Pods is how many pods of the node the event stands for: 1, or more in a storm. It then names none.
	Pods int `json:"pods"`
}

// PendingChange is one change to the list of pending pods, as --watch reports it.
type PendingChange struct {
	metav1.TypeMeta `json:",inline"`

	// At is when the command saw the change.
	At metav1.MicroTime `json:"at"`
	// Change is what happened to the pod.
	Change PendingEvent `json:"change"`
	Pod    PendingPod   `json:"pod"`
}

// PendingEvent is what happened to a pending pod.
type PendingEvent string

// Values of PendingEvent.
const (
	PendingLeaves    PendingEvent = "Leaves"    // it must now leave
	PendingMoved     PendingEvent = "Moved"     // its due time has changed
	PendingDueNow    PendingEvent = "DueNow"    // it is now due
	PendingHeld      PendingEvent = "Held"      // an EvictionPolicy keeps it, or the policy or its reason has changed
	PendingReleased  PendingEvent = "Released"  // no EvictionPolicy keeps it anymore
	PendingGone      PendingEvent = "Gone"      // it is deleted, or terminating
	PendingCancelled PendingEvent = "Cancelled" // it no longer needs to leave
)
