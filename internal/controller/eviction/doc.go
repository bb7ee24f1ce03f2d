// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction makes pods leave nodes that have a NoExecute taint they do not tolerate, or
// tolerate no longer.
//
// It works in two stages:
//
//	decide   keyed by node: the node's NoExecute taints x its pods -> the pods that must leave, now or later, for
//	         the Backlog, which says what to try next.
//	evict    one goroutine per try: decide again, confirm the node's taints by a live read, set the condition
//	         DisruptionTarget, decide again, delete.
//
// A third controller, a small one, writes the missing timeAdded of NoExecute taints, so that deadlines survive this
// process. Nothing else is stored: when a pod is due follows from what the API server has, by package verdict.
package eviction
