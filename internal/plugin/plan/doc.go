// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan says what a change of taints would do to the cluster in its current state: which pods leave, when and
// why, what happens to their workloads and PodDisruptionBudgets, and which nodes are emptied.
//
// It is pure: it takes the objects of a cluster and an instant, and decides with packages taints and verdict, like the
// controller. What follows with time, EvictionPolicies and successors, is played by package course.
package plan
