// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGoals(t *testing.T) {
	r := newReport()
	for _, total := range []time.Duration{10 * time.Second, 30 * time.Second, 12 * time.Second} {
		r.addStorm(stormWarm, nameFloor, stormRound{Total: total})
		r.addStorm(stormWarm, nameUnlimited, stormRound{Total: 30 * time.Second, First: 8 * time.Second})
		r.addStorm(stormWarm, namePrevious, stormRound{CPU: 2 * time.Second})
		r.addStorm(stormWarm, nameOurs, stormRound{Total: 15 * time.Second, First: 100 * time.Millisecond, CPU: time.Second, Calls: map[string]int{
			"delete pods": stormPods, "patch pods/status": stormPods, "get nodes": 80, "create events": stormPods,
		}})
	}
	r.setGoals()

	var printed strings.Builder
	r.printGoals(&printed)
	for _, want := range []string{
		"multiple of the floor's", "1.25", "missed", // the median of 15/10, 15/30 and 15/12
		"80.00", "2.08", "0.50", "reached",
	} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q is not in\n%s", want, printed.String())
		}
	}
	for _, unwanted := range []string{"lateness", stormFresh, stormSlow} {
		if strings.Contains(printed.String(), unwanted) {
			t.Errorf("%s was not measured, but is compared:\n%s", unwanted, printed.String())
		}
	}
}

func TestRatiosAreThoseOfOneRound(t *testing.T) {
	ours := []stormRound{{Total: 3 * time.Second}, {Total: 5 * time.Second}, {Total: 7 * time.Second}}
	floor := []stormRound{{Total: 2 * time.Second}, {Total: 5 * time.Second}}
	if diff := cmp.Diff([]float64{1.5, 1}, ratios(ours, floor, stormRound.total)); diff != "" {
		t.Errorf("a round that the other did not have is compared, or another one's (-want +got):\n%s", diff)
	}
}

func TestGoalSense(t *testing.T) {
	for name, test := range map[string]struct {
		goal goal
		want string
	}{
		"at most, below":  {goal{Target: 2, Measured: 1}, "reached"},
		"at most, equal":  {goal{Target: 2, Measured: 2}, "reached"},
		"at most, above":  {goal{Target: 2, Measured: 3}, "missed"},
		"at least, below": {goal{Target: 2, Measured: 1, AtLeast: true}, "missed"},
		"at least, equal": {goal{Target: 2, Measured: 2, AtLeast: true}, "reached"},
		"at least, above": {goal{Target: 2, Measured: 3, AtLeast: true}, "reached"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.goal.reached(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestAMillionPodsAreMadeOnlyWhenAskedFor(t *testing.T) {
	for only, want := range map[string]bool{"": false, partStorm: false, partMillion: true} {
		var o options
		if only != "" {
			o.only = names{only}
		}
		if got := o.runs(partMillion); got != want {
			t.Errorf("with -only=%q it runs: %t, want %t", only, got, want)
		}
	}
}
