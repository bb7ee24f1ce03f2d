// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TaintList is the taints of nodes.
type TaintList struct {
	metav1.TypeMeta `json:",inline"`

	// At is when the taints were read.
	At metav1.MicroTime `json:"at"`
	// Notes are sentences about what the command could not find out.
	Notes []string `json:"notes,omitempty"`
	// Taints are sorted by node, in the node's order.
	Taints []NodeTaint `json:"taints"`
}

// NodeTaint is a taint of a node, and how the pods on that node tolerate it.
type NodeTaint struct {
	Node string `json:"node"`
	// Taint is the whole taint in kubectl's grammar. Key, Value and Effect are its parts.
	Taint  string             `json:"taint"`
	Key    string             `json:"key"`
	Value  string             `json:"value,omitempty"`
	Effect corev1.TaintEffect `json:"effect"`
	// TimeAdded is absent if the taint does not have it.
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
	// LastWrite is the last write of the node's taints, which set this one or left it there. It is absent if the node's
	// managedFields do not have it.
	LastWrite *Write `json:"lastWrite,omitempty"`
	// How many pods on the node tolerate the taint indefinitely, for a limited time (tolerationSeconds), and not at all.
	Indefinite int `json:"indefinite"`
	ForAWhile  int `json:"forAWhile"`
	NotAtAll   int `json:"notAtAll"`
}

// Write is who wrote a field of an object, and when, according to its managedFields.
type Write struct {
	// By is the name of the field manager, such as kubectl-taint.
	By string      `json:"by"`
	At metav1.Time `json:"at"`
}
