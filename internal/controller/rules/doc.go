// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules turns conditions of nodes into taints, by NodeTaintRules.
//
// [planning.plan] is pure: of what a rule knows of its nodes it makes which of them are to have the taint, and until
// when that holds. Around it:
//
//	watches     of nodes and rules
//	view        what the watches have shown: the nodes, and for each rule those that concern it, with its newest plan
//	reconciler  one work item per rule: plan, write the nodes, say in the rule's status what came of it
//	edit        what a write changes on a node, decided from a live read of the node
//
// The reconciler is the only one that writes rules' taints and the labels that say whose they are, each node by one
// patch under the lock of its version. Nothing is remembered of what it wrote. Before a rule with maxTainted adds a
// taint, a live list of the nodes with its label says how many have it. Only a write without an answer is remembered,
// until its call has ended in the API server, because it can still come after that list.
package rules
