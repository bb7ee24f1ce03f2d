// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// taken are the pods that have places, and until when; [Later] for a pod whose eviction has begun.
type taken map[types.UID]time.Time

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

// Window is a pace in one scope. A place stays taken for a window after its pod started to leave. It keeps the instants
// at which pods left, not when their places are free again, so it knows them for any pace. It is not safe for
// concurrent use.
type Window struct {
	taken // of pods that were called or have begun

	left  map[types.UID]time.Time
	pace  Pace
	since time.Time
}

// NewWindow returns a window that knows all departures since an instant. It has no room until a whole window has been
// seen, so that pods leave later, never sooner.
func NewWindow(pace Pace, since time.Time) *Window {
	return &Window{taken: taken{}, left: map[types.UID]time.Time{}, pace: pace, since: since}
}

// Change changes the pace. The scope stays as it is.
func (w *Window) Change(pace Pace, now time.Time) {
	w.pace, w.since = pace, w.pace.KnownSince(pace, w.since, now)
}

// KnownSince returns since when departures are known after a pace has changed, if they were known since an instant
// before. Those before the last window may be forgotten.
func (p *Pace) KnownSince(next Pace, since, now time.Time) time.Time {
	if last := now.Add(-p.Per); next.Per > p.Per && last.After(since) {
		return last
	}
	return since
}

// Begin implements [Places].
func (w *Window) Begin(pod types.UID, _ time.Time) {
	delete(w.left, pod)
	w.taken[pod] = Later
}

// Left implements [Places].
func (w *Window) Left(pod types.UID, at time.Time) {
	delete(w.taken, pod)
	w.left[pod] = at
}

func (w *Window) has(pod types.UID, now time.Time) bool {
	at, left := w.left[pod]
	return left && at.Add(w.pace.Per).After(now) || w.taken.has(pod, now)
}

// expire frees expired places, and returns when the next one expires; [Later] if that is not known.
func (w *Window) expire(now time.Time) time.Time {
	next := w.taken.expire(now)
	for pod, at := range w.left {
		switch until := at.Add(w.pace.Per); {
		case !until.After(now):
			delete(w.left, pod)
		case until.Before(next):
			next = until
		}
	}
	return next
}

func (w *Window) room(now time.Time) time.Time {
	next := w.expire(now)
	if known := w.since.Add(w.pace.Per); known.After(now) {
		return known
	}
	if len(w.taken)+len(w.left) < w.pace.Pods {
		return time.Time{}
	}
	return next
}

// Idle reports whether the window knows nothing that a new one would not know.
func (w *Window) Idle(now time.Time) bool {
	w.expire(now)
	return len(w.taken)+len(w.left) == 0
}
