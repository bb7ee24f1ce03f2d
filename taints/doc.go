// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taints answers questions about the taints of a node and the tolerations of a pod as Kubernetes 1.37 does: how
// kubectl taint writes a taint, what an edit does to a node's taints, which toleration matches a taint, and what the
// scheduler's TaintToleration plugin says about a node.
//
// It is pure: it has no client, no clock, no goroutine and no logger. Functions may be called concurrently as long as
// their arguments do not change meanwhile. Package verdict decides when a taint makes a pod leave.
package taints
