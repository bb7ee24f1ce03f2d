// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

var noon = time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)

func window(pods int, per time.Duration) *Window {
	return NewWindow(Pace{Pods: pods, Per: per}, noon.Add(-time.Hour))
}

func needs(uid types.UID, due int, needs ...Places) Waiting {
	return Waiting{UID: uid, Due: noon.Add(time.Duration(due) * time.Second), Needs: needs}
}

// wantCalled calls those that wait and wants places to be kept for some.
func wantCalled(t *testing.T, l *Line, now time.Time, want ...types.UID) {
	t.Helper()
	l.Call(now)
	var called []types.UID
	for m := range l.called {
		called = append(called, m.UID)
	}
	if slices.Sort(called); !slices.Equal(called, want) {
		t.Errorf("after %s %v are called, want %v", now.Sub(noon), called, want)
	}
}

func TestAPodIsCalledWhenAllItsWindowsHaveRoom(t *testing.T) {
	l, fast, slow := NewLine(), window(1, 10*time.Second), window(1, time.Minute)
	slow.Left("gone", noon)
	both := needs("both", 0, fast, slow)
	l.Set("n", []Waiting{needs("fast", 1, fast), both}, noon)
	wantCalled(t, l, noon, "fast")
	fast.Left("fast", noon)
	l.Set("n", []Waiting{both}, noon)
	wantCalled(t, l, noon.Add(59*time.Second))
	wantCalled(t, l, noon.Add(time.Minute), "both")
	if !Has("both", both.Needs, noon.Add(time.Minute)) {
		t.Error("a pod that was called has no places")
	}
}

func TestAPodThatDoesNotComeGoesBehindOthers(t *testing.T) {
	l, w := NewLine(), window(1, time.Second)
	l.Set("n", []Waiting{needs("a", 0, w), needs("b", 1, w)}, noon)
	wantCalled(t, l, noon, "a")
	if nodes, _ := l.Call(noon.Add(calledFor)); len(nodes) != 1 {
		t.Errorf("nodes %v are looked at, want n", nodes)
	}
	wantCalled(t, l, noon.Add(calledFor), "b")
	l.Set("n", []Waiting{needs("a", 0, w), needs("b", 1, w), needs("c", 2, w)}, noon.Add(calledFor))
	l.Begin("n", "b")
	w.Begin("b", noon)
	w.Left("b", noon.Add(calledFor))
	wantCalled(t, l, noon.Add(calledFor+time.Second), "c")
}

func TestAPodWhosePlaceIsOverBeforeTheNextCallGoesBehindOthersToo(t *testing.T) {
	l, w := NewLine(), window(1, time.Second)
	both := []Waiting{needs("a", 0, w), needs("b", 1, w)}
	l.Set("n", both, noon)
	wantCalled(t, l, noon, "a")
	l.Set("n", both, noon.Add(calledFor))
	wantCalled(t, l, noon.Add(calledFor), "b")
}

func TestAPodThatDoesNotNeedItsPlacesFreesThemAtTheNextLook(t *testing.T) {
	l, w := NewLine(), window(1, time.Minute)
	l.Set("n", []Waiting{needs("gone", 0, w)}, noon)
	l.Set("m", []Waiting{needs("b", 1, w)}, noon)
	wantCalled(t, l, noon, "gone")
	if !l.Set("n", nil, noon) {
		t.Error("a pod that frees its places is not news")
	}
	wantCalled(t, l, noon, "b")
}

func TestOnlyWhatChangesIsNews(t *testing.T) {
	l, w, other := NewLine(), window(1, time.Minute), window(1, time.Minute)
	pods := []Waiting{needs("a", 0, w), needs("b", 1, w)}
	for _, step := range []struct {
		what string
		pods []Waiting
		news bool
	}{
		{"two come", pods, true},
		{"nothing", pods, false},
		{"one needs more", []Waiting{pods[0], needs("b", 1, w, other)}, true},
		{"one is due later", []Waiting{pods[0], needs("b", 2, w, other)}, true},
		{"one goes", pods[:1], true},
		{"the other goes", nil, true},
		{"no pod is there", nil, false},
	} {
		if news := l.Set("n", step.pods, noon); news != step.news {
			t.Errorf("%s: news is %t", step.what, news)
		}
	}
}

