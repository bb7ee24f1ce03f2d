// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

func check(t *testing.T, got, want Finding) {
	t.Helper()
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestADepartureIsRightWhenItIsOnTime(t *testing.T) {
	const due, late, watched = 20 * time.Second, 4 * time.Second, time.Minute
	tests := map[string]struct {
		departure Departure
		want      Finding
	}{
		"at the deadline":              {Departure{Due: due, Left: true, After: due}, Finding{"left after 20.0 s", true}},
		"as late as a busy machine is": {Departure{Due: due, Left: true, After: due + late}, Finding{"left after 24.0 s", true}},
		"later than that":              {Departure{Due: due, Left: true, After: 34100 * time.Millisecond}, Finding{"left after 34.1 s, 14.1 s late", false}},
		"before what was promised":     {Departure{Due: due, Left: true, After: 5 * time.Second}, Finding{"left after 5.0 s, 15.0 s early", false}},
		"by a moment too early":        {Departure{Due: due, Left: true, After: due - time.Millisecond}, Finding{"left after 20.0 s, 1 ms early", false}},
		"not at all":                   {Departure{Due: due, Watched: watched}, Finding{"still there after 60.0 s", false}},
		"due at once, at once":         {Departure{Left: true, After: 34 * time.Millisecond}, Finding{"left after 34 ms", true}},
		"never due, and it stays":      {Departure{Due: Never, Watched: watched}, Finding{"still there after 60.0 s", true}},
		"never due, and it leaves":     {Departure{Due: Never, Left: true, After: 300 * time.Millisecond}, Finding{"left after 300 ms", false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.departure.Late = late
			check(t, test.departure.Finding(), test.want)
		})
	}
}

func TestOneThingThatIsWrongMakesAFindingWrong(t *testing.T) {
	right := Finding{Right: true}
	check(t, right.And(Finding{"a", true}).And(Finding{"b", true}), Finding{"a; b", true})
	check(t, right.And(Finding{"a", false}).And(Finding{"b", true}), Finding{"a; b", false})
}

func TestDeletesAfterAnUntaintAreWrongUnlessTheyWereUnderWay(t *testing.T) {
	untainted := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	judge := func(after ...time.Duration) Finding {
		var deletes []auditlog.Event
		for _, d := range after {
			deletes = append(deletes, auditlog.Event{Answered: untainted.Add(d)})
		}
		return noneAfter(deletes, 200, untainted, untainted.Add(time.Second).Before)
	}
	check(t, judge(), Finding{"0 of 200 deleted before the untaint, 0 after it", true})
	check(t, judge(-time.Second, 500*time.Millisecond), Finding{"1 of 200 deleted before the untaint, 1 after it", true})
	check(t, judge(-time.Second, 7*time.Second), Finding{"1 of 200 deleted before the untaint, 1 after it", false})
}
