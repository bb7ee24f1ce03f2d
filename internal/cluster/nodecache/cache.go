// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/intern"
	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// Change is one change of a record: Before is nil for a node that came, After for one that went. A node that was made
// anew under its name while the watch was interrupted can be told as one change: the UIDs differ.
type Change struct {
	Before, After *Node
	// Gap is set when versions between Before and After may have been missed, because the watch was interrupted: a taint
	// of both may have been taken off and set again.
	Gap bool
	// Initial is set for a node that was there before the subscriber could see it come: it is part of the first list.
	Initial bool
}

// Config configures a Cache.
type Config struct {
	// Client lists and watches.
	Client kubernetes.Interface
	// Clock is the timeline of the process; nil: one of its own, which hears no Date.
	Clock *timeline.Clock
	// NeverStamped says that nobody writes timeAdded to taints that have none. Then a gap of the watch does not end the
	// countdown of such a taint.
	NeverStamped bool
}

// Cache holds the records. It is safe for concurrent use; Run must be called once.
type Cache struct {
	clock     *timeline.Clock
	reflector *cache.Reflector
	synced    chan struct{}
	syncOnce  sync.Once

	telling     sync.Mutex // a change is told before the next is made
	subscribers []func(Change)

	mu       sync.RWMutex
	nodes    map[string]*Node
	strings  intern.Pool[string] // of labels and reasons
	unlisted map[string]struct{} // names of records that the list under way has not shown yet
	listed   time.Time
	never    bool                // see Config.NeverStamped
	refused  map[string]struct{} // names of nodes whose timeAdded may not be written
}

// New returns a cache of the nodes that the client can see.
func New(config Config) *Cache {
	c := &Cache{
		clock:   config.Clock,
		synced:  make(chan struct{}),
		nodes:   map[string]*Node{},
		strings: intern.Pool[string]{},
		never:   config.NeverStamped,
		refused: map[string]struct{}{},
	}
	if c.clock == nil {
		c.clock = &timeline.Clock{}
	}
	source := listwatch.New(allNodes(config.Client), config.Client, store{c})
	c.reflector = cache.NewReflectorWithOptions(source, &corev1.Node{}, store{c}, cache.ReflectorOptions{
		Name:            "nodecache",
		TypeDescription: "nodes",
	})
	return c
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

// Run keeps the records up to date until the context ends. Errors of list and watch are logged
// and retried with backoff, for ever, so it returns none.
func (c *Cache) Run(ctx context.Context) error {
	c.reflector.RunWithContext(ctx)
	return nil
}

// HasSynced reports whether the first list is complete, and told.
func (c *Cache) HasSynced() bool { return cache.IsDone(c) }

// Name implements cache.DoneChecker.
func (c *Cache) Name() string { return "nodes" }

// Done implements cache.DoneChecker: the channel is closed when the first list is complete.
func (c *Cache) Done() <-chan struct{} { return c.synced }

// Subscribe calls the function for every record that there is, and then after every change, once the cache shows it.
// The calls come one after another, in the order of the changes; the function must return quickly, and must not
// subscribe.
func (c *Cache) Subscribe(changed func(Change)) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.subscribers = append(c.subscribers, changed)
	for _, node := range c.All() {
		changed(Change{After: node, Initial: true})
	}
}

// Get returns the record of a node, if there is one.
func (c *Cache) Get(name string) (*Node, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	node, ok := c.nodes[name]
	return node, ok
}

// All returns all records, in no particular order.
func (c *Cache) All() []*Node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]*Node, 0, len(c.nodes))
	for _, node := range c.nodes {
		all = append(all, node)
	}
	return all
}

// SetUnstampable notes whether writing timeAdded to the taints of a node was refused. Where it is, a gap of the watch
// does not end the countdown of a taint that has none.
func (c *Cache) SetUnstampable(name string, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refused, name)
	if _, exists := c.nodes[name]; refused && exists {
		c.refused[name] = struct{}{}
	}
}

// neverStamped reports whether a taint of a node that has no timeAdded gets none. The caller holds the lock.
func (c *Cache) neverStamped(name string) bool {
	_, refused := c.refused[name]
	return c.never || refused
}

// LastSyncResourceVersion returns the version that the watch has come to.
func (c *Cache) LastSyncResourceVersion() string { return c.reflector.LastSyncResourceVersion() }

// Listed is when the newest list began, on the timeline. What happened between two lists was not seen as it happened.
func (c *Cache) Listed() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.listed
}

// change makes a change under the lock and then, if it was one, tells the subscribers.
func (c *Cache) change(apply func() (Change, bool)) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	change, news := apply()
	c.mu.Unlock()
	if !news {
		return
	}
	for _, changed := range c.subscribers {
		changed(change)
	}
}

// put stores the record of a node, unless there is nothing new in it. The caller holds the lock.
func (c *Cache) put(object *corev1.Node) (Change, bool) {
	change := Change{Before: c.nodes[object.Name], Initial: !c.HasSynced()}
	if _, unlisted := c.unlisted[object.Name]; unlisted {
		change.Gap = change.Before.ResourceVersion != object.ResourceVersion
		delete(c.unlisted, object.Name)
	}
	if change.Before != nil && change.Before.UID != object.UID {
		delete(c.refused, object.Name)
	}
	change.After = c.record(object, change)
	if change.Before != nil && change.Before.same(change.After) {
		return Change{}, false
	}
	c.shareLabels(change.After, change.Before)
	c.shareReasons(change.After, change.Before)
	c.nodes[object.Name] = change.After
	return change, true
}

// remove takes the record of a node out, if there is one. The caller holds the lock.
func (c *Cache) remove(name string) (Change, bool) {
	before, ok := c.nodes[name]
	if !ok {
		return Change{}, false
	}
	delete(c.nodes, name)
	delete(c.unlisted, name)
	delete(c.refused, name)
	c.releaseLabels(before)
	c.releaseReasons(before)
	return Change{Before: before}, true
}
