// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcache keeps a small record of every pod that is bound to a node.
//
// The eviction needs to know all pods of a tainted node at once, but of each pod only what the rule and the delete call
// ask for. A Pod object decoded from the API is some ten kilobytes; its record is a few hundred bytes, whatever the
// number of containers. Records are made of pods one by one, as they arrive. That holds for lists, too, streamed or in
// pages: no more than a page of pods is in memory besides the records.
package podcache
