// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
)

// nodes are the nodes with NoExecute taints, as the cache shows them. It is safe for concurrent use.
type nodes struct{ *nodecache.Cache }

// get returns a node, if it has NoExecute taints.
func (n nodes) get(name string) (*nodecache.Node, bool) {
	node, ok := n.Get(name)
	return node, ok && len(node.NoExecute) > 0
}

// exists reports whether there is a node of that name, tainted or not.
func (n nodes) exists(name string) bool {
	_, exists := n.Get(name)
	return exists
}

// subscribe calls the function with the name of every node whose NoExecute taints change or that is deleted, and of
// each node that has some now. The function may call get and exists.
func (n nodes) subscribe(changed func(name string)) {
	n.Subscribe(func(change nodecache.Change) {
		switch before, after := change.Before, change.After; {
		case after == nil:
			changed(before.Name)
		case !before.SameTaints(after):
			changed(after.Name)
		}
	})
}

// count returns how many nodes have NoExecute taints.
func (n nodes) count() int {
	count := 0
	for _, node := range n.All() {
		if len(node.NoExecute) > 0 {
			count++
		}
	}
	return count
}