func TestAPlaceWhoseEvictionHasBegunStaysTakenUntilItIsKnownWhatBecameOfThePod(t *testing.T) {
	l, w := NewLine(), window(1, time.Minute)
	w.Begin("a", noon)
	l.Set("n", []Waiting{needs("a", 0, w), needs("b", 1, w)}, noon)
	wantCalled(t, l, noon.Add(time.Hour))
	w.Stays("a")
	l.Stays("n", "a", noon.Add(time.Hour))
	wantCalled(t, l, noon.Add(time.Hour), "b")
	l.Begin("n", "b")
	w.Left("b", noon.Add(time.Hour))
	w.Stays("b") // it has left
	l.Set("n", []Waiting{needs("a", 0, w)}, noon.Add(time.Hour))
	wantCalled(t, l, noon.Add(time.Hour+59*time.Second))
	wantCalled(t, l, noon.Add(time.Hour+time.Minute), "a")
}

func TestAWindowThatHasNotBeenSeenAsAWholeHasNoRoom(t *testing.T) {
	l, w := NewLine(), NewWindow(Pace{Pods: 1, Per: time.Minute}, noon)
	l.Set("n", []Waiting{needs("a", 0, w)}, noon)
	if nodes, next := l.Call(noon); len(nodes) > 0 || !next.Equal(noon.Add(time.Minute)) {
		t.Errorf("pods of %v are called, and the next at %v", nodes, next)
	}
	wantCalled(t, l, noon.Add(time.Minute), "a")
}

func TestAPodThatIsNotNamedAgainLeavesNothingBehind(t *testing.T) {
	l, w := NewLine(), window(2, time.Minute)
	var pods []Waiting
	for i := range 4 {
		pods = append(pods, needs(types.UID(fmt.Sprint(i)), i, w))
	}
	l.Set("n", pods, noon)
	wantCalled(t, l, noon, "0", "1")
	l.Stays("n", "0", noon)
	l.Set("n", nil, noon)
	if n := len(l.nodes) + len(l.order) + len(l.called) + len(w.taken) + len(w.left); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}

// crowd are pods that need places in some windows.
type crowd struct {
	line  *Line
	now   time.Time
	needs map[string]map[types.UID][]Places // of those that are there, by node
	left  map[Places][]time.Time
}

// look lets the pods of a node that have places leave, if they come.
func (c *crowd) look(node string, comes func() bool) {
	var pods []Waiting
	for _, uid := range slices.Sorted(maps.Keys(c.needs[node])) {
		pods = append(pods, needs(uid, 0, c.needs[node][uid]...))
	}
	c.line.Set(node, pods, c.now)
	for _, pod := range pods {
		if !Has(pod.UID, pod.Needs, c.now) || !comes() {
			continue
		}
		c.line.Begin(node, pod.UID)
		for _, w := range pod.Needs {
			w.Begin(pod.UID, c.now)
			w.Left(pod.UID, c.now)
			c.left[w] = append(c.left[w], c.now)
		}
		delete(c.needs[node], pod.UID)
	}
}

// call looks at the nodes of those that are called.
func (c *crowd) call(comes func() bool) {
	nodes, _ := c.line.Call(c.now)
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		c.look(node, comes)
	}
}

func (c *crowd) judge(t *testing.T, seed uint64) {
	t.Helper()
	for node, waiting := range c.needs {
		if len(waiting) > 0 {
			t.Errorf("seed %d: %d pods of node %s still wait", seed, len(waiting), node)
		}
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
		c := &crowd{line: NewLine(), now: noon, needs: map[string]map[types.UID][]Places{"a": {}, "b": {}, "c": {}}, left: map[Places][]time.Time{}}
		late := func() bool { return r.IntN(3) > 0 } // the others come too late
		for i := range 60 {
			c.now = c.now.Add(time.Duration(r.IntN(4000)) * time.Millisecond)
			if i < 40 {
				node := string(rune('a' + i%3))
				c.needs[node][types.UID(fmt.Sprint(i))] = slices.DeleteFunc(slices.Clone(all), func(Places) bool { return r.IntN(3) == 0 })
				c.look(node, late)
				delete(c.needs[node], types.UID(fmt.Sprint(r.IntN(i+1)))) // seen only when it is called
			}
			c.call(late)
		}
		always := func() bool { return true }
		for range 300 { // only those that are called are looked at, and the last pods wait for the slowest window
			c.now = c.now.Add(time.Second)
			c.call(always)
		}
		c.judge(t, seed)
	}
}

