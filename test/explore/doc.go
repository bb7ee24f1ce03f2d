// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explore walks every history of small worlds, to find the shortest that breaks a promise.
//
// A world is the state of a cluster and of the processes in it, and what can happen next: a step. What decides in a
// process is not written again here: the packages verdict, policy, backlog and builtin are called, and the admission
// policy of config/coexistence.yaml is evaluated with the API server's own CEL. What happens around them is: which
// watch has brought what, which call comes next, and that each call may be the last. Time passes in steps of 30 s and
// more, and calls take none.
//
//	explore.go      breadth first over all states
//	fingerprint.go  which states are the same: only what the future depends on counts
//	clone.go        copies of a world
//	evictions.go    the world, its steps and its promises
//	cluster.go      what the API server has
//	admission.go    the admission policy
//	replica.go      a process of Taintkeeper
//	kcm.go          the taint-eviction-controller of kube-controller-manager
//
// A history that breaks a promise is printed as a timeline. That of each gap in docs/coexistence.md is in testdata.
package explore
