// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

func TestGoals(t *testing.T) {
	r := newReport()
	r.Storm[nameFloor] = []stormRound{{Total: 10 * time.Second}, {Total: 30 * time.Second}, {Total: 12 * time.Second}}
	r.Storm[nameOurs] = []stormRound{{Total: 15 * time.Second, First: 100 * time.Millisecond, Calls: map[string]int{
		"delete pods": stormPods, "patch pods/status": stormPods, "get nodes": 80, "create events": stormPods,
	}}}
	r.Storm[nameUnlimited] = []stormRound{{Total: 30 * time.Second, First: 8 * time.Second}}
	r.setGoals()

	var printed strings.Builder
	r.printGoals(&printed)
	for _, want := range []string{
		"multiple of the floor's", "1.25", "missed", // 15 s by the median of 10, 12 and 30 s
		"2.00", "80.00", "2.08", "reached",
	} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q is not in\n%s", want, printed.String())
		}
	}
	if strings.Contains(printed.String(), "lateness") {
		t.Errorf("what was not measured is compared:\n%s", printed.String())
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
