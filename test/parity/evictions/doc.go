// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evictions plays random histories of a small cluster, in virtual time, to Kubernetes' own
// taint-eviction controller and to Taintkeeper's, and compares which pods were deleted and when.
//
// A difference is not explained by looking at it. A small model of a taint-eviction controller, whose switches are the
// known defects of Kubernetes' own controller, predicts every delete: without defects it must predict ours, with all of
// them upstream's. It takes the rule itself from test/rig/oracle. What neither predicts fails the test, shrinks to a
// minimal history and is printed as a timetable.
package evictions
