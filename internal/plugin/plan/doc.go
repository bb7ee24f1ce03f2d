// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan says what a change of taints would do to a cluster as it stands: which pods leave, when and why, what
// happens to their workloads and PodDisruptionBudgets, and which nodes are emptied.
//
// It is pure. It takes the objects of a cluster and an instant, and decides with packages taints and verdict as the
// controller does.
package plan
