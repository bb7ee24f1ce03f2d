// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// sighting is one version of a pod, and when the watch brought it.
type sighting struct {
	at  time.Time
	pod *corev1.Pod
}

// history is what was seen of one pod, in order.
type history struct {
	sightings []sighting
	gone      time.Time // zero: it is still there
}

// left returns when the pod was first seen with a deletionTimestamp or was seen no more.
func (h history) left() (time.Time, bool) {
	for _, s := range h.sightings {
		if s.pod.DeletionTimestamp != nil {
			return s.at, true
		}
	}
	return h.gone, !h.gone.IsZero()
}

func (h history) String() string {
	var text strings.Builder
	for _, s := range h.sightings {
		fmt.Fprintf(&text, "%s: phase %s, deletionTimestamp %v; ", s.at.Format(time.StampMicro), s.pod.Status.Phase, s.pod.DeletionTimestamp)
	}
	fmt.Fprintf(&text, "gone: %s", h.gone.Format(time.StampMicro))
	return text.String()
}

// recorder watches all pods and events, as a bystander. Safe for concurrent use.
type recorder struct {
	pods, events cache.SharedIndexInformer

	mu      sync.Mutex
	ofPod   map[types.UID]history
	onPod   map[types.UID]map[types.UID]*corev1.Event // by the pod's UID, then the event's
	factory informers.SharedInformerFactory
}

func newRecorder(client kubernetes.Interface) *recorder {
	factory := informers.NewSharedInformerFactory(client, 0)
	return &recorder{
		factory: factory,
		pods:    factory.Core().V1().Pods().Informer(),
		events:  factory.Core().V1().Events().Informer(),
		ofPod:   map[types.UID]history{},
		onPod:   map[types.UID]map[types.UID]*corev1.Event{},
	}
}

// run watches until the context ends.
func (r *recorder) run(ctx context.Context) {
	_, podErr := r.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    r.seePod,
		UpdateFunc: func(_, object any) { r.seePod(object) },
		DeleteFunc: r.missPod,
	})
	_, eventErr := r.events.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    r.seeEvent,
		UpdateFunc: func(_, object any) { r.seeEvent(object) },
	})
	if err := errors.Join(podErr, eventErr); err != nil {
		panic(err) // only an informer that was stopped refuses
	}
	r.factory.StartWithContext(ctx)
	<-ctx.Done()
	r.factory.Shutdown()
}

func (r *recorder) waitForSync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), r.pods.HasSynced, r.events.HasSynced) {
		return errors.New("the watches of the tests did not begin")
	}
	return nil
}

func (r *recorder) seePod(object any) {
	pod := object.(*corev1.Pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.ofPod[pod.UID]
	known.sightings = append(known.sightings, sighting{at: time.Now(), pod: pod})
	r.ofPod[pod.UID] = known
}

func (r *recorder) missPod(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	pod := object.(*corev1.Pod)
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.ofPod[pod.UID]
	known.gone = time.Now()
	r.ofPod[pod.UID] = known
}

func (r *recorder) seeEvent(object any) {
	event := object.(*corev1.Event)
	r.mu.Lock()
	defer r.mu.Unlock()
	about := event.InvolvedObject.UID
	if r.onPod[about] == nil {
		r.onPod[about] = map[types.UID]*corev1.Event{}
	}
	r.onPod[about][event.UID] = event
}

// history returns what was seen of a pod so far.
func (r *recorder) history(uid types.UID) history {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.ofPod[uid]
	known.sightings = slices.Clone(known.sightings)
	return known
}

// left returns when a pod was first seen terminating or was seen no more.
func (r *recorder) left(uid types.UID) (time.Time, bool) { return r.history(uid).left() }

// eventsOn returns the events on a pod, those with the same message together.
func (r *recorder) eventsOn(uid types.UID) []*corev1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var events []*corev1.Event
	for _, event := range r.onPod[uid] {
		events = append(events, event)
	}
	slices.SortFunc(events, func(a, b *corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return events
}
