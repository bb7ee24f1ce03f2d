// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Window is a pace in one scope: which pods have places in it, and until when. It is not safe for concurrent use.
type Window struct {
	pace  Pace
	since time.Time
	taken map[types.UID]time.Time // until when; Later for a pod whose eviction has begun
}

// NewWindow returns a window that knows all departures from an instant on. Until a whole window has been seen it has no
// room: pods leave later, never sooner.
func NewWindow(pace Pace, since time.Time) *Window {
	return &Window{pace: pace, since: since, taken: map[types.UID]time.Time{}}
}

// Begin says that the eviction of a pod begins. Its place stays taken until it has left or stays.
func (w *Window) Begin(pod types.UID) { w.taken[pod] = Later }

// Begun reports whether the eviction of a pod has begun, and it has neither left nor stays.
func (w *Window) Begun(pod types.UID) bool { return w.taken[pod].Equal(Later) }

// Stays says that a pod whose eviction has begun stays.
func (w *Window) Stays(pod types.UID) { w.free(pod, Later) }

// Left says that a pod started to leave, whoever deleted it.
func (w *Window) Left(pod types.UID, at time.Time) { w.taken[pod] = at.Add(w.pace.Per) }

// called keeps a place until an instant, for a pod that has none.
func (w *Window) called(pod types.UID, until time.Time) {
	if w.taken[pod].Before(until) {
		w.taken[pod] = until
	}
}

// free frees the place that a pod has until an instant.
func (w *Window) free(pod types.UID, until time.Time) {
	if w.taken[pod].Equal(until) {
		delete(w.taken, pod)
	}
}

func (w *Window) has(pod types.UID, now time.Time) bool { return w.taken[pod].After(now) }

// room returns when there is room: now or before, at an instant, or [Later] if it is not known when.
func (w *Window) room(now time.Time) time.Time {
	first := Later
	for pod, until := range w.taken {
		switch {
		case !until.After(now):
			delete(w.taken, pod)
		case until.Before(first):
			first = until
		}
	}
	if known := w.since.Add(w.pace.Per); known.After(now) {
		return known
	}
	if len(w.taken) < w.pace.Pods {
		return time.Time{}
	}
	return first
}
