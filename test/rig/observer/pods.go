// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

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
