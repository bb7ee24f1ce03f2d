// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealth turns the silence and the conditions of nodes into taints, zone by zone. It replaces the tainting
// half of kube-controller-manager's node-lifecycle-controller. Package readiness decides what happens to a node and
// when; this one receives signs of life, and writes. The rules of both are on one page of docs/design.md.
//
//	leases, echoes  the watch of leases, and our own renewals among them
//	records         what is known of each node, under one lock: what comes in, and what follows from it
//	clock           runs from one echo of a renewal to the next, so that silence is counted by what could be heard
//	reconciler      keyed by node: plan, write the conditions, plan, write the taints
//	marker          keyed by node: set the Ready condition of a silent node's pods to False
package nodehealth
