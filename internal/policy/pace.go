// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Departures is the log of a pace: which pods have started to leave, in each scope. Every replica keeps one of what the
// watch shows, so a new leader knows what the last one did. It is not safe for concurrent use.
type Departures struct {
	pace   Pace
	since  time.Time // from when on all departures are known
	scopes map[string]*window
}

// window is what counts in a scope.
type window struct {
	leaving map[types.UID]struct{} // their calls are in flight: they may start to leave at any moment
	left    []departure            // in the order of their instants
}

type departure struct {
	pod types.UID
	at  time.Time
}

// NewDepartures returns an empty log, which knows all departures from an instant on. Until a whole window has been seen
// it takes the window as full: pods leave later, never sooner.
func NewDepartures(pace Pace, since time.Time) *Departures {
	return &Departures{pace: pace, since: since, scopes: map[string]*window{}}
}

// Room returns when the next pod of a scope may start to leave; zero means now.
func (d *Departures) Room(scope string, now time.Time) time.Time {
	if known := d.since.Add(d.pace.Per); known.After(now) {
		return known
	}
	w := d.at(scope, now)
	excess := len(w.leaving) + len(w.left) - d.pace.Pods
	switch {
	case excess < 0:
		return time.Time{}
	case excess < len(w.left):
		return w.left[excess].at.Add(d.pace.Per)
	}
	return now.Add(d.pace.Per) // calls in flight fill the window
}

// Take counts a pod whose calls are about to begin. The caller has asked for room.
func (d *Departures) Take(scope string, pod types.UID, now time.Time) {
	if w := d.at(scope, now); w.index(pod) < 0 {
		w.leaving[pod] = struct{}{}
	}
}

// GiveBack forgets a pod that was taken and does not leave. One that has started to leave stays counted.
func (d *Departures) GiveBack(scope string, pod types.UID, now time.Time) {
	delete(d.at(scope, now).leaving, pod)
}

// Left counts a pod that started to leave, whoever deleted it. It counts once.
func (d *Departures) Left(scope string, pod types.UID, at time.Time) {
	w := d.at(scope, at)
	if w.index(pod) >= 0 {
		return
	}
	delete(w.leaving, pod)
	i, _ := slices.BinarySearchFunc(w.left, at, func(l departure, at time.Time) int { return l.at.Compare(at) })
	w.left = slices.Insert(w.left, i, departure{pod, at})
}

// at returns the window of a scope that ends now.
func (d *Departures) at(scope string, now time.Time) *window {
	w := d.scopes[scope]
	if w == nil {
		w = &window{leaving: map[types.UID]struct{}{}}
		d.scopes[scope] = w
	}
	w.left = slices.DeleteFunc(w.left, func(l departure) bool { return !l.at.Add(d.pace.Per).After(now) })
	return w
}

func (w *window) index(pod types.UID) int {
	return slices.IndexFunc(w.left, func(l departure) bool { return l.pod == pod })
}
