// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Snapshot is the first line of a snapshot. The objects of the cluster follow, one per line.
type Snapshot struct {
	metav1.TypeMeta `json:",inline"`

	// At is when the cluster was read.
	At metav1.MicroTime `json:"at"`
	// Unread are the kinds that could not be read. The cluster may have objects of these kinds.
	Unread []string `json:"unread,omitempty"`
}

// SnapshotEnd is the last line of a snapshot. A snapshot without it is incomplete.
type SnapshotEnd struct {
	metav1.TypeMeta `json:",inline"`

	// Objects is the number of objects between the first line and this one.
	Objects int `json:"objects"`
}
