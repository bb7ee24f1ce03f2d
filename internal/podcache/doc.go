// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podcache keeps a small record of every pod that is bound to a node.
//
// The eviction of pods needs to know all pods of a tainted node at once, but of a pod only what
// the rule and the delete call ask for. A Pod object decoded from the API is some ten kilobytes;
// its record is a few hundred bytes, whatever the number of containers. Records are made of pods as
// they arrive, one by one, also of those of a list, streamed or in pages: there is never more than a page of pods
// besides the records.
package podcache
