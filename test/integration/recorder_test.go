// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/observer"
)

// recorder watches all pods and events, as a bystander. Safe for concurrent use.
type recorder struct {
	*observer.Pods

	events *events
}

// record watches until the context ends.
func record(ctx context.Context, client kubernetes.Interface) (*recorder, error) {
	r := &recorder{events: &events{onPod: map[types.UID]map[types.UID]*corev1.Event{}}}
	go observer.Follow(ctx, client.CoreV1().Events(metav1.NamespaceAll), r.events)
	var err error
	r.Pods, err = observer.WatchPods(ctx, client, metav1.NamespaceAll)
	return r, err
}

// events are those that were seen. Safe for concurrent use.
type events struct {
	mu    sync.Mutex
	onPod map[types.UID]map[types.UID]*corev1.Event // by the pod's UID, then the event's
}

// Listed implements observer.Notes.
func (e *events) Listed(all []*corev1.Event) {
	for _, event := range all {
		e.Changed(watch.Modified, event)
	}
}

// Changed implements observer.Notes. An event that has expired did exist.
func (e *events) Changed(_ watch.EventType, event *corev1.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	about := event.InvolvedObject.UID
	if e.onPod[about] == nil {
		e.onPod[about] = map[types.UID]*corev1.Event{}
	}
	e.onPod[about][event.UID] = event
}

// eventsOn returns the events on a pod, those with the same message together.
func (r *recorder) eventsOn(uid types.UID) []*corev1.Event {
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	found := slices.Collect(maps.Values(r.events.onPod[uid]))
	slices.SortFunc(found, func(a, b *corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return found
}
