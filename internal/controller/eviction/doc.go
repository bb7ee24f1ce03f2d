// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction evicts pods from nodes with NoExecute taints that they do not tolerate, or no longer tolerate.
//
// It works in two stages:
//
//	decide   keyed by node: the node's NoExecute taints x its pods -> the pods that must leave, now or later, for
//	         the Backlog, which says what to try next.
//	evict    one goroutine per try: decide again, confirm the node's taints by a live read, set the condition
//	         DisruptionTarget, decide again, delete.
//
// A third, small controller writes the missing timeAdded of NoExecute taints, so that deadlines survive this process.
// Nothing else is stored: package verdict derives when a pod is due from what the API server has.
package eviction
