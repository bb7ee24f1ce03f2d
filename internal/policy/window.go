// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// taken are the pods that have places, and until when; [Later] for a pod whose eviction has begun.
type taken map[types.UID]time.Time

// Begun implements [Places].
func (t taken) Begun(pod types.UID) bool { return t[pod].Equal(Later) }

// Stays implements [Places].
func (t taken) Stays(pod types.UID) { t.free(pod, Later) }

// called keeps a place until an instant for a pod that has none.
func (t taken) called(pod types.UID, until time.Time) {
	if t[pod].Before(until) {
		t[pod] = until
	}
}

// free frees the place that a pod has until an instant.
func (t taken) free(pod types.UID, until time.Time) {
	if t[pod].Equal(until) {
		delete(t, pod)
	}
}

func (t taken) has(pod types.UID, now time.Time) bool { return t[pod].After(now) }

// expire frees expired places, and returns when the next one expires; [Later] if that is not known.
func (t taken) expire(now time.Time) time.Time {
	next := Later
	for pod, until := range t {
		switch {
		case !until.After(now):
			delete(t, pod)
		case until.Before(next):
			next = until
		}
	}
	return next
}

// Window is a pace in one scope. A place stays taken for a window after its pod started to leave. It is not safe for
// concurrent use.
type Window struct {
	taken

	pace  Pace
	since time.Time
}

// NewWindow returns a window that knows all departures since an instant. It has no room until a whole window has been
// seen, so that pods leave later, never sooner.
func NewWindow(pace Pace, since time.Time) *Window {
	return &Window{taken: taken{}, pace: pace, since: since}
}

// Begin implements [Places].
func (w *Window) Begin(pod types.UID, _ time.Time) { w.taken[pod] = Later }

// Left implements [Places].
func (w *Window) Left(pod types.UID, at time.Time) { w.taken[pod] = at.Add(w.pace.Per) }

func (w *Window) room(now time.Time) time.Time {
	next := w.expire(now)
	if known := w.since.Add(w.pace.Per); known.After(now) {
		return known
	}
	if len(w.taken) < w.pace.Pods {
		return time.Time{}
	}
	return next
}

// Idle reports whether the window knows nothing that a new one would not know.
func (w *Window) Idle(now time.Time) bool {
	w.expire(now)
	return len(w.taken) == 0
}
