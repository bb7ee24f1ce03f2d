// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explore walks every history of small worlds, to find the shortest that breaks a promise.
//
// A world is the state of a cluster and of the processes in it, and what can happen next: a step. What decides in a
// process is not written again in a world, but called. What happens around it is: which watch has brought what, which
// call comes next, and that each call may be the last. Time passes in steps of seconds and more, and calls take none.
//
//	explore.go      breadth first over all states
//	fingerprint.go  which states are the same: only what the future depends on counts
//	clone.go        copies of a world
//	evictions/      the world of evictions, next to the taint-eviction-controller of kube-controller-manager
//
// The world of node health is with the code that it calls, in internal/controller/nodehealth.
package explore
