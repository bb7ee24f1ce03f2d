// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheAxisIsBrokenOnlyWhereALinearOneWouldSqueezeMany(t *testing.T) {
	minutes := make([]time.Duration, 0, 120)
	for i := range 120 {
		minutes = append(minutes, time.Duration(i)*time.Minute)
	}
	for name, test := range map[string]struct {
		offsets []time.Duration
		linear  time.Duration
		last    time.Duration // after the break
	}{
		"no pod is due":                                {nil, time.Minute, 0},
		"all at once":                                  {[]time.Duration{0, 0, 0}, time.Minute, 0},
		"a few minutes":                                {[]time.Duration{0, 2 * time.Minute, 10 * time.Minute}, 10 * time.Minute, 0},
		"a second and five minutes":                    {[]time.Duration{time.Second, 5 * time.Minute}, 5 * time.Minute, 0},
		"spread over two hours":                        {minutes, 2 * time.Hour, 0},
		"minutes, and one in three days":               {[]time.Duration{2 * time.Minute, 10 * time.Minute, 3 * day}, 10 * time.Minute, 3 * day},
		"spread over two hours, and one in a year":     {append(slices.Clone(minutes), year), 2 * time.Hour, year},
		"many in five minutes, and a few over days":    {append(slices.Repeat([]time.Duration{5 * time.Minute}, 100), day, 2*day, 10*day), 5 * time.Minute, 10 * day},
		"as late as can be written":                    {[]time.Duration{time.Minute, math.MaxInt64}, time.Minute, math.MaxInt64},
		"nothing but as late as can be written":        {[]time.Duration{math.MaxInt64}, math.MaxInt64, 0},
		"each five times as late as the one before it": {[]time.Duration{time.Minute, 5 * time.Minute, 25 * time.Minute, 125 * time.Minute, 625 * time.Minute}, 25 * time.Minute, 625 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAxis(test.offsets)
			if a.linear != test.linear || a.last != test.last {
				t.Errorf("linear up to %v, and up to %v behind the break, want %v and %v", a.linear, a.last, test.linear, test.last)
			}
		})
	}
}

func TestTheAxisOfASimulationEndsWithItAndIsBrokenOnlyIfMostOfItIsEmpty(t *testing.T) {
	for name, test := range map[string]struct {
		last, end, linear time.Duration
		ticks             string
	}{
		"nothing happens":          {0, 30 * time.Minute, 30 * time.Minute, "start +5m +10m +15m +20m +25m +30m"},
		"the end is no tick":       {40 * time.Minute, 42 * time.Minute, 42 * time.Minute, "start +10m +20m +30m +42m"},
		"it ends with the tenth":   {10 * time.Minute, 30 * time.Minute, 30 * time.Minute, "start +5m +10m +15m +20m +25m +30m"},
		"a day, and five minutes":  {5 * time.Minute, day, 5 * time.Minute, "start +1m +2m +3m +4m +5m +1d"},
		"less than one step":       {time.Millisecond, 3 * time.Second, 3 * time.Second, "start +1s +2s +3s"},
		"it is over in no seconds": {time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond, "start +500ms"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAxisTo(test.last, test.end)
			var labels []string
			for _, tick := range a.ticks(time.Time{}) {
				labels = append(labels, tick.Label)
			}
			if got := strings.Join(labels, " "); a.linear != test.linear || got != test.ticks {
				t.Errorf("linear up to %v with ticks %s, want %v and %s", a.linear, got, test.linear, test.ticks)
			}
		})
	}
}

func TestTheAxisKeepsTheOrderOfInstantsAndItsBounds(t *testing.T) {
	offsets := []time.Duration{-time.Hour, 0, time.Second, time.Minute, 2 * time.Minute, 3 * time.Minute, time.Hour, day, week, year, 100 * year, math.MaxInt64}
	a := newAxis(offsets)
	before := 0.0
	for _, offset := range offsets {
		x := a.x(offset)
		if x < before || x < chartLeft || x > chartRight+0.001 {
			t.Errorf("%v is drawn at %v, after %v", offset, x, before)
		}
		before = x
	}
}

func TestTicksAreApartAndReadable(t *testing.T) {
	at := time.Date(2026, time.November, 22, 23, 50, 0, 0, time.UTC)
	for _, offsets := range [][]time.Duration{
		nil, {time.Second}, {7 * time.Second, 40 * time.Second}, {time.Minute, 20 * time.Minute}, {90 * time.Minute, 100 * time.Minute},
		{time.Minute, 3 * day}, {time.Minute, time.Hour, day, year, 80 * year}, {day, 10 * day}, {5 * year}, {math.MaxInt64},
	} {
		a := newAxis(offsets)
		ticks := a.ticks(at)
		if len(ticks) < 2 || len(ticks) > 14 {
			t.Errorf("%v: %d ticks", offsets, len(ticks))
		}
		if ticks[0].Label != "now" || ticks[0].When != "23:50:00" {
			t.Errorf("%v: the axis begins with %v", offsets, ticks[0])
		}
		for _, tick := range ticks[1:] {
			if !strings.HasPrefix(tick.Label, "+") || len(tick.Label) > 9 {
				t.Errorf("%v: a tick is labeled %q", offsets, tick.Label)
			}
		}
	}
}

func TestSpansAreWrittenInTheirLargestUnits(t *testing.T) {
	for span, want := range map[time.Duration]string{
		150 * time.Millisecond: "150ms", time.Second: "1s", 90 * time.Second: "1m30s", 2 * time.Minute: "2m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		day: "1d", 36 * time.Hour: "1.5d", year: "1y", 292 * year: "292y", time.Hour + time.Second: "1h0m1s",
	} {
		if got := short(span); got != want {
			t.Errorf("%v is written %q, want %q", span, got, want)
		}
	}
}
