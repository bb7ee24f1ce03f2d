// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction makes pods leave nodes that have a NoExecute taint they do not tolerate, or
// tolerate no longer.
//
// It works in two stages, each an ordinary controller with its own queue:
//
//	decide   keyed by node: the node's NoExecute taints x its pods -> verdicts. Pods that are due
//	         go to the next stage; the node comes back once, at its next due instant.
//	execute  keyed by pod UID, earliest due first: decide again, confirm the node's taints by a
//	         live read, set the condition DisruptionTarget, decide again, delete.
//
// Beside them a third, small one writes the missing timeAdded of NoExecute taints, so that
// deadlines survive this process. Nothing else is stored: when a pod is due follows from what
// the API server has, by package verdict.
package eviction
