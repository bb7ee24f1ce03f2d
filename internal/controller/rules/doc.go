// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules turns conditions of nodes into taints, by NodeTaintRules.
//
// [planning.plan] is pure: of what a rule knows of its nodes it makes which of them are to have the taint, and until
// when that holds. Around it:
//
//	watches     of nodes and rules
//	book        what is known: the nodes, and for each rule those that concern it; it says whether a change is news,
//	            what has to be written of a node (edit), and which writes may have been done unseen (doubts)
//	reconciler  plans, writes the nodes, plans again and writes the statuses of the rules
//
// The reconciler is the only one that writes rules' taints and the labels that say whose they are, each node by one
// patch under the lock of its version. It plans only when none of its writes is under way, so that maxTainted holds
// without any reservation: what it has written and the watch has not brought yet is known from the answers, and a call
// that was not answered takes its place until it is known what has become of it.
package rules
