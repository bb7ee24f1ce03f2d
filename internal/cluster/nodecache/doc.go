// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodecache keeps a small record of every node. It is the process's only watch of nodes.
//
// In addition to what the objects say, it has two facts that only a watcher knows: when this process first saw a
// NoExecute taint, and whether versions of a node may have been missed between two that were seen. Other packages
// decide what follows from them. Nodes become records one by one, as they arrive, as in package podcache.
package nodecache
