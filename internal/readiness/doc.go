// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readiness decides what happens to nodes that are not ready: their conditions and taints, at the rates of
// their zones. It has no client, no goroutine and no clock. Package nodehealth acts on its decisions, and the kubectl
// plugin uses it to say in advance what nodehealth will do.
//
//	Facts.Plan  what one node should become
//	Zones       how many nodes of each zone are not ready, how fast it is tainted, and which node has its token
//	Play        plays what happens to nodes that fall silent and come back, with both
package readiness
