// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TaintList is the taints of nodes.
//
// +kubebuilder:object:root=true
type TaintList struct {
	metav1.TypeMeta `json:",inline"`

	// At is the instant at which they were read.
	At metav1.MicroTime `json:"at"`
	// Notes are sentences about what could not be known.
	Notes []string `json:"notes,omitempty"`
	// Taints are by node, in the order that they have there.
	Taints []NodeTaint `json:"taints"`
}

// NodeTaint is a taint of a node, and how the pods on that node take it.
type NodeTaint struct {
	Node string `json:"node"`
	// Taint is the whole in kubectl's grammar, and Key, Value and Effect are its parts.
	Taint  string             `json:"taint"`
	Key    string             `json:"key"`
	Value  string             `json:"value,omitempty"`
	Effect corev1.TaintEffect `json:"effect"`
	// TimeAdded is absent if nobody wrote it down.
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
	// How many pods on the node tolerate the taint indefinitely, for a while (tolerationSeconds), and not at all.
	ForEver   int `json:"forEver"`
	ForAWhile int `json:"forAWhile"`
	NotAtAll  int `json:"notAtAll"`
}
