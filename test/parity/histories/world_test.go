// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// world is the cluster of a history behind an API, in virtual time. Next to what [bubble.API] adds to client-go's fake
// clientset it has grace periods, calls that take time, watches that are interrupted, and a book of what was seen. It
// lives in one synctest bubble.
type world struct {
	client *fake.Clientset
	api    *bubble.API

	mu      sync.Mutex
	cluster *cluster
	history *history
	pods    outcome         // when which was deleted
	nodes   outcome         // how they looked
	passes  []time.Duration // when upstream's node-lifecycle controller began to look at all nodes
	events  []*corev1.Event
}

func newWorld(h *history) *world {
	client := fake.NewSimpleClientset() // the other one keeps managed fields, which cost it milliseconds a call
	w := &world{
		client: client, api: bubble.NewAPI(client), cluster: newCluster(), history: h,
		pods: outcome{}, nodes: outcome{},
	}
	w.api.Changed = w.changed
	w.cluster.write = w.write
	w.cluster.nodeChanged = func(before, after *corev1.Node) { w.nodes.note(cmp.Or(after, before).Name, after, now()) }
	w.client.PrependReactor("*", "*", w.react)
	w.cluster.begin(h)
	w.scheduleRemovals()
	return w
}

// play plays a history to a contestant in a bubble of virtual time of its own, and returns the world as it then is.
// What is next to it in the world lives as long as the bubble.
func play(t *testing.T, h *history, c contestant, nextToIt ...func(*testing.T, *world)) *world {
	t.Helper()
	var w *world
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(h)
		for _, start := range nextToIt {
			start(t, w)
		}
		var stop func() // the contestant's process; nil while none runs
		kill := func() {
			if stop != nil {
				stop()
				synctest.Wait()
			}
			stop = nil
		}
		for _, s := range h.occasions() {
			sleepUntil(s.At)
			synctest.Wait()
			switch s.Do.(type) {
			case start:
				if stop == nil {
					stop = bubble.Run(t, "the contestant", func(ctx context.Context) error { return c(ctx, w) })
				}
			case restart:
				kill()
			default:
				w.happen(s)
			}
		}
		sleepUntil(h.end())
		synctest.Wait()
		kill()
	})
	return w
}

var (
	podsResource   = corev1.SchemeGroupVersion.WithResource("pods")
	nodesResource  = corev1.SchemeGroupVersion.WithResource("nodes")
	leasesResource = coordinationv1.SchemeGroupVersion.WithResource("leases")
)

// write makes what a history does to the cluster go through the API, too.
func (w *world) write(before, after metav1.Object) {
	var err error
	switch {
	case before == nil:
		err = w.api.Create(resourceOf(after), after.(runtime.Object), after.GetNamespace())
	case after == nil:
		err = w.api.Delete(resourceOf(before), before.GetNamespace(), before.GetName())
	default:
		err = w.api.Update(resourceOf(after), after.(runtime.Object), after.GetNamespace())
	}
	if err != nil {
		panic(err) // nothing that a history does is refused
	}
}

func resourceOf(object metav1.Object) schema.GroupVersionResource {
	switch object.(type) {
	case *corev1.Node:
		return nodesResource
	case *corev1.Pod:
		return podsResource
	}
	return leasesResource
}

// changed tells the cluster what has changed.
func (w *world) changed(kind watch.EventType, object runtime.Object) {
	switch object := object.DeepCopyObject().(type) {
	case *corev1.Node:
		set(w.cluster.nodes, object.Name, unlessDeleted(kind, object), w.cluster.nodeChanged)
	case *corev1.Pod:
		set(w.cluster.pods, object.Name, unlessDeleted(kind, object), w.cluster.podChanged)
	case *coordinationv1.Lease:
		set(w.cluster.leases, object.Name, unlessDeleted(kind, object), w.cluster.leaseChanged)
	}
}

func unlessDeleted[T any](kind watch.EventType, object *T) *T {
	if kind == watch.Deleted {
		return nil
	}
	return object
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// happen lets a step happen, and then what follows from it. A pod that is replaced is gone for everybody before
// the next pod with its name comes, unless the replacement is to be unseen.
func (w *world) happen(s step) {
	creates, _ := s.Do.(create)
	if creates.Pod.Name != "" && !creates.Unseen {
		w.locked(func() { w.cluster.vacate(creates.Pod.Name) })
		synctest.Wait()
	}
	w.locked(func() {
		if creates.Unseen { // as when the resource version of the watches is too old to continue
			w.api.Watches("pods").Expire()
		}
		s.Do.do(w.cluster, s.At)
		w.scheduleRemovals()
	})
	synctest.Wait()
}

func (w *world) scheduleRemovals() {
	next := w.cluster.nextRemoval()
	if next == never {
		return
	}
	time.AfterFunc(next-now(), func() {
		w.locked(func() {
			w.cluster.removeEnded(now())
			w.scheduleRemovals()
		})
	})
}

// takeTime lets virtual time pass in a call that a reactor answers, without holding up other calls.
func takeTime(client *fake.Clientset, pass func()) {
	client.Unlock()
	defer client.Lock()
	pass()
}

// How long a call that writes takes where there are kubelets. Nothing else takes time, so what follows from a write has
// followed before its writer continues. Runs differ only in which of the nodes that fall at one instant is first,
// because that depends on how our goroutines happen to run. A status takes longer, because two writes of taints can
// follow from it.
const (
	taintTakes  = time.Microsecond
	statusTakes = 5 * time.Microsecond
)

func (w *world) takes(action clienttesting.Action) time.Duration {
	switch verb := action.GetVerb(); {
	case !w.history.hasKubelets() || verb != "patch" && verb != "update":
		return 0
	case action.GetSubresource() == "status":
		return statusTakes
	}
	return taintTakes
}

// react answers every call but a watch. A list of pods waits while the world is blind.
func (w *world) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.Matches("list", "pods") {
		var wait time.Duration
		w.locked(func() { wait = w.cluster.blindUntil - now() })
		if wait > 0 {
			takeTime(w.client, func() { pass(wait) })
		}
	}
	object, err := w.answer(action)
	if takes := w.takes(action); takes > 0 {
		takeTime(w.client, func() { pass(takes) })
	}
	return true, object, err
}

func (w *world) answer(action clienttesting.Action) (runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch action := action.(type) {
	case clienttesting.DeleteActionImpl:
		return nil, w.delete(action)
	case clienttesting.CreateActionImpl:
		if event, ok := action.Object.(*corev1.Event); ok {
			w.events = append(w.events, event.DeepCopy())
			return event, nil
		}
	case clienttesting.PatchActionImpl:
		if action.Resource.Resource == "events" { // the same event again
			return &corev1.Event{}, nil
		}
	}
	_, object, err := w.api.React(action)
	return object, err
}

// delete answers the DELETE of a pod, and records it if it is accepted.
func (w *world) delete(action clienttesting.DeleteActionImpl) error {
	pod, ok := w.cluster.pods[action.Name]
	if !ok || action.Resource != podsResource {
		return apierrors.NewNotFound(action.Resource.GroupResource(), action.Name)
	}
	if err := bubble.Refuse(podsResource, pod, action.DeleteOptions); err != nil {
		return err
	}
	w.pods.deleted(string(pod.UID), now())
	w.cluster.delete(action.Name, now())
	w.scheduleRemovals()
	return nil
}
