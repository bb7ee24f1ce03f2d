// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealth turns the silence and the conditions of nodes into taints, zone by zone. It takes
// the place of the tainting half of kube-controller-manager's node-lifecycle-controller.
//
// Two parts are pure. [Assess] says which conditions and taints a node should have at an instant and
// until when that holds; [Policy] says in which state a zone is and how many of its nodes may be
// tainted NoExecute per second. Around them:
//
//	watches  nodes and leases, of which little is kept: per node the last sign of life
//	tainter  keyed by node: assess, write the conditions, take a turn in the zone, write the taints;
//	         the node comes back at the instant at which its assessment changes
//	marker   keyed by node: set the Ready condition of a silent node's pods to False
//
// Nothing polls: a node that renews its lease is looked at once per grace period.
package nodehealth
