// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodecache keeps a small record of every node. It is the process's only watch of nodes.
//
// In addition to what the objects say, it has two facts that only a watcher knows: when this process first saw a
// NoExecute taint, and whether versions of a node may have been missed between two that were seen. Other packages
// decide what follows from them. Nodes become records one by one, as they arrive, as in package podcache.
package nodecache

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/intern"
	"github.com/taintkeeper/taintkeeper/internal/cluster/records"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// Change is one change of a record, under the node's name. In a gap of the watch, a taint that both records have may
// have been removed and added again.
type Change = records.Change[corev1.Node, Node]

// Config configures a Cache.
type Config struct {
	// Client lists and watches.
	Client kubernetes.Interface
	// Clock is the timeline of the process.
	Clock *timeline.Clock
	// NeverStamped means that nothing writes timeAdded to taints that have none. A gap of the watch then does not end the
	// countdown of such a taint.
	NeverStamped bool
}

// Cache holds the records. It is safe for concurrent use; Run must be called once.
type Cache struct {
	*records.Cache[string, corev1.Node, Node]

	nodes nodes
}

// nodes decides what is kept of nodes.
type nodes struct {
	clock   *timeline.Clock
	strings intern.Pool[string, string] // of labels and reasons
	never   bool                        // see Config.NeverStamped
	refused map[string]struct{}         // names of nodes whose timeAdded may not be written
}

// New returns a cache of the nodes that the client can see.
func New(config Config) *Cache {
	k := nodes{
		clock:   config.Clock,
		strings: intern.Pool[string, string]{},
		never:   config.NeverStamped,
		refused: map[string]struct{}{},
	}
	return &Cache{records.New("nodes", allNodes(config.Client), config.Client, config.Clock, k), k}
}

func allNodes(client kubernetes.Interface) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Nodes().List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Nodes().Watch(ctx, options)
		},
	}
}

// Tainted returns a node, if it has NoExecute taints.
func (c *Cache) Tainted(name string) (*Node, bool) {
	node, ok := c.Get(name)
	return node, ok && len(node.NoExecute) > 0
}

// Exists reports whether there is a node of that name, tainted or not.
func (c *Cache) Exists(name string) bool {
	_, exists := c.Get(name)
	return exists
}

// SubscribeTaints calls the function with the name of every node whose NoExecute taints change or that is deleted, and
// of each node that has some now. The function may ask for nodes, and must return quickly.
func (c *Cache) SubscribeTaints(changed func(name string)) {
	c.Subscribe(func(change Change) {
		switch before, after := change.Before, change.After; {
		case after == nil:
			changed(before.Name)
		case !before.SameTaints(after):
			changed(after.Name)
		}
	})
}

// SetUnstampable notes whether writing timeAdded to the taints of a node was refused. If it was, a gap of the watch
// does not end the countdown of a taint that has none.
func (c *Cache) SetUnstampable(name string, refused bool) {
	c.Change(name, func(change *Change) bool {
		delete(c.nodes.refused, name)
		if refused && change.Before != nil {
			c.nodes.refused[name] = struct{}{}
		}
		return false
	})
}

// neverStamped reports whether taints of a node without timeAdded will not get one.
func (k nodes) neverStamped(name string) bool {
	_, refused := k.refused[name]
	return k.never || refused
}

// Key implements records.Kind.
func (k nodes) Key(node *corev1.Node) (string, bool) { return node.Name, true }

// Keep implements records.Kind: it keeps the record of a node, unless nothing in it is new.
func (k nodes) Keep(change *Change) bool {
	object, before := change.Object, change.Before
	change.Gap = change.Gap && before.ResourceVersion != object.ResourceVersion
	if before != nil && before.UID != object.UID {
		delete(k.refused, object.Name)
	}
	after := k.record(object, *change)
	if before != nil && before.same(after) {
		return false
	}
	k.shareLabels(after, before)
	k.shareReasons(after, before)
	change.After = after
	return true
}

// Drop implements records.Kind.
func (k nodes) Drop(name string, node *Node) {
	delete(k.refused, name)
	k.releaseLabels(node)
	k.releaseReasons(node)
}
