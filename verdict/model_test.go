// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// truth is a node in a random history: its taints, and since when each cause has really been there.
type truth struct {
	at     time.Duration // after noon
	taints []corev1.Taint
	began  map[string]time.Duration
}

// cause is what a taint is about: not-ready and unreachable are one.
func cause(key string) string {
	if key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable {
		return "readiness"
	}
	return key
}

func (w *truth) second() *metav1.Time {
	return &metav1.Time{Time: noon.Add(w.at).Truncate(time.Second)}
}

func (w *truth) index(key string) int {
	return slices.IndexFunc(w.taints, func(t corev1.Taint) bool { return t.Key == key })
}

func (w *truth) remove(key string) {
	w.taints = slices.DeleteFunc(slices.Clone(w.taints), func(t corev1.Taint) bool { return t.Key == key })
}

func (w *truth) set(key, value string, timeAdded *metav1.Time) {
	w.remove(key)
	taint := noExecute(key, value)
	taint.TimeAdded = timeAdded
	w.taints = append(w.taints, taint)
}

// changes makes one change of the taints. The observer knows some, and may write their timeAdded.
func (w *truth) changes(r *rand.Rand, known []verdict.Taint) {
	switch choice := r.IntN(9); choice {
	case 0: // kubectl
		w.set("k", "", nil)
	case 1: // the node-lifecycle controller
		if w.index("k") < 0 {
			w.set("k", "", w.second())
		}
	case 2:
		w.remove("k")
	case 3:
		w.set("k", fmt.Sprint("v", r.IntN(3)), []*metav1.Time{nil, w.second()}[r.IntN(2)])
	case 4, 5:
		names := []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}
		w.remove(names[choice-4])
		if w.index(names[5-choice]) < 0 {
			w.set(names[5-choice], "", w.second())
		}
	case 6:
		w.remove(corev1.TaintNodeNotReady)
		w.remove(corev1.TaintNodeUnreachable)
	default:
		w.stamp(known)
	}
}

// stamp writes the timeAdded that the observer knows.
func (w *truth) stamp(known []verdict.Taint) {
	w.taints = slices.Clone(w.taints)
	for _, taint := range known {
		if i := w.index(taint.Key); i >= 0 && taint.Unstamped() && w.taints[i].Value == taint.Value {
			w.taints[i].TimeAdded = taint.Add
		}
	}
}

// passes lets time pass, makes a change, and notes which causes have begun.
func (w *truth) passes(r *rand.Rand, known []verdict.Taint) {
	w.at += time.Duration(50+r.IntN([]int{400, 20000, 20000}[r.IntN(3)])) * time.Millisecond
	w.changes(r, known)
	began := map[string]time.Duration{}
	for _, taint := range w.taints {
		began[cause(taint.Key)] = w.at
		if at, there := w.began[cause(taint.Key)]; there {
			began[cause(taint.Key)] = at
		}
	}
	w.began = began
}

// An observer misses versions, restarts, knows the API server's clock to the second only, and writes what it knows. No
// deadline that it comes to is early, and without gaps and restarts none is late.
func TestWhateverAnObserverMissesNoDeadlineIsEarly(t *testing.T) {
	const patience = 100
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := &truth{at: time.Duration(r.IntN(1000)) * time.Millisecond}
		var known []verdict.Taint
		missed, missedAny := false, false
		for version := range 14 {
			watching := known
			if missed { // it writes nothing while its watch is behind
				watching = nil
			}
			w.passes(r, watching)
			if r.IntN(4) == 0 {
				missed, missedAny = true, true
				continue
			}
			if r.IntN(12) == 0 {
				known, missedAny = nil, true
			}
			seen := verdict.SeenAt(noon.Add(w.at))
			seen.Version, seen.Gap = fmt.Sprint(version), missed
			seen.Earliest = seen.At.Add(-time.Duration(r.IntN(1000)) * time.Millisecond)
			seen.Latest = seen.At.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
			seen.Behind = seen.Earliest
			known, missed = verdict.Advance(known, w.taints, seen), false
			for _, taint := range known {
				pod := verdict.Pod{Bound: noon.Add(-time.Hour), Tolerations: []corev1.Toleration{forSeconds(taint.Key, patience)}}
				start, began := verdict.Rule{}.Judge(pod, taint).Due.Sub(noon)-patience*time.Second, w.began[cause(taint.Key)]
				if start < began || !missedAny && start > began {
					t.Fatalf("history %d, version %d: %s counts from %v, and began at %v", seed, version, taint.ToString(), start, began)
				}
			}
		}
	}
}
