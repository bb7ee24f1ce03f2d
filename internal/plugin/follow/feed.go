// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// Feed is objects of one kind, and their receiver.
type Feed struct {
	// Kind is the name of the resource, such as nodes.
	Kind string
	// Client is the client for the calls. It shows whether the API server can stream lists.
	Client any
	// Object is an empty object of the kind.
	Object runtime.Object
	Calls  Calls
	// Set receives an object that exists. Gone receives one that no longer exists, with its last state, or nil if that was
	// not seen. If another object took its name, Gone is called first.
	Set  func(metav1.Object)
	Gone func(uid types.UID, name string, last metav1.Object)
}

// id identifies a feed of a follower.
func (f Feed) id() string { return f.Kind + " " + f.Calls.namespace + " " + f.Calls.which.String() }

// Calls list and watch the objects that a field selector selects.
type Calls struct {
	calls     cache.ListWatch
	namespace string // empty for all namespaces, and for cluster-scoped kinds
	which     fields.Selector
}

// CallsOf returns the calls with a client.
func CallsOf[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
	watches func(context.Context, metav1.ListOptions) (watch.Interface, error),
	which fields.Selector,
) Calls {
	return Calls{which: which, calls: cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = which.String()
			return list(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = which.String()
			return watches(ctx, options)
		},
	}}
}

// TryWatch begins a watch, ends it, and returns why it could not begin.
func (f Feed) TryWatch(ctx context.Context) error {
	watched, err := f.Calls.calls.WatchFuncWithContext(ctx, metav1.ListOptions{TimeoutSeconds: ptr.To[int64](1)})
	if err == nil {
		watched.Stop()
	}
	return err
}

// Kinds that most followers follow.
const (
	Nodes = "nodes"
	Pods  = "pods"
)

// Cluster receives nodes and pods from a follower, with what is kept of them.
type Cluster interface {
	SetNode(node *corev1.Node)
	DeleteNode(name string)
	SetPod(pod *corev1.Pod)
	// DeletePod receives a pod that is gone, with its last state, or nil if that was not seen.
	DeletePod(uid types.UID, last *corev1.Pod)
}

// Live is a Cluster that keeps pods, and those nodes that are selected.
type Live struct {
	To      *state.Live
	Now     func() time.Time
	Selects func(*corev1.Node) bool
}

// SetNode implements Cluster.
func (l *Live) SetNode(node *corev1.Node) {
	if !l.Selects(node) {
		l.To.DeleteNode(node.Name)
		return
	}
	l.To.SetNode(node, l.Now())
}

// DeleteNode implements Cluster.
func (l *Live) DeleteNode(name string) { l.To.DeleteNode(name) }

// SetPod implements Cluster.
func (l *Live) SetPod(pod *corev1.Pod) { l.To.SetPod(pod, l.Now()) }

// DeletePod implements Cluster.
func (l *Live) DeletePod(uid types.UID, _ *corev1.Pod) { l.To.DeletePod(uid) }

// maxWatched is how many nodes are watched individually, each with its pods. Above that, one watch of all is cheaper
// for the API server.
const maxWatched = 16

// ClusterFeeds are the feeds of the given nodes, or all nodes if there are none, and of the bound pods of a namespace
// on them. If many nodes are given, the feeds are of all nodes and of the pods on all of them.
func ClusterFeeds(clients kubernetes.Interface, namespace string, named []string, to Cluster) []Feed {
	if len(named) == 0 || len(named) > maxWatched {
		return []Feed{
			nodesFeed(clients, fields.Everything(), to),
			podsFeed(clients, namespace, fields.OneTermNotEqualSelector("spec.nodeName", ""), to),
		}
	}
	var feeds []Feed
	for _, name := range named {
		feeds = append(feeds, nodesFeed(clients, fields.OneTermEqualSelector(metav1.ObjectNameField, name), to),
			podsFeed(clients, namespace, fields.OneTermEqualSelector("spec.nodeName", name), to))
	}
	return feeds
}

func nodesFeed(clients kubernetes.Interface, which fields.Selector, to Cluster) Feed {
	nodes := clients.CoreV1().Nodes()
	return Feed{
		Kind: Nodes, Client: clients, Object: &corev1.Node{}, Calls: CallsOf(nodes.List, nodes.Watch, which),
		Set:  Only(func(node *corev1.Node) { to.SetNode(state.SlimNode(node)) }),
		Gone: func(_ types.UID, name string, _ metav1.Object) { to.DeleteNode(name) },
	}
}

func podsFeed(clients kubernetes.Interface, namespace string, which fields.Selector, to Cluster) Feed {
	pods := clients.CoreV1().Pods(namespace)
	calls := CallsOf(pods.List, pods.Watch, which)
	calls.namespace = namespace
	return Feed{
		Kind: Pods, Client: clients, Object: &corev1.Pod{}, Calls: calls,
		Set: Only(func(pod *corev1.Pod) { to.SetPod(state.SlimPod(pod)) }),
		Gone: func(uid types.UID, _ string, last metav1.Object) {
			pod, _ := last.(*corev1.Pod)
			to.DeletePod(uid, pod)
		},
	}
}

// Only converts a function for one type into a function for objects.
func Only[P metav1.Object](set func(P)) func(metav1.Object) {
	return func(object metav1.Object) {
		if typed, ok := object.(P); ok {
			set(typed)
		}
	}
}

// object converts what a watch returned.
func (f Feed) object(brought any) (metav1.Object, error) {
	typed, ok := brought.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("the watch of %s delivered a %T", f.Kind, brought)
	}
	return typed, nil
}
