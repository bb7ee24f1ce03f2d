// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// nodes knows the nodes that have NoExecute taints, and since when each taint counts.
// It is fed by an informer and safe for concurrent use.
type nodes struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration
	clock    *apicall.Clock
	lists    atomic.Int64 // that were begun; only between two of them does the watch bring every version
	listed   atomic.Int64 // when the last of them began, nanoseconds since 1970
	// neverStamped: no timeAdded is written, to no node.
	neverStamped bool
	// unstampable are the names of the nodes whose timeAdded may not be written.
	unstampable sync.Map // string -> struct{}

	mu          sync.RWMutex
	tainted     map[string]*node
	subscribers []func(name string)
}

func newNodes(client kubernetes.Interface, clock *apicall.Clock) (*nodes, error) {
	n := &nodes{clock: clock, tainted: map[string]*node{}}
	n.informer = cache.NewSharedIndexInformer(n.listerWatcher(client), &corev1.Node{}, 0, cache.Indexers{})
	if err := n.informer.SetTransform(n.slim); err != nil {
		return nil, err
	}
	handler, err := n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { n.observe(object.(*corev1.Node)) },
		UpdateFunc: func(_, object any) { n.observe(object.(*corev1.Node)) },
		DeleteFunc: n.forget,
	})
	n.handler = handler
	return n, err
}

// listerWatcher counts the lists that begin, those that a watch begins with included.
func (n *nodes) listerWatcher(client kubernetes.Interface) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			n.beginList()
			return client.CoreV1().Nodes().List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if ptr.Deref(options.SendInitialEvents, false) {
				n.beginList()
			}
			return client.CoreV1().Nodes().Watch(ctx, options)
		},
	}, client)
}

func (n *nodes) beginList() {
	n.lists.Add(1)
	n.listed.Store(time.Now().UnixNano())
}

// slim drops everything of a node that plays no part in an eviction before it is stored. It notes
// the number of the list in the generation, which nodes do not have: the reflector calls this
// before it begins the next list, a handler may come later.
func (n *nodes) slim(object any) (any, error) {
	full, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion, Generation: n.lists.Load()},
		Spec:       corev1.NodeSpec{Taints: taints.NoExecute(full.Spec.Taints)},
	}, nil
}

// get returns what is known of a node, if it has NoExecute taints.
func (n *nodes) get(name string) (*node, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	known, ok := n.tainted[name]
	return known, ok
}

// exists reports whether there is a node of that name, tainted or not.
func (n *nodes) exists(name string) bool {
	_, exists, err := n.informer.GetStore().GetByKey(name)
	return exists && err == nil
}

// subscribe calls the function with the name of every node whose NoExecute taints change, and
// with those of the nodes that have some now.
func (n *nodes) subscribe(changed func(name string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subscribers = append(n.subscribers, changed)
	for name := range n.tainted {
		changed(name)
	}
}

func (n *nodes) count() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.tainted)
}

func (n *nodes) observe(object *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.tainted[object.Name]
	if n.firstSightServes(object.Name) {
		known = known.unbrokenUntil(object)
	}
	next := known.advance(object, sight{at: now(), byServer: n.clock.Time()})
	if next == nil {
		delete(n.tainted, object.Name)
	} else {
		n.tainted[object.Name] = next
	}
	if !known.sameTaints(next) {
		n.notify(object.Name)
	}
}

// firstSightServes reports whether a taint of the node that has no timeAdded gets none. There would be
// no end of countdowns that each list begins anew then.
func (n *nodes) firstSightServes(name string) bool {
	_, refused := n.unstampable.Load(name)
	return n.neverStamped || refused
}

func (n *nodes) forget(object any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tainted, name)
	n.unstampable.Delete(name)
	n.notify(name)
}

func (n *nodes) notify(name string) {
	for _, changed := range n.subscribers {
		changed(name)
	}
}

// node is what the eviction needs to know of a node with NoExecute taints. It is never modified.
type node struct {
	uid     types.UID
	version string // the resourceVersion of the object that said so
	list    int64  // after how many lists this process saw that object
	taints  []run
	facts   facts     // the same, as the rule takes them
	changed time.Time // when this process saw the taints become what they are
}

// advance returns what is known of a node after its object was seen: a taint that goes on keeps its start. It is
// nil for a node without NoExecute taints, and works on nil.
func (n *node) advance(object *corev1.Node, seen sight) *node {
	noExecute := taints.NoExecute(object.Spec.Taints)
	if len(noExecute) == 0 {
		return nil
	}
	next := &node{
		uid:     object.UID,
		version: object.ResourceVersion,
		list:    object.Generation,
		taints:  make([]run, len(noExecute)),
		changed: seen.at,
	}
	for i, taint := range noExecute {
		next.taints[i] = begin(taint, seen, next.version)
		for _, known := range n.before(object) {
			if verdict.Continues(known.Taint.Taint, taint) && n.unbroken(known, taint, object) {
				next.taints[i] = next.taints[i].after(known)
			}
		}
	}
	joinCauses(next.taints)
	for _, known := range next.taints {
		next.facts.add(known)
	}
	if n.sameTaints(next) {
		next.changed = n.changed
	}
	return next
}

// before returns the taints that were known of the same node. It works on nil.
func (n *node) before(object *corev1.Node) []run {
	if n == nil || n.uid != object.UID {
		return nil
	}
	return n.taints
}

// unbroken reports whether nothing can have happened unseen to a taint between the known version of
// the node and the given one. Across a list versions may be missing, in which the taint was taken
// off and set again; then only a timeAdded that stayed the same says that it was not.
func (n *node) unbroken(known run, taint corev1.Taint, object *corev1.Node) bool {
	return n.list == object.Generation || n.version == object.ResourceVersion ||
		known.Key == taint.Key && known.tells(taint.TimeAdded)
}

// unbrokenUntil returns what is known as if nothing had happened unseen before the given version of
// the node. It works on nil.
func (n *node) unbrokenUntil(object *corev1.Node) *node {
	if n == nil {
		return nil
	}
	seen := *n
	seen.list = object.Generation
	return &seen
}

// sameTaints reports whether two states of a node have the same taints. Either may be nil.
func (n *node) sameTaints(other *node) bool {
	if n == nil || other == nil {
		return n == other
	}
	return n.uid == other.uid && slices.EqualFunc(n.taints, other.taints, run.same)
}

// now is the wall clock alone: deadlines are facts of the cluster's clocks, and must not follow
// the monotonic clock of one process.
func now() time.Time { return time.Now().Round(0) }
