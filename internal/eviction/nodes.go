// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// node is what the eviction needs to know of a node with NoExecute taints. It is never modified.
type node struct {
	uid    types.UID
	taints []verdict.Taint
	seen   []time.Time // of each taint, when this process first saw it
}

// nodes knows the nodes that have NoExecute taints, and since when each taint counts.
// It is fed by an informer and safe for concurrent use.
type nodes struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandlerRegistration

	mu          sync.RWMutex
	tainted     map[string]*node
	subscribers []func(name string)
}

func newNodes(client kubernetes.Interface) (*nodes, error) {
	n := &nodes{
		informer: coreinformers.NewNodeInformer(client, 0, cache.Indexers{}),
		tainted:  map[string]*node{},
	}
	if err := n.informer.SetTransform(slim); err != nil {
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

// slim drops everything of a node that plays no part in an eviction before it is stored.
func slim(object any) (any, error) {
	full, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion},
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
	next := known.advance(object, now())
	switch {
	case next == nil && known == nil:
		return
	case next == nil:
		delete(n.tainted, object.Name)
	default:
		n.tainted[object.Name] = next
	}
	n.notify(object.Name)
}

func (n *nodes) forget(object any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tainted, name)
	n.notify(name)
}

func (n *nodes) notify(name string) {
	for _, changed := range n.subscribers {
		changed(name)
	}
}

// advance returns what is known of a node after its object was seen at an instant: a taint that
// was known keeps the instant at which it was first seen. It is nil for a node without NoExecute
// taints, and works on nil.
func (n *node) advance(object *corev1.Node, at time.Time) *node {
	noExecute := taints.NoExecute(object.Spec.Taints)
	if len(noExecute) == 0 {
		return nil
	}
	next := &node{
		uid:    object.UID,
		taints: make([]verdict.Taint, len(noExecute)),
		seen:   make([]time.Time, len(noExecute)),
	}
	for i, taint := range noExecute {
		seen := at
		if n != nil && n.uid == object.UID {
			seen = n.firstSeen(taint, at)
		}
		next.seen[i] = seen
		next.taints[i] = verdict.Taint{Taint: taint, Since: verdict.Since(taint.TimeAdded, seen)}
	}
	return next
}

// firstSeen returns when a taint was first seen, given that it is seen at an instant.
//
// A taint whose timeAdded moves to after its first sight was taken off and set again in between:
// it starts anew. So does one that lost its timeAdded, as `kubectl taint --overwrite` makes it.
func (n *node) firstSeen(taint corev1.Taint, at time.Time) time.Time {
	for i := range n.taints {
		known, seen := &n.taints[i], n.seen[i]
		switch {
		case !known.MatchTaint(&taint):
			continue
		case known.TimeAdded.Equal(taint.TimeAdded) && (taint.TimeAdded != nil || known.Value == taint.Value):
			return seen
		case taint.TimeAdded != nil && !taint.TimeAdded.After(seen):
			return seen
		}
	}
	return at
}

// now is the wall clock alone: deadlines are facts of the cluster's clocks, and must not follow
// the monotonic clock of one process.
func now() time.Time { return time.Now().Round(0) }
