// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package board serves one live page of a cluster's taints: nodes by zone with their countdowns, the pods that must
// leave, why zones hold, rules, evictions and what shadow mode found. It only reads.
//
// One set of watches feeds a [Board]; each page that is open is sent what has changed since it was last sent something.
// So a page that is slow misses steps on the way and holds up nobody, and a page that comes back is sent everything.
//
//	follower -> cluster (what is known) -> sheets (rows as pages see them) -> stream (one for each page)
package board
