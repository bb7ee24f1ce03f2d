// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies follows the EvictionPolicies of a cluster, and says of pods that are due whether they may leave.
//
// The rule is that of package policy. This package gives it what it needs: the policies, the labels of pods, namespaces
// and nodes, and what happened before. All of that is read anew for each answer, so an answer is never older than the
// caches.
package policies
