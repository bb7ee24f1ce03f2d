// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules turns conditions of nodes into taints, according to NodeTaintRules.
//
// [planning.plan] is pure: from what a rule knows about its nodes, it derives which of them should have the taint, and
// until when that holds. Around it:
//
//	watches     of nodes and rules
//	view        what the watches have shown: the nodes, and for each rule those that concern it, with its newest plan
//	reconciler  one work item per rule: plan, write the nodes, report in the rule's status
//	edit        what a write changes on a node, decided from a live read of the node
//
// The reconciler is the only writer of the taints of rules and of the labels that say which rule owns them. It writes
// each node with one patch, with the node's resourceVersion as a precondition. What it wrote is not remembered. Before
// a rule with maxTainted adds a taint, a live list of the nodes with its label shows how many have it. Only an
// unanswered write is remembered, until its call has ended in the API server, because it can still take effect after
// that list.
package rules
