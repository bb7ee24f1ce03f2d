// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// breaker compiles a breaker that settles in 10 s.
func breaker(t *testing.T, maxDue string, edits ...func(*v1alpha1.EvictionBreaker)) *policy.Breaker {
	t.Helper()
	b := atMost(maxDue)
	b.Settle = seconds(10)
	for _, edit := range edits {
		edit(b)
	}
	return named(t, "p", spec{Action: v1alpha1.ActionDelete, Breaker: b}).Breaker()
}

func resumedAt(n float64) func(*v1alpha1.EvictionBreaker) {
	return func(b *v1alpha1.EvictionBreaker) { b.ResumedAt = &metav1.Time{Time: at(n)} }
}

func settles(n float64) func(*v1alpha1.EvictionBreaker) {
	return func(b *v1alpha1.EvictionBreaker) { b.Settle = seconds(n) }
}

// counted is a count, and what follows from it.
type counted struct {
	at            float64
	due, selected int
	changed, open bool
	closes        float64 // 0: it does not by itself
}

func TestALatch(t *testing.T) {
	for name, tt := range map[string]struct {
		maxDue string
		settle float64
		counts []counted
	}{
		"lets exactly maxDue pass, and trips at one more": {"3", 10, []counted{
			{at: 0, due: 3, selected: 30}, {at: 1, due: 4, selected: 30, changed: true, open: true},
		}},
		"counts a percentage of the selected pods": {"10%", 10, []counted{
			{at: 0, due: 3, selected: 39}, {at: 1, due: 4, selected: 39, changed: true, open: true},
		}},
		"trips when pods that are not due are gone": {"10%", 10, []counted{
			{at: 0, due: 3, selected: 30}, {at: 1, due: 3, selected: 29, changed: true, open: true},
		}},
		"never trips at one pod": {"1%", 10, []counted{
			{at: 0, due: 1, selected: 1}, {at: 1, due: 2, selected: 2, changed: true, open: true},
		}},
		"stays open while the number is too high": {"3", 10, []counted{
			{at: 0, due: 4, selected: 30, changed: true, open: true}, {at: 3600, due: 9, selected: 30, open: true}, {at: 7200, due: 4, selected: 30, open: true},
		}},
		"closes after settle at maxDue or below": {"3", 10, []counted{
			{at: 0, due: 4, selected: 30, changed: true, open: true},
			{at: 5, due: 3, selected: 30, open: true, closes: 15},
			{at: 14.999, due: 0, selected: 30, open: true, closes: 15},
			{at: 15, due: 2, selected: 30, changed: true},
			{at: 100, due: 3, selected: 30},
		}},
		"does not flap": {"3", 10, []counted{
			{at: 0, due: 4, selected: 30, changed: true, open: true},
			{at: 5, due: 3, selected: 30, open: true, closes: 15},
			{at: 14, due: 4, selected: 30, open: true},
			{at: 16, due: 3, selected: 30, open: true, closes: 26},
			{at: 25, due: 3, selected: 30, open: true, closes: 26},
			{at: 27, due: 3, selected: 30, changed: true},
		}},
		"trips again after it closed": {"3", 10, []counted{
			{at: 0, due: 4, selected: 30, changed: true, open: true},
			{at: 5, due: 3, selected: 30, open: true, closes: 15},
			{at: 15, due: 3, selected: 30, changed: true},
			{at: 16, due: 4, selected: 30, changed: true, open: true},
			{at: 17, due: 3, selected: 30, open: true, closes: 27},
		}},
		"closes at once without settle": {"3", 0, []counted{
			{at: 0, due: 4, selected: 30, changed: true, open: true}, {at: 1, due: 3, selected: 30, changed: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := breaker(t, tt.maxDue, settles(tt.settle))
			var latch policy.Latch
			for _, c := range tt.counts {
				changed := latch.Count(b, c.due, c.selected, at(c.at))
				open := latch.Open() != ""
				if changed != c.changed || open != c.open || open == latch.Tripped.IsZero() {
					t.Errorf("%v s: changed %t, open %t, tripped at %v; want %t, %t", c.at, changed, open, latch.Tripped, c.changed, c.open)
				}
				if closes := latch.Closes(b); c.closes == 0 && !closes.IsZero() || c.closes != 0 && !closes.Equal(at(c.closes)) {
					t.Errorf("%v s: closes at %v, want %v s after due", c.at, closes, c.closes)
				}
			}
		})
	}
}

func TestALatchSaysWhyItIsOpen(t *testing.T) {
	var latch policy.Latch
	latch.Count(breaker(t, "10%"), 7, 65, at(0))
	if got, want := latch.Open(), "7 of 65 selected pods would leave, and the breaker allows 6"; got != want || !latch.Tripped.Equal(at(0)) {
		t.Errorf("says %q, tripped at %v; want %q", got, latch.Tripped, want)
	}
	latch.Count(breaker(t, "10%"), 8, 66, at(1))
	if got, want := latch.Open(), "8 of 66 selected pods would leave, and the breaker allows 6"; got != want || !latch.Tripped.Equal(at(0)) {
		t.Errorf("says %q, tripped at %v; want %q, and when it tripped first", got, latch.Tripped, want)
	}
}

func TestALatchSaysThatItDoesNotCountWhatWasDueBeforeItWasResumed(t *testing.T) {
	b := breaker(t, "3", resumedAt(-5))
	latch := policy.Latch{Tripped: at(-60)}
	for due, want := range map[int]string{
		0: "0 of 30 selected pods would leave (not counting pods that were due before resumedAt); the breaker closes soon",
		4: "4 of 30 selected pods would leave (not counting pods that were due before resumedAt), and the breaker allows 3",
	} {
		latch.Count(b, due, 30, at(0))
		if got := latch.Open(); got != want {
			t.Errorf("with %d due it says %q, want %q", due, got, want)
		}
	}
}

func TestALatchOpensAgainFromItsStatus(t *testing.T) {
	b := breaker(t, "3")
	latch := policy.Latch{Tripped: at(-60)}
	if latch.Count(b, 3, 30, at(0)) || latch.Open() != "3 of 30 selected pods would leave; the breaker closes soon" || !latch.Closes(b).Equal(at(10)) {
		t.Errorf("it is open because %q, closes at %v; want open until 10 s after due", latch.Open(), latch.Closes(b))
	}
	if !latch.Count(b, 3, 30, at(10)) || latch.Open() != "" {
		t.Error("it is open after settle")
	}
}

func TestALatchFollowsAnEditOfItsBreaker(t *testing.T) {
	var latch policy.Latch
	latch.Count(breaker(t, "3"), 5, 30, at(0))
	if latch.Count(breaker(t, "5"), 5, 30, at(1)) {
		t.Error("it closed before settle")
	}
	if !latch.Count(breaker(t, "5", settles(4)), 5, 30, at(5)) {
		t.Error("it is open, although the new settle is over")
	}
	if !latch.Count(breaker(t, "4"), 5, 30, at(6)) {
		t.Error("it did not trip at the new maxDue")
	}
}

func TestResumedIsWhatWasDueBeforeResumedAt(t *testing.T) {
	for name, tt := range map[string]struct {
		b        *policy.Breaker
		due, now float64
		want     bool
	}{
		"never resumed":                    {breaker(t, "3"), -3600, 0, false},
		"due before":                       {breaker(t, "3", resumedAt(0)), -0.001, 5, true},
		"due before, at that very instant": {breaker(t, "3", resumedAt(0)), -0.001, 0, true},
		"due at that instant":              {breaker(t, "3", resumedAt(0)), 0, 5, false},
		"due later":                        {breaker(t, "3", resumedAt(0)), 1, 5, false},
		"resumed in the future":            {breaker(t, "3", resumedAt(60)), 0, 59.999, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.b.Resumed(at(tt.due), at(tt.now)); got != tt.want {
				t.Errorf("resumed: %t, want %t", got, tt.want)
			}
		})
	}
}
