// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
)

// feed is a kind of objects and where they go.
type feed struct {
	kind   string
	client any // says whether lists can be streamed
	object runtime.Object
	calls  *cache.ListWatch
	// set is called for an object that is there, and gone for one that is not: with its last state, nil if that was not
	// seen.
	set  func(metav1.Object)
	gone func(uid types.UID, name string, last metav1.Object)
}

// feeds are all that is watched.
func (c *cluster) feeds(clients kubernetes.Interface, rules dynamic.Interface, namespace string) []feed {
	core := clients.CoreV1()
	nodeEvents := core.Events(metav1.NamespaceDefault) // client-go's recorder writes there what is of no namespace
	ruleClient := rules.Resource(v1alpha1.GroupVersion.WithResource(kindRules))
	rule := &unstructured.Unstructured{}
	rule.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeTaintRule"))
	return []feed{
		{
			kind: kindNodes, client: clients, object: &corev1.Node{},
			calls: calls(core.Nodes().List, core.Nodes().Watch, fields.Everything()),
			set:   only(c.setNode),
			gone:  func(uid types.UID, name string, _ metav1.Object) { c.deleteNode(uid, name) },
		},
		{
			kind: kindPods, client: clients, object: &corev1.Pod{},
			calls: calls(core.Pods(namespace).List, core.Pods(namespace).Watch,
				fields.OneTermNotEqualSelector("spec.nodeName", "")),
			set: only(c.setPod),
			gone: func(uid types.UID, _ string, last metav1.Object) {
				pod, _ := last.(*corev1.Pod)
				c.deletePod(uid, pod)
			},
		},
		{
			kind: kindEvents, client: clients, object: &corev1.Event{},
			calls: calls(nodeEvents.List, nodeEvents.Watch,
				fields.SelectorFromSet(fields.Set{"involvedObject.kind": "Node", "type": corev1.EventTypeWarning})),
			set:  only(c.setEvent),
			gone: func(uid types.UID, _ string, _ metav1.Object) { c.deleteEvent(uid) },
		},
		{
			kind: kindRules, client: rules, object: rule, calls: calls(ruleClient.List, ruleClient.Watch, fields.Everything()),
			set:  only(c.setRule),
			gone: func(uid types.UID, _ string, _ metav1.Object) { c.deleteRule(uid) },
		},
	}
}

// only takes objects of one type.
func only[P metav1.Object](set func(P)) func(metav1.Object) {
	return func(object metav1.Object) {
		if typed, ok := object.(P); ok {
			set(typed)
		}
	}
}

// calls are those of a client, with a selector.
func calls[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
	watches func(context.Context, metav1.ListOptions) (watch.Interface, error),
	which fields.Selector,
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = which.String()
			return list(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = which.String()
			return watches(ctx, options)
		},
	}
}

// run watches a kind until the context ends. A watch that breaks is begun again, for ever: rights can be granted, and
// kinds installed, while a page is open.
func (c *cluster) run(ctx context.Context, f feed) {
	told := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			listed, err := f.calls.ListWithContextFunc(ctx, options)
			c.called(ctx, f.kind, "list", err)
			return listed, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watched, err := f.calls.WatchFuncWithContext(ctx, options)
			c.called(ctx, f.kind, "watch", err)
			return watched, err
		},
	}
	to := &store{feed: f, cluster: c, known: map[types.UID]seen{}}
	reflector := cache.NewReflectorWithOptions(listwatch.New(told, f.client, to), f.object, to,
		cache.ReflectorOptions{Name: "board", TypeDescription: f.kind})
	reflector.RunWithContext(ctx)
}

// store is where client-go's reflector puts objects. It keeps no more than which there are, to tell after a gap which
// are gone.
type store struct {
	feed
	*cluster

	known map[types.UID]seen
	list  uint32 // the number of the newest list
}

// seen is an object that is there, and the list that had it last.
type seen struct {
	name string
	list uint32
}

var _ listwatch.Store = (*store)(nil)

// Add is called for an object that appeared.
func (s *store) Add(object any) error { return s.Update(object) }

// Update is called for an object that appeared or changed.
func (s *store) Update(object any) error {
	typed, ok := object.(metav1.Object)
	if !ok {
		return fmt.Errorf("the watch of %s brought a %T", s.kind, object)
	}
	s.known[typed.GetUID()] = seen{typed.GetName(), s.list}
	s.set(typed)
	return nil
}

// Delete is called for an object that is gone.
func (s *store) Delete(object any) error {
	typed, ok := object.(metav1.Object)
	if !ok {
		return fmt.Errorf("the watch of %s brought a %T", s.kind, object)
	}
	delete(s.known, typed.GetUID())
	s.gone(typed.GetUID(), typed.GetName(), typed)
	return nil
}

// BeginList implements listwatch.Store.
func (s *store) BeginList() { s.list++ }

// Replace is called when a list is complete. Its objects came one by one.
func (s *store) Replace(objects []any, _ string) error {
	if len(objects) > 0 {
		return fmt.Errorf("%d %s are in the list of those that are left", len(objects), s.kind)
	}
	for uid, known := range s.known {
		if known.list != s.list {
			delete(s.known, uid)
			s.gone(uid, known.name, nil)
		}
	}
	s.listed(s.kind)
	return nil
}

// Resync has no meaning here.
func (s *store) Resync() error { return nil }

// How often the API server is asked whether it answers, and how long it may take.
const (
	pingEvery   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// pingServer asks until the context ends.
func (c *cluster) pingServer(ctx context.Context, ping func(context.Context) error) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		at := c.now()
		asking, cancel := context.WithTimeout(ctx, pingTimeout)
		err := ping(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		c.pinged(at, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
