// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Change is one change of a record: before is nil for a pod that came, after for one that went.
type Change struct {
	Before, After *Pod
}

// Cache holds the records. It is safe for concurrent use; Run must be called once.
type Cache struct {
	reflector *cache.Reflector
	synced    chan struct{}
	syncOnce  sync.Once

	mu          sync.RWMutex
	pods        map[types.UID]*Pod
	byNode      map[string][]*Pod
	tolerations interner
	subscribers []func(Change)
}

// New returns a cache of the pods that the client can see and that are bound to a node.
func New(client kubernetes.Interface) *Cache {
	c := &Cache{
		synced:      make(chan struct{}),
		pods:        map[types.UID]*Pod{},
		byNode:      map[string][]*Pod{},
		tolerations: interner{},
	}
	c.reflector = cache.NewReflectorWithOptions(boundPods(client), &corev1.Pod{}, door{c}, cache.ReflectorOptions{
		Name:            "podcache",
		TypeDescription: "bound pods",
	})
	return c
}

// boundPods lists and watches the pods that have a node. The list is streamed where the server can.
func boundPods(client kubernetes.Interface) cache.ListerWatcher {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = bound
			return client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = bound
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
		},
	}, client)
}

// Run keeps the records up to date until the context ends. Errors of list and watch are logged
// and retried with backoff, for ever, so it returns none.
func (c *Cache) Run(ctx context.Context) error {
	c.reflector.RunWithContext(ctx)
	return nil
}

// HasSynced reports whether the first list is complete.
func (c *Cache) HasSynced() bool { return cache.IsDone(c) }

// Name implements cache.DoneChecker.
func (c *Cache) Name() string { return "bound pods" }

// Done implements cache.DoneChecker: the channel is closed when the first list is complete.
func (c *Cache) Done() <-chan struct{} { return c.synced }

// Subscribe calls the function after every later change, once the cache shows it. Calls may come
// from several goroutines at once; the function must return quickly.
func (c *Cache) Subscribe(changed func(Change)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, changed)
}

// Get returns the record of a pod, if there is one.
func (c *Cache) Get(uid types.UID) (*Pod, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	pod, ok := c.pods[uid]
	return pod, ok
}

// OnNode returns the records of the pods bound to a node, in no particular order.
func (c *Cache) OnNode(node string) []*Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.byNode[node])
}

// MarkTerminating notes that the API server has accepted the delete of a pod. Its answer is newer
// than what the watch has brought so far, and a deletionTimestamp is never taken back.
func (c *Cache) MarkTerminating(uid types.UID) {
	c.change(func() (Change, bool) {
		pod, ok := c.pods[uid]
		if !ok {
			return Change{}, false
		}
		terminating := *pod
		terminating.Flags |= Terminating
		return c.put(&terminating)
	})
}

// change makes a change under the lock and then, if it was one, tells the subscribers.
func (c *Cache) change(apply func() (Change, bool)) {
	c.mu.Lock()
	change, news := apply()
	subscribers := c.subscribers
	c.mu.Unlock()
	if !news {
		return
	}
	for _, changed := range subscribers {
		changed(change)
	}
}

// put stores a record, unless it says nothing new. The caller holds the lock.
func (c *Cache) put(after *Pod) (Change, bool) {
	before := c.pods[after.UID]
	if before != nil && !inherit(after, before) {
		return Change{}, false
	}
	after.Tolerations = c.tolerations.share(after.Tolerations)
	if before != nil {
		c.drop(before)
	}
	c.pods[after.UID] = after
	c.byNode[after.Node] = append(c.byNode[after.Node], after)
	return Change{Before: before, After: after}, true
}

// remove takes the record of a pod out, if there is one. The caller holds the lock.
func (c *Cache) remove(uid types.UID) (Change, bool) {
	before, ok := c.pods[uid]
	if !ok {
		return Change{}, false
	}
	c.drop(before)
	return Change{Before: before}, true
}

func (c *Cache) drop(pod *Pod) {
	c.tolerations.release(pod.Tolerations)
	delete(c.pods, pod.UID)
	onNode := c.byNode[pod.Node]
	last := len(onNode) - 1
	if last == 0 {
		delete(c.byNode, pod.Node)
		return
	}
	onNode[slices.Index(onNode, pod)] = onNode[last]
	onNode[last] = nil
	c.byNode[pod.Node] = onNode[:last]
}

// inherit carries over what an older record of the same pod knows and a newer object does not
// say, and reports whether the newer record says anything else than the older one.
func inherit(after, before *Pod) bool {
	after.Flags |= before.Flags & Terminating
	if after.Node == before.Node {
		after.seen = before.seen
	}
	return after.Node != before.Node ||
		after.Flags != before.Flags ||
		after.bound != before.bound ||
		after.Generation != before.Generation ||
		after.Priority != before.Priority ||
		!equalTolerations(after.Tolerations, before.Tolerations)
}

// door is the cache as client-go's reflector sees it.
type door struct{ *Cache }

var (
	_ cache.DoneChecker       = (*Cache)(nil)
	_ cache.ReflectorStore    = door{}
	_ cache.TransformingStore = door{}
)

// Transformer makes records of a streamed list's pods before the reflector collects them.
func (d door) Transformer() cache.TransformFunc { return transform }

// Add is called for a pod that appeared.
func (d door) Add(object any) error { return d.Update(object) }

// Update is called for a pod that appeared or changed.
func (d door) Update(object any) error {
	pod, err := asRecord(object)
	if err != nil {
		return err
	}
	if pod.Node == "" {
		return nil
	}
	d.change(func() (Change, bool) { return d.put(pod) })
	return nil
}

// Delete is called for a pod that is gone.
func (d door) Delete(object any) error {
	pod, err := asRecord(object)
	if err != nil {
		return err
	}
	d.change(func() (Change, bool) { return d.remove(pod.UID) })
	return nil
}

// Replace is called with a complete list.
func (d door) Replace(objects []any, _ string) error {
	listed := make(map[types.UID]*Pod, len(objects))
	for _, object := range objects {
		pod, err := asRecord(object)
		if err != nil {
			return err
		}
		listed[pod.UID] = pod
	}
	for _, uid := range d.uids() {
		if listed[uid] == nil {
			d.change(func() (Change, bool) { return d.remove(uid) })
		}
	}
	for _, pod := range listed {
		if err := d.Update(pod); err != nil {
			return err
		}
	}
	d.syncOnce.Do(func() { close(d.synced) })
	return nil
}

// Resync has no meaning here.
func (d door) Resync() error { return nil }

func (d door) uids() []types.UID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Collect(maps.Keys(d.pods))
}

func asRecord(object any) (*Pod, error) {
	switch object := object.(type) {
	case *Pod:
		return object, nil
	case *corev1.Pod:
		return record(object), nil
	}
	return nil, fmt.Errorf("the watch of pods brought a %T", object)
}