func TestAWindowIsIdleOnceAllPlacesAreOver(t *testing.T) {
	l, w := NewLine(), window(1, time.Minute)
	if !w.Idle(noon) || !l.Empty() {
		t.Error("a new window is not idle, or a new line not empty")
	}
	l.Set("n", []Waiting{needs("a", 0, w)}, noon)
	if l.Empty() {
		t.Error("a line in which a pod waits is empty")
	}
	l.Call(noon)
	if l.Empty() || w.Idle(noon) {
		t.Error("a place that is kept is forgotten")
	}
	l.Begin("n", "a")
	w.Begin("a", noon)
	w.Left("a", noon)
	if w.Idle(noon.Add(time.Minute-time.Second)) || !w.Idle(noon.Add(time.Minute)) || !l.Empty() {
		t.Error("a pod counts for another time than the window")
	}
}

func TestAPodWhoseEvictionBeganAndThatStaysWaitsBehindOthers(t *testing.T) {
	l, w := NewLine(), window(1, time.Second)
	l.Set("n", []Waiting{needs("a", 0, w), needs("b", 1, w)}, noon)
	wantCalled(t, l, noon, "a")
	l.Begin("n", "a")
	w.Begin("a", noon)
	later := noon.Add(2 * time.Second)
	w.Stays("a")
	l.Stays("n", "a", later)
	l.Stays("n", "gone", later)
	wantCalled(t, l, later, "b")
	l.Begin("n", "b")
	w.Begin("b", later)
	w.Left("b", later)
	wantCalled(t, l, later.Add(time.Second), "a")
}

func TestAWindowForgetsAPodOnceItsTimeIsOver(t *testing.T) {
	w := window(2, time.Minute)
	w.Left("left", noon)
	w.Begin("leaves", noon)
	if !w.has("left", noon.Add(59*time.Second)) || w.has("left", noon.Add(time.Minute)) || w.has("other", noon) {
		t.Error("a pod has a place for another time than the window, or without having left")
	}
	if w.Idle(noon.Add(time.Second)) {
		t.Error("a window with one pod that left and one that leaves is idle")
	}
}

// A pod that has become unready counted as one that asks before.
func TestABreakerLooksBackToWhenAPodWasReady(t *testing.T) {
	object := &v1alpha1.EvictionPolicy{Spec: v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Breaker: &v1alpha1.EvictionBreaker{}}}
	brake, err := New(object)
	if err != nil {
		t.Fatal(err)
	}
	causes := []Cause{{Taint: &corev1.Taint{Key: "x"}, Due: noon}}
	turned := Pod{Unready: true, Since: noon.Add(time.Minute), Budgets: Budgets{Name: "budget"}}
	if step, next := brake.countsAt([]*Policy{brake}, &turned, causes, noon.Add(59*time.Second)); step != Ask || !next.Equal(turned.Since) {
		t.Errorf("before it turned it may %v until %s, want that it asks until it turns", step, next)
	}
	if step, next := brake.countsAt([]*Policy{brake}, &turned, causes, turned.Since); step != Free || !next.IsZero() {
		t.Errorf("since it turned it may %v until %s, want that it leaves", step, next)
	}
	ready := Pod{Budgets: Budgets{Name: "budget"}}
	if step, _ := brake.countsAt([]*Policy{brake}, &ready, causes, noon.Add(time.Hour)); step != Ask {
		t.Errorf("a pod that is ready may %v, want that it asks", step)
	}
}
