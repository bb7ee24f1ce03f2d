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
	l.Stand(waiting("both", 0), []Places{fast, slow}, noon)
	l.Stand(waiting("fast", 1), []Places{fast}, noon)
	wantCalled(t, l, noon, "fast")
	l.Gone("fast")
	fast.Left("fast", noon)
	wantCalled(t, l, noon.Add(59*time.Second))
	wantCalled(t, l, noon.Add(time.Minute), "both")
	if !l.Stand(waiting("both", 0), []Places{fast, slow}, noon.Add(time.Minute)) {
		t.Error("a pod that was called has no places")
	}
}

func TestAPodThatDoesNotComeGoesBehindOthers(t *testing.T) {
	l, w := NewLine(), window(1, time.Second)
	l.Stand(waiting("a", 0), []Places{w}, noon)
	l.Stand(waiting("b", 1), []Places{w}, noon)
	wantCalled(t, l, noon, "a")
	wantCalled(t, l, noon.Add(calledFor), "a", "b") // the place of the first is free again
	l.Stand(waiting("a", 0), []Places{w}, noon.Add(calledFor))
	l.Stand(waiting("c", 2), []Places{w}, noon.Add(calledFor))
	w.Begin("b", noon)
	l.Forget("b")
	w.Left("b", noon.Add(calledFor))
	wantCalled(t, l, noon.Add(calledFor+time.Second), "c")
}

func TestAPlaceWhoseEvictionHasBegunStaysTakenUntilItIsKnownWhatBecameOfThePod(t *testing.T) {
	l, w := NewLine(), window(1, time.Minute)
	w.Begin("a", noon)
	l.Stand(waiting("b", 0), []Places{w}, noon)
	l.Forget("a")
	wantCalled(t, l, noon.Add(time.Hour))
	w.Stays("a")
	wantCalled(t, l, noon.Add(time.Hour), "b")
	l.Gone("b")
	w.Left("b", noon.Add(time.Hour))
	w.Stays("b") // it has left
	l.Stand(waiting("c", 0), []Places{w}, noon.Add(time.Hour))
	wantCalled(t, l, noon.Add(time.Hour+59*time.Second))
	wantCalled(t, l, noon.Add(time.Hour+time.Minute), "c")
}

func TestAWindowThatHasNotBeenSeenAsAWholeHasNoRoom(t *testing.T) {
	l, w := NewLine(), NewWindow(Pace{Pods: 1, Per: time.Minute}, noon)
	l.Stand(waiting("a", 0), []Places{w}, noon)
	if called, next := l.Call(noon); len(called) > 0 || !next.Equal(noon.Add(time.Minute)) {
		t.Errorf("%v are called, and the next at %v", names(called), next)
	}
	wantCalled(t, l, noon.Add(time.Minute), "a")
}

func TestAForgottenPodLeavesNothingBehind(t *testing.T) {
	l, w := NewLine(), window(2, time.Minute)
	for i := range 4 {
		l.Stand(waiting(types.UID(fmt.Sprint(i)), i), []Places{w}, noon)
	}
	wantCalled(t, l, noon, "0", "1")
	l.Miss("0", noon)
	l.ForgetNode("n")
	l.Gone("0")
	if n := len(l.waiting) + len(l.order) + len(l.called) + len(l.missed) + len(w.taken); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}

// crowd are pods that need places in some windows.
type crowd struct {
	line  *Line
	now   time.Time
	needs map[types.UID][]Places // of those that are there
	left  map[Places][]time.Time
}

// stand lets a pod leave if it has places.
func (c *crowd) stand(uid types.UID) {
	if !c.line.Stand(waiting(uid, 0), c.needs[uid], c.now) {
		return
	}
	c.line.Gone(uid)
	for _, w := range c.needs[uid] {
		w.Begin(uid, c.now)
		w.Left(uid, c.now)
		c.left[w] = append(c.left[w], c.now)
	}
	delete(c.needs, uid)
}

// call lets those leave that are called, if they come.
func (c *crowd) call(comes func() bool) {
	called, _ := c.line.Call(c.now)
	for _, pod := range called {
		if _, there := c.needs[pod.UID]; there && comes() {
			c.stand(pod.UID)
		}
	}
}

func (c *crowd) judge(t *testing.T, seed uint64) {
	t.Helper()
	if len(c.needs) > 0 {
		t.Errorf("seed %d: %d pods still wait", seed, len(c.needs))
	}
	for w, at := range c.left {
		pace := w.(*Window).pace
		for i := pace.Pods; i < len(at); i++ {
			if at[i].Sub(at[i-pace.Pods]) < pace.Per {
				t.Errorf("seed %d: %d pods left within %s", seed, pace.Pods+1, pace.Per)
			}
		}
	}
}

func TestNeverMorePlacesAreTakenThanThereAreAndAllPodsLeaveInTheEnd(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 24))
		all := []Places{window(1, 5*time.Second), window(2, 10*time.Second), window(3, 20*time.Second)}
		c := &crowd{line: NewLine(), now: noon, needs: map[types.UID][]Places{}, left: map[Places][]time.Time{}}
		for i := range 60 {
			c.now = c.now.Add(time.Duration(r.IntN(4000)) * time.Millisecond)
			if uid := types.UID(fmt.Sprint(i)); i < 40 {
				c.needs[uid] = slices.DeleteFunc(slices.Clone(all), func(Places) bool { return r.IntN(3) == 0 })
				c.stand(uid)
			}
			c.call(func() bool { return r.IntN(3) > 0 }) // the others come too late
		}
		for i := 0; i < 1000 && len(c.needs) > 0; i++ {
			c.now = c.now.Add(time.Second)
			for uid := range c.needs {
				c.stand(uid)
			}
			c.call(func() bool { return true })
		}
		c.judge(t, seed)
	}
}

func TestAWindowIsIdleOnceAllPlacesAreOver(t *testing.T) {
	l, w := NewLine(), window(1, time.Minute)
	if !w.Idle(noon) || !l.Empty() {
		t.Error("a new window is not idle, or a new line not empty")
	}
	l.Stand(waiting("a", 0), []Places{w}, noon)
	if l.Empty() {
		t.Error("a line in which a pod waits is empty")
	}
	l.Call(noon)
	if l.Empty() || w.Idle(noon) {
		t.Error("a place that is kept is forgotten")
	}
	w.Begin("a", noon)
	l.Gone("a")
	w.Left("a", noon)
	if w.Idle(noon.Add(time.Minute-time.Second)) || !w.Idle(noon.Add(time.Minute)) || !l.Empty() {
		t.Error("a pod counts for another time than the window")
	}
}
