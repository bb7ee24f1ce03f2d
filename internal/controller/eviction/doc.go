// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction evicts pods from nodes with NoExecute taints that they do not tolerate, or no longer tolerate.
//
// It has two stages:
//
//	decide    keyed by node: the node's NoExecute taints x its pods -> the pods that must leave, now or later, for the
//	          Backlog, which chooses the next eviction to try
//	evict     one goroutine per try: decide again with a live read of the node's taints, set the condition
//	          DisruptionTarget, decide again, delete. If a policy says Evict, it asks the Eviction API instead
//
// and two small controllers:
//
//	stamp     keyed by node: writes the timeAdded of NoExecute taints, so that deadlines survive this process
//	reclaim   keyed by pod: corrects a condition DisruptionTarget that is wrong
//
// It stores nothing else. When a pod is due follows from what the API server has, according to package verdict.
//
// The files, besides eviction.go, which puts everything together:
//
//	decide.go, judge.go         which pods of a node must leave, and whether policies object
//	queue.go                    the Backlog, with a clock and a lock
//	evict.go, try.go, mark.go   one try: from the first call to the delete
//	ask.go                      a try that asks the Eviction API
//	trouble.go, refusal.go      when a failed try is retried, and what refused it
//	live.go, api.go             live reads of nodes, and all API calls
//	stamp.go, reclaim.go        the two small controllers
//	policies.go                 what EvictionPolicies are asked
//	builtin.go, witness.go      what coexistence must know of the built-in controller
//	metrics.go, events.go       metrics, and events on pods
//	nodes.go                    the nodes with NoExecute taints
//	verdicts.go, handback.go    what shadow mode and coexistence ask
package eviction
