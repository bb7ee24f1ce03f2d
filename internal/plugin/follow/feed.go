// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// Feed is the objects of one kind that a field selector selects, and their receiver.
type Feed struct {
	// Kind is the name of the resource, such as nodes.
	Kind string
	// Client is the client for the calls. It shows whether the API server can stream lists.
	Client any

	which  string
	object runtime.Object // an empty object of the kind
	calls  cache.ListWatch
	// set receives an object that exists. gone receives one that no longer exists, with its last state, or nil if that was
	// not seen. If another object took its name, gone is called first.
	set  func(any)
	gone func(uid types.UID, name string, last any)
}

// FeedOf returns a feed. An object is an empty object of the kind. Set receives objects that exist. Gone receives one
// that no longer exists, with its last state, or an empty one if that was not seen.
func FeedOf[L, P runtime.Object](
	kind string, client any, object P,
	list func(context.Context, metav1.ListOptions) (L, error),
	watches func(context.Context, metav1.ListOptions) (watch.Interface, error),
	which fields.Selector, set func(P), gone func(uid types.UID, name string, last P),
) Feed {
	return Feed{
		Kind: kind, which: which.String(), Client: client, object: object,
		calls: cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = which.String()
				return list(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = which.String()
				return watches(ctx, options)
			},
		},
		set: func(is any) {
			if typed, ok := is.(P); ok {
				set(typed)
			}
		},
		gone: func(uid types.UID, name string, last any) {
			typed, _ := last.(P)
			gone(uid, name, typed)
		},
	}
}

// id identifies a feed of a follower.
func (f Feed) id() string { return f.Kind + " " + f.which }

// TryWatch begins a watch, ends it, and returns why it could not begin.
func (f Feed) TryWatch(ctx context.Context) error {
	watched, err := f.calls.WatchFuncWithContext(ctx, metav1.ListOptions{TimeoutSeconds: ptr.To[int64](1)})
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
	return FeedOf(Nodes, clients, &corev1.Node{}, nodes.List, nodes.Watch, which,
		func(node *corev1.Node) { to.SetNode(state.SlimNode(node)) },
		func(_ types.UID, name string, _ *corev1.Node) { to.DeleteNode(name) })
}

func podsFeed(clients kubernetes.Interface, namespace string, which fields.Selector, to Cluster) Feed {
	pods := clients.CoreV1().Pods(namespace)
	return FeedOf(Pods, clients, &corev1.Pod{}, pods.List, pods.Watch, which,
		func(pod *corev1.Pod) { to.SetPod(state.SlimPod(pod)) },
		func(uid types.UID, _ string, last *corev1.Pod) { to.DeletePod(uid, last) })
}

// watch watches a feed until the context ends.
func (f *Follower) watch(ctx context.Context, feed Feed) {
	called := func(ctx context.Context, verb string, err error) {
		if ctx.Err() == nil && !isPassing(verb, err) {
			f.Do(ctx, func() { f.called(ctx, feed, verb, err) })
		}
	}
	streams := false // whether the latest watch begins with a list
	calls := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			streams = false
			listed, err := feed.calls.ListWithContextFunc(ctx, options)
			called(ctx, "list", err)
			return listed, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watched, err := feed.calls.WatchFuncWithContext(ctx, options)
			streams = err == nil && ptr.Deref(options.SendInitialEvents, false)
			if !streams {
				called(ctx, "watch", err)
			}
			return watched, err
		},
	}
	do := func(do func()) { f.Do(ctx, do) }
	to := &store{Feed: feed, known: map[string]seen{}, do: do, listed: func() {
		if streams {
			called(ctx, "watch", nil)
		}
		do(func() { f.listed(feed) })
	}}
	reflector := cache.NewReflectorWithOptions(listwatch.New(calls, feed.Client, to), feed.object, to,
		cache.ReflectorOptions{Name: "follow", TypeDescription: feed.Kind})
	reflector.RunWithContext(ctx)
}

// isPassing reports whether an error does not count as a break because a list follows immediately. Versions expire, and
// the API server may refuse to stream a list, or not have the version yet.
func isPassing(verb string, err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		verb == "watch" && (apierrors.IsInvalid(err) || apierrors.IsTimeout(err))
}

// called records the result of a call.
func (f *Follower) called(ctx context.Context, feed Feed, verb string, err error) {
	switch {
	case err != nil:
		f.broken[feed.id()] = fmt.Errorf("%s %s: %w", verb, feed.Kind, err)
	case verb == "watch":
		delete(f.broken, feed.id())
	}
	f.Called(ctx, feed, verb, err)
}

// listed records that a feed has delivered all objects.
func (f *Follower) listed(feed Feed) {
	delete(f.unlisted, feed.id())
	if f.Listed != nil {
		f.Listed(feed)
	}
}

// store is where client-go's reflector puts objects. It keeps only their names and UIDs, to find out after a gap which
// are gone.
type store struct {
	Feed

	do     func(func())    // on the follower's goroutine
	listed func()          // called when a list is complete
	known  map[string]seen // by namespace and name
	list   uint32          // the number of the newest list
}

// seen is an object that exists, and the number of the last list that contained it.
type seen struct {
	uid  types.UID
	name string
	list uint32
}

var _ listwatch.Store = (*store)(nil)

// typed converts what a watch returned.
func (s *store) typed(brought any) (metav1.Object, error) {
	typed, ok := brought.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("the watch of %s delivered a %T", s.Kind, brought)
	}
	return typed, nil
}

// Add is called for an object that appeared.
func (s *store) Add(object any) error { return s.Update(object) }

// Update is called for an object that appeared or changed.
func (s *store) Update(object any) error {
	typed, err := s.typed(object)
	if err != nil {
		return err
	}
	key := cache.MetaObjectToName(typed).String()
	before, there := s.known[key]
	s.known[key] = seen{typed.GetUID(), typed.GetName(), s.list}
	s.do(func() {
		if there && before.uid != typed.GetUID() {
			s.gone(before.uid, before.name, nil)
		}
		s.set(typed)
	})
	return nil
}

// Delete is called for an object that is gone.
func (s *store) Delete(object any) error {
	typed, err := s.typed(object)
	if err != nil {
		return err
	}
	delete(s.known, cache.MetaObjectToName(typed).String())
	s.do(func() { s.gone(typed.GetUID(), typed.GetName(), typed) })
	return nil
}

// BeginList implements listwatch.Store.
func (s *store) BeginList() { s.list++ }

// Replace is called when a list is complete. Its objects have already arrived one by one.
func (s *store) Replace(objects []any, _ string) error {
	if len(objects) > 0 {
		return fmt.Errorf("the final list of %s should be empty, but has objects: %d", s.Kind, len(objects))
	}
	for key, known := range s.known {
		if known.list != s.list {
			delete(s.known, key)
			s.do(func() { s.gone(known.uid, known.name, nil) })
		}
	}
	s.listed()
	return nil
}

// Resync does nothing.
func (s *store) Resync() error { return nil }
