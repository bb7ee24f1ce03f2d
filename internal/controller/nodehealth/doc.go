// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealth turns the silence and the conditions of nodes into taints, zone by zone. It takes the place of the
// tainting half of kube-controller-manager's node-lifecycle-controller. Package readiness decides what becomes of a
// node and when; this one hears, and writes. The rules of both are on one page of docs/design.md.
//
//	leases, echoes  the watch of leases, and our own renewals among them
//	silence         a clock that runs from one echo of a renewal to the next: which nodes are silent
//	reconciler      keyed by node: plan, write the conditions, take a turn, write the taints
//	marker          keyed by node: set the Ready condition of a silent node's pods to False
package nodehealth
