// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package course plays time forward from the current state of a cluster: nodes fall silent and come back, taints
// are set and removed, and pods leave, find room and become ready. There are no ticks: a queue contains the next
// events, and time jumps from one event to the next. The same input always gives the same report.
//
// It decides nothing itself. [readiness.Play] says what happens to nodes, package verdict when pods are due, package
// policy whether they leave, and [placement.Room] where their successors go.
//
//	scenario.go   what is to happen
//	retaint.go    what follows from one change of taints, for a plan
//	queue.go      what happens next
//	simulate.go   the loop, and what each kind of event does
//	cluster.go    nodes and pods as they are now
//	leave.go      which pods leave a node, and which EvictionPolicies hold
//	policies.go   what the policies remember: breakers, paces, budgets
//	quota.go      ResourceQuotas that refuse successors
//	succeed.go    successors: when they are made, and where they go
//	preempt.go    pods that make room for successors
//	volumes.go    volumes that successors wait for
//	ordered.go    StatefulSets that create their pods in order
//	count.go      ready replicas and healthy pods over time
//	report.go     the results; story.go has them as sentences
package course
