// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health plays random histories of nodes, kubelets and zones, in virtual time, to Kubernetes'
// own node-lifecycle controller and to Taintkeeper's, and compares which taints, since when, and which readiness
// each node had over time.
//
// A difference is not explained by looking at it. One small model predicts ours: it acts when
// something happens. Another predicts upstream's: it acts in passes, and its switches are upstream's
// known quirks. Each must predict its contestant to the millisecond. What neither predicts fails the
// test, shrinks to a minimal history and is printed as a timetable.
package health
