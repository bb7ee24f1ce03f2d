// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package board serves one live page about a cluster's taints: nodes by zone with their countdowns, the pods that must
// leave, why zones hold, rules, evictions, and what shadow mode found. It only reads.
//
// One set of watches feeds a [Board]. Each open page receives what has changed since it last received something.
// Therefore a slow page skips intermediate states and delays nobody, and a page that reconnects receives everything.
//
// follower -> cluster (what is known) -> sheets (rows as pages see them) -> stream (one for each page)
package board
