// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcache keeps a small record of every pod that is bound to a node.
//
// Package eviction needs all pods of a tainted node at once, but only what the rule and the delete call need of each
// pod. A Pod object decoded from the API takes about ten kilobytes; its record takes a few hundred bytes, whatever the
// number of containers. Pods become records one by one, as they arrive. That holds for lists, too, streamed or in
// pages: at most a page of pods is in memory in addition to the records.
package podcache
