// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/intern"
	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// Change is one change of a record: before is nil for a pod that came, after for one that went. That a pod has
// another version and is the same in everything else is not told.
type Change struct {
	Before, After *Pod
	// Object is the pod as the watch or the list has just brought it; of one that went, as it was last. It is nil
	// where the change came another way. It must not be kept: the records are small because objects are not.
	Object *corev1.Pod
}

// Cache holds the records. It is safe for concurrent use; Run must be called once.
type Cache struct {
	clock     *timeline.Clock
	reflector *cache.Reflector
	synced    chan struct{}
	syncOnce  sync.Once

	mu          sync.RWMutex
	pods        map[types.UID]*Pod
	byNode      map[string][]*Pod
	names       intern.Pool[string] // of namespaces and nodes
	tolerations intern.Pool[[]corev1.Toleration]
	unlisted    map[types.UID]struct{} // records that the list under way has not shown yet
	subscribers []func(Change)
}

// New returns a cache of the pods that the client can see and that are bound to a node. The clock is the timeline of
// the process; nil: one of its own, which hears no Date.
func New(client kubernetes.Interface, clock *timeline.Clock) *Cache {
	if clock == nil {
		clock = &timeline.Clock{}
	}
	c := &Cache{
		clock:       clock,
		synced:      make(chan struct{}),
		pods:        map[types.UID]*Pod{},
		byNode:      map[string][]*Pod{},
		names:       intern.Pool[string]{},
		tolerations: intern.Pool[[]corev1.Toleration]{},
	}
	pods := listwatch.New(boundPods(client), client, store{c})
	c.reflector = cache.NewReflectorWithOptions(pods, &corev1.Pod{}, store{c}, cache.ReflectorOptions{
		Name:            "podcache",
		TypeDescription: "bound pods",
	})
	return c
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

// There returns the record of a pod, if there is one and the pod does not terminate.
func (c *Cache) There(uid types.UID) (*Pod, bool) {
	pod, ok := c.Get(uid)
	return pod, ok && !pod.Flags.Has(Terminating)
}

// OnNode returns the records of the pods bound to a node, in no particular order.
func (c *Cache) OnNode(node string) []*Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.byNode[node])
}

// Each calls the function for every record, and holds up all changes meanwhile.
func (c *Cache) Each(do func(*Pod)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, pod := range c.pods {
		do(pod)
	}
}

// LastSyncResourceVersion returns the version that the watch has come to.
func (c *Cache) LastSyncResourceVersion() string { return c.reflector.LastSyncResourceVersion() }

// MarkTerminating notes that the API server has accepted the delete of a pod. Its answer is newer than what the watch
// has brought so far, so the mark stays until the watch shows the pod terminating, or a new list does not.
func (c *Cache) MarkTerminating(uid types.UID) {
	c.change(func() (Change, bool) {
		pod, ok := c.pods[uid]
		if !ok {
			return Change{}, false
		}
		terminating := *pod
		if !pod.Flags.Has(Terminating) {
			terminating.Flags |= Terminating | deleted
		}
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

// put stores a record, unless there is nothing new in it, and reports whether it says more than a newer version. The
// caller holds the lock.
func (c *Cache) put(after *Pod) (Change, bool) {
	before := c.pods[after.UID]
	if before == nil {
		c.add(after)
		return Change{After: after}, true
	}
	if _, listed := c.unlisted[after.UID]; !listed { // etcd may have been restored before the list
		after.staysDeleted(before)
	}
	news := inherit(after, before)
	if !news && after.Version == before.Version {
		return Change{}, false
	}
	c.replace(before, after)
	return Change{Before: before, After: after}, news
}

func (c *Cache) add(pod *Pod) {
	pod.Namespace = c.names.Share(pod.Namespace, pod.Namespace)
	pod.Node = c.names.Share(pod.Node, pod.Node)
	pod.Tolerations = shareTolerations(c.tolerations, pod.Tolerations)
	c.pods[pod.UID] = pod
	c.byNode[pod.Node] = append(c.byNode[pod.Node], pod)
}

// replace puts a record where another of the same pod was, which is what nearly every change of a cluster comes to.
func (c *Cache) replace(before, after *Pod) {
	if after.Node != before.Node || after.Namespace != before.Namespace ||
		!equalTolerations(after.Tolerations, before.Tolerations) {
		c.drop(before)
		c.add(after)
		return
	}
	after.Namespace, after.Node, after.Tolerations = before.Namespace, before.Node, before.Tolerations
	c.pods[after.UID] = after
	onNode := c.byNode[after.Node]
	onNode[slices.Index(onNode, before)] = after
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
	delete(c.pods, pod.UID)
	c.dropFromNode(pod)
	c.names.Release(pod.Namespace)
	c.names.Release(pod.Node)
	releaseTolerations(c.tolerations, pod.Tolerations)
}

func (c *Cache) dropFromNode(pod *Pod) {
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
// say, and reports whether the newer record says anything else than the older one, its version aside.
func inherit(after, before *Pod) bool {
	if after.Node == before.Node {
		after.seen, after.bound = before.seen, before.bound
	}
	return after.Node != before.Node ||
		(after.Flags^before.Flags)&^deleted != 0 ||
		after.Generation != before.Generation ||
		after.Priority != before.Priority ||
		!equalTolerations(after.Tolerations, before.Tolerations)
}

// staysDeleted carries over that the API server has accepted the delete of a pod, which what comes by the watch may not
// show yet. Where a list is older than that answer, the next eviction finds the pod terminating.
func (p *Pod) staysDeleted(before *Pod) {
	if before.Flags.Has(deleted) && !p.Flags.Has(Terminating) {
		p.Flags |= Terminating | deleted
	}
}
