// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

var (
	podsResource = corev1.Resource("pods")
	nodeResource = corev1.Resource("nodes")
)

// react answers every call but a watch. It answers at once; only a list of pods waits while the
// world is blind, and lets the other calls through meanwhile.
func (w *world) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.Matches("list", "pods") {
		w.waitUntilSeeing()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[action.GetVerb()+" "+action.GetResource().Resource]++
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		object, err := w.get(action)
		return true, object, err
	case clienttesting.ListActionImpl:
		object, err := w.list(action)
		return true, object, err
	case clienttesting.PatchActionImpl:
		object, err := w.patch(action)
		return true, object, err
	case clienttesting.DeleteActionImpl:
		return true, nil, w.delete(action)
	case clienttesting.CreateActionImpl:
		if event, ok := action.Object.(*corev1.Event); ok {
			w.events = append(w.events, event.DeepCopy())
			return true, event, nil
		}
	}
	return true, nil, arena.Unexpected(action)
}

func (w *world) waitUntilSeeing() {
	var wait time.Duration
	w.locked(func() { wait = w.blindUntil - arena.Now() })
	if wait <= 0 {
		return
	}
	arena.TakeTime(w.client, func() { arena.Sleep(wait) })
}

func (w *world) get(action clienttesting.GetActionImpl) (runtime.Object, error) {
	switch action.Resource.Resource {
	case "nodes":
		if node, ok := w.cluster.nodes[action.Name]; ok {
			return node.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(nodeResource, action.Name)
	case "pods":
		if pod, ok := w.cluster.pods[action.Name]; ok {
			return pod.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(podsResource, action.Name)
	}
	return nil, arena.Unexpected(action)
}

func (w *world) list(action clienttesting.ListActionImpl) (runtime.Object, error) {
	version := metav1.ListMeta{ResourceVersion: strconv.Itoa(w.cluster.version)}
	switch action.Resource.Resource {
	case "nodes":
		list := &corev1.NodeList{ListMeta: version}
		for _, node := range arena.Sorted(w.cluster.nodes) {
			list.Items = append(list.Items, *node)
		}
		return list, nil
	case "pods":
		list := &corev1.PodList{ListMeta: version}
		for _, pod := range arena.Sorted(w.cluster.pods) {
			list.Items = append(list.Items, *pod)
		}
		return list, nil
	}
	return nil, arena.Unexpected(action)
}

// delete answers the DELETE of a pod, and records it if it is accepted.
func (w *world) delete(action clienttesting.DeleteActionImpl) error {
	if action.Resource.Resource != "pods" {
		return arena.Unexpected(action)
	}
	pod, ok := w.cluster.pods[action.Name]
	if !ok {
		return apierrors.NewNotFound(podsResource, action.Name)
	}
	if conditions := action.DeleteOptions.Preconditions; conditions != nil && conditions.UID != nil && *conditions.UID != pod.UID {
		return apierrors.NewConflict(podsResource, action.Name, fmt.Errorf("the UID is %s, not %s", pod.UID, *conditions.UID))
	}
	w.deletes.note(string(pod.UID), arena.Now())
	w.cluster.delete(action.Name, arena.Now())
	w.scheduleRemovals()
	return nil
}

// patch answers the patches there are: of a pod's status, of a node's taints, and of an event.
func (w *world) patch(action clienttesting.PatchActionImpl) (runtime.Object, error) {
	switch {
	case action.Matches("patch", "events"): // the same event again
		i := slices.IndexFunc(w.events, func(event *corev1.Event) bool { return event.Name == action.Name })
		if i < 0 {
			return nil, apierrors.NewNotFound(corev1.Resource("events"), action.Name)
		}
		return w.events[i], nil
	case action.Matches("patch", "nodes"):
		before, ok := w.cluster.nodes[action.Name]
		if !ok {
			return nil, apierrors.NewNotFound(nodeResource, action.Name)
		}
		after, err := patched(before, action, nodeResource)
		if err == nil {
			w.cluster.putNode(action.Name, after)
		}
		return after, err
	case action.Matches("patch", "pods/status"):
		before, ok := w.cluster.pods[action.Name]
		if !ok {
			return nil, apierrors.NewNotFound(podsResource, action.Name)
		}
		after, err := patched(before, action, podsResource)
		if err == nil {
			w.cluster.putPod(action.Name, after)
		}
		return after, err
	}
	return nil, arena.Unexpected(action)
}

// patched applies a patch to an object. Its UID and its resource version, if the patch names
// them, are preconditions, refused as the API server refuses them.
func patched[T any, O arena.Object[T]](before O, action clienttesting.PatchActionImpl, resource schema.GroupResource) (O, error) {
	after, err := arena.Patched(before, action)
	if err != nil {
		return nil, err
	}
	if after.GetUID() != before.GetUID() {
		path := field.NewPath("metadata", "uid")
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: resource.Resource}, action.Name,
			field.ErrorList{field.Invalid(path, after.GetUID(), "field is immutable")})
	}
	if after.GetResourceVersion() != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource, action.Name, fmt.Errorf("the object has been modified"))
	}
	return after, nil
}
