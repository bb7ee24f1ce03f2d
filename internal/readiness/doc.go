// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readiness decides what happens to nodes that are not ready: their conditions and taints, at the rates of
// their zones. It knows no client, no goroutine and no clock, so package nodehealth acts by it, and the kubectl plugin
// can say beforehand what that will do.
//
//	Facts.Plan  what one node should become
//	Zones       how many of each zone are not ready, how fast it is tainted, and who has its token
//	Play        what happens to nodes that fall silent and come back, played with both; Forecast is the short form
package readiness
