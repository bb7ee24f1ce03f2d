// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)

func window(pods int, per time.Duration) *Window {
	return NewWindow(Pace{Pods: pods, Per: per}, noon.Add(-time.Hour))
}

func names(pods []Waiting) (names []string) {
	for _, pod := range pods {
		names = append(names, string(pod.UID))
	}
	slices.Sort(names)
	return names
}

func waiting(uid types.UID, due int) Waiting {
	return Waiting{UID: uid, Node: "n", Due: noon.Add(time.Duration(due) * time.Second)}
}

// wantCalled calls those that wait and wants some.
func wantCalled(t *testing.T, l *Line, now time.Time, want ...string) {
	t.Helper()
	if called, _ := l.Call(now); !slices.Equal(names(called), want) {
		t.Errorf("after %s %v are called, want %v", now.Sub(noon), names(called), want)
	}
}

func TestAPodIsCalledWhenAllItsWindowsHaveRoom(t *testing.T) {
	l, fast, slow := NewLine(), window(1, 10*time.Second), window(1, time.Minute)
	slow.Left("gone", noon)
	l.Stand(waiting("both", 0), []*Window{fast, slow}, noon)
	l.Stand(waiting("fast", 1), []*Window{fast}, noon)
	wantCalled(t, l, noon, "fast")
	fast.Left("fast", noon)
	l.Gone("fast")
	wantCalled(t, l, noon.Add(59*time.Second))
	wantCalled(t, l, noon.Add(time.Minute), "both")
	if !l.Stand(waiting("both", 0), []*Window{fast, slow}, noon.Add(time.Minute)) {
		t.Error("a pod that was called has no places")
	}
}

func TestAPodThatDoesNotComeGoesBehindOthers(t *testing.T) {
	l, w := NewLine(), window(1, time.Second)
	l.Stand(waiting("a", 0), []*Window{w}, noon)
	l.Stand(waiting("b", 1), []*Window{w}, noon)
	wantCalled(t, l, noon, "a")
	wantCalled(t, l, noon.Add(calledFor), "a", "b") // the place of the first is free again
	l.Stand(waiting("a", 0), []*Window{w}, noon.Add(calledFor))
	l.Stand(waiting("c", 2), []*Window{w}, noon.Add(calledFor))
	w.Begin("b")
	l.Forget("b")
	w.Left("b", noon.Add(calledFor))
	wantCalled(t, l, noon.Add(calledFor+time.Second), "c")
}

func TestAPlaceWhoseEvictionHasBegunStaysTakenUntilItIsKnownWhatBecameOfThePod(t *testing.T) {
	l, w := NewLine(), window(1, time.Minute)
	w.Begin("a")
	l.Stand(waiting("b", 0), []*Window{w}, noon)
	l.Forget("a")
	wantCalled(t, l, noon.Add(time.Hour))
	w.Stays("a")
	wantCalled(t, l, noon.Add(time.Hour), "b")
	w.Left("b", noon.Add(time.Hour))
	l.Gone("b")
	w.Stays("b") // it has left
	l.Stand(waiting("c", 0), []*Window{w}, noon.Add(time.Hour))
	wantCalled(t, l, noon.Add(time.Hour+59*time.Second))
	wantCalled(t, l, noon.Add(time.Hour+time.Minute), "c")
}

func TestAWindowThatHasNotBeenSeenAsAWholeHasNoRoom(t *testing.T) {
	l, w := NewLine(), NewWindow(Pace{Pods: 1, Per: time.Minute}, noon)
	l.Stand(waiting("a", 0), []*Window{w}, noon)
	if called, next := l.Call(noon); len(called) > 0 || !next.Equal(noon.Add(time.Minute)) {
		t.Errorf("%v are called, and the next at %v", names(called), next)
	}
	wantCalled(t, l, noon.Add(time.Minute), "a")
}

func TestAForgottenPodLeavesNothingBehind(t *testing.T) {
	l, w := NewLine(), window(2, time.Minute)
	for i := range 4 {
		l.Stand(waiting(types.UID(fmt.Sprint(i)), i), []*Window{w}, noon)
	}
	wantCalled(t, l, noon, "0", "1")
	l.Miss("0", noon)
	l.ForgetNode("n")
	l.Gone("0")
	if n := len(l.waiting) + len(l.order) + len(l.called) + len(l.missed) + len(w.taken); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}

// TestNeverMorePlacesAreTakenThanThereAre does random things with pods that need some of three windows, and at the end
// lets all that wait leave.
func TestNeverMorePlacesAreTakenThanThereAre(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 24))
		l, now := NewLine(), noon
		all := []*Window{window(1, 5*time.Second), window(2, 10*time.Second), window(3, 20*time.Second)}
		needs, left := map[types.UID][]*Window{}, map[*Window][]time.Time{}
		stand := func(uid types.UID) {
			if !l.Stand(waiting(uid, 0), needs[uid], now) {
				return
			}
			l.Forget(uid)
			for _, w := range needs[uid] {
				w.Begin(uid)
				w.Left(uid, now)
				left[w] = append(left[w], now)
			}
			l.Gone(uid)
			delete(needs, uid)
		}
		for i := range 60 {
			now = now.Add(time.Duration(r.IntN(4000)) * time.Millisecond)
			if uid := types.UID(fmt.Sprint(i)); i < 40 {
				needs[uid] = slices.DeleteFunc(slices.Clone(all), func(*Window) bool { return r.IntN(3) == 0 })
				stand(uid)
			}
			called, _ := l.Call(now)
			for _, pod := range called {
				if _, there := needs[pod.UID]; there && r.IntN(3) > 0 { // the others come too late
					stand(pod.UID)
				}
			}
		}
		for i := 0; i < 1000 && len(needs) > 0; i++ {
			now = now.Add(time.Second)
			for uid := range needs {
				l.Stand(waiting(uid, 0), needs[uid], now)
			}
			called, _ := l.Call(now)
			for _, pod := range called {
				if _, there := needs[pod.UID]; there {
					stand(pod.UID)
				}
			}
		}
		if len(needs) > 0 {
			t.Errorf("seed %d: %d pods still wait", seed, len(needs))
		}
		for w, at := range left {
			for i := w.pace.Pods; i < len(at); i++ {
				if at[i].Sub(at[i-w.pace.Pods]) < w.pace.Per {
					t.Errorf("seed %d: %d pods left within %s", seed, w.pace.Pods+1, w.pace.Per)
				}
			}
		}
	}
}
