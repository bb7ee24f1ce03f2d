// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observer watches a cluster from outside and remembers when it saw what. It uses the API server directly,
// shares nothing with what it observes, and continues after an outage as soon as the API server does.
package observer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	// again is how soon a list or a watch that failed is tried again.
	again = 100 * time.Millisecond
	// listTimeout bounds a list: an API server without etcd answers late.
	listTimeout = 5 * time.Second
)

// Source lists and watches objects of one kind, as client-go's clients do.
type Source[L runtime.Object] interface {
	List(ctx context.Context, opts metav1.ListOptions) (L, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Notes records what is seen of objects. Its methods are called one after the other.
type Notes[O runtime.Object] interface {
	// Listed is called with all objects, at the beginning and after each gap.
	Listed(all []O)
	// Changed is called with each change that the watch brings.
	Changed(event watch.EventType, object O)
}

// Follow lists, and watches from there on, until the context ends. A watch that ends is resumed where it ended if the
// API server can do that. Errors are the outages that it must survive.
func Follow[L, O runtime.Object](ctx context.Context, source Source[L], notes Notes[O]) {
	from := ""
	for ctx.Err() == nil {
		if from == "" {
			from = list(ctx, source, notes)
		}
		if from == "" {
			pause(ctx)
			continue
		}
		w, err := source.Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
		if err != nil {
			from = ""
			pause(ctx)
			continue
		}
		from = read(w, from, notes)
	}
}

// list notes all objects, and returns the version of the list, empty if there is none.
func list[L, O runtime.Object](ctx context.Context, source Source[L], notes Notes[O]) string {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := source.List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	var all []O
	err = meta.EachListItem(list, func(object runtime.Object) error {
		all = append(all, object.(O))
		return nil
	})
	if err != nil {
		return ""
	}
	notes.Listed(all)
	return version(list)
}

// read notes the events of a watch to its end. It returns the version from which to watch on, empty if there is none.
func read[O runtime.Object](w watch.Interface, from string, notes Notes[O]) string {
	defer w.Stop()
	for event := range w.ResultChan() {
		object, ok := event.Object.(O)
		if event.Type == watch.Error || !ok {
			return ""
		}
		from = version(object)
		if event.Type != watch.Bookmark {
			notes.Changed(event.Type, object)
		}
	}
	return from
}

// version returns the version of an object or of a list.
func version(of runtime.Object) string {
	common, err := meta.CommonAccessor(of)
	if err != nil {
		return ""
	}
	return common.GetResourceVersion()
}

func pause(ctx context.Context) {
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Sighting is one version of a pod, and when the watch brought it.
type Sighting struct {
	At  time.Time
	Pod *corev1.Pod
}

// History is what was seen of one pod, in order.
type History struct {
	Sightings []Sighting
	Gone      time.Time // zero if it is still there
}

// Left returns when the pod was first seen terminating or was seen no more.
func (h History) Left() (time.Time, bool) {
	for _, s := range h.Sightings {
		if s.Pod.DeletionTimestamp != nil {
			return s.At, true
		}
	}
	return h.Gone, !h.Gone.IsZero()
}

func (h History) String() string {
	var text strings.Builder
	for _, s := range h.Sightings {
		fmt.Fprintf(&text, "%s: phase %s, deletionTimestamp %v; ", s.At.Format(time.StampMicro), s.Pod.Status.Phase, s.Pod.DeletionTimestamp)
	}
	fmt.Fprintf(&text, "gone: %s", h.Gone.Format(time.StampMicro))
	return text.String()
}

// Pods remembers every version of every pod that was seen, by UID. It is safe for concurrent use.
type Pods struct {
	listed chan struct{} // closed after the first list

	mu      sync.Mutex
	known   map[types.UID]History
	changed chan struct{} // closed, and replaced, when something is seen
}

// NewPods remembers nothing yet. It is for tests; others use [WatchPods].
func NewPods() *Pods {
	return &Pods{listed: make(chan struct{}), known: map[types.UID]History{}, changed: make(chan struct{})}
}

// WatchPods observes the pods of a namespace, or of all, until the context ends. It returns once all existing pods have
// been seen.
func WatchPods(ctx context.Context, client kubernetes.Interface, namespace string) (*Pods, error) {
	p := NewPods()
	go Follow(ctx, client.CoreV1().Pods(namespace), p)
	select {
	case <-p.listed:
		return p, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("watch pods: %w", context.Cause(ctx))
	}
}

// Listed implements [Notes]. A pod that is not among all is gone.
func (p *Pods) Listed(all []*corev1.Pod) {
	at := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	present := map[types.UID]bool{}
	for _, pod := range all {
		present[pod.UID] = true
		p.see(pod, at)
	}
	for uid := range p.known {
		if !present[uid] {
			p.miss(uid, at)
		}
	}
	p.tell()
	select {
	case <-p.listed:
	default:
		close(p.listed)
	}
}

// Changed implements [Notes].
func (p *Pods) Changed(event watch.EventType, pod *corev1.Pod) {
	at := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if event == watch.Deleted {
		p.miss(pod.UID, at)
	} else {
		p.see(pod, at)
	}
	p.tell()
}

// The caller of see, miss and tell holds the lock.
func (p *Pods) see(pod *corev1.Pod, at time.Time) {
	h := p.known[pod.UID]
	n, version := len(h.Sightings), pod.ResourceVersion
	if n > 0 && h.Sightings[n-1].Pod.ResourceVersion == version && version != "" {
		return // a list brings again what is known
	}
	h.Sightings = append(h.Sightings, Sighting{at, pod})
	p.known[pod.UID] = h
}

func (p *Pods) miss(uid types.UID, at time.Time) {
	h := p.known[uid]
	if h.Gone.IsZero() {
		h.Gone = at
	}
	p.known[uid] = h
}

func (p *Pods) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Of returns what was seen of a pod so far.
func (p *Pods) Of(uid types.UID) History {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.known[uid]
	h.Sightings = slices.Clone(h.Sightings)
	return h
}

// Left returns when a pod was first seen terminating or was seen no more.
func (p *Pods) Left(uid types.UID) (time.Time, bool) { return p.Of(uid).Left() }

// Await waits until all the pods have left, or until the instant, and returns how many have not left.
func (p *Pods) Await(ctx context.Context, limit time.Time, pods ...*corev1.Pod) (int, error) {
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	for {
		n, changed := p.remaining(pods)
		if n == 0 {
			return 0, nil
		}
		select {
		case <-ctx.Done():
			return n, context.Cause(ctx)
		case <-timer.C:
			return n, nil
		case <-changed:
		}
	}
}

// remaining returns how many of the pods have not left, and a channel that is closed when that may have changed.
func (p *Pods) remaining(pods []*corev1.Pod) (int, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, pod := range pods {
		if _, left := p.known[pod.UID].Left(); !left {
			n++
		}
	}
	return n, p.changed
}
