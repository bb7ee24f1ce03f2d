// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Window is a pace in one scope: a line in which a place stays taken for a window after a pod started to leave. Every
// replica keeps the departures from what the watch shows, so a new leader knows what the last one did.
type Window struct {
	*Line

	pace  Pace
	since time.Time // from when on all departures are known
	left  []departure
}

// departure is a pod that started to leave.
type departure struct {
	pod types.UID
	at  time.Time
}

// NewWindow returns an empty window, which knows all departures from an instant on. Until it has seen a whole window no
// place is free: pods leave later, never sooner.
func NewWindow(pace Pace, since time.Time) *Window {
	return &Window{Line: NewLine(), pace: pace, since: since}
}

// Call gives the free places to those that wait, and returns them. Next is when to call again if nothing else happens;
// zero if nobody waits.
func (w *Window) Call(now time.Time) (called []Waiting, next time.Time) {
	w.left = slices.DeleteFunc(w.left, func(d departure) bool { return !w.ends(d).After(now) })
	known := w.since.Add(w.pace.Per)
	if !known.After(now) {
		called = w.Line.Call(w.pace.Pods-len(w.left), now)
	}
	switch expires := w.Expires(); {
	case w.Empty():
		return called, time.Time{}
	case known.After(now):
		return called, known
	case len(w.left) > 0 && (expires.IsZero() || w.ends(w.left[0]).Before(expires)):
		return called, w.ends(w.left[0])
	case !expires.IsZero():
		return called, expires
	}
	return called, now.Add(w.pace.Per) // what has begun takes all places
}

func (w *Window) ends(d departure) time.Time { return d.at.Add(w.pace.Per) }

// Left says that a pod started to leave, whoever deleted it. It counts once.
func (w *Window) Left(pod types.UID, at time.Time) {
	w.Back(pod)
	if slices.ContainsFunc(w.left, func(d departure) bool { return d.pod == pod }) {
		return
	}
	i, _ := slices.BinarySearchFunc(w.left, at, func(d departure, at time.Time) int { return d.at.Compare(at) })
	w.left = slices.Insert(w.left, i, departure{pod, at})
}
