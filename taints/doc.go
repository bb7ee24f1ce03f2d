// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taints answers questions about the taints of a node and the tolerations of a pod as Kubernetes 1.36
// answers them: how kubectl taint writes a taint, what an edit makes of a node's taints, which toleration matches a
// taint, and what the scheduler's TaintToleration plugin says about a node.
//
// It is pure: it knows no client, no clock and no goroutine, and writes no log. Every function may be called
// concurrently as long as nobody changes its arguments meanwhile. Package verdict says when a taint makes a pod
// leave.
package taints
