// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Where the timeline begins and ends, in drawing units. If it has a second part, the linear part ends at the break.
const (
	chartWidth = 960.0
	chartLeft  = 30.0
	chartRight = chartWidth - 46
	breakLeft  = 640.0
	breakRight = 734.0
)

// A linear axis squeezes the instants in the first of this many parts. Fewer than one in mostSqueezed may lie there.
const (
	parts        = 25
	mostSqueezed = 4
	// neverBroken is short enough to be readable without a break.
	neverBroken = 5 * time.Minute
)

// axis says where an instant is drawn, given the time since the plan. It is linear. If that would squeeze many instants
// because a few are far away, it is linear up to a break and logarithmic after it.
type axis struct {
	origin string        // the label of the first tick
	step   time.Duration // of the ticks of the linear part
	linear time.Duration // where the linear part ends
	// The part after the break. Zero if there is none.
	first, last time.Duration
}

// newAxis returns the axis for instants, of which several may be equal.
func newAxis(offsets []time.Duration) axis {
	later := slices.DeleteFunc(slices.Clone(offsets), func(offset time.Duration) bool { return offset <= 0 })
	if len(later) == 0 {
		return axis{origin: "now", step: time.Minute, linear: time.Minute}
	}
	slices.Sort(later)
	end := linearEnd(later)
	a := axis{origin: "now", step: stepOf(end)}
	a.linear = roundUp(end, a.step)
	if behind := upTo(later, a.linear); behind < len(later) {
		a.first, a.last = later[behind], later[len(later)-1]
	}
	return a
}

// newAxisTo returns the axis from the start to an end. It is linear, or broken if everything happens in its first
// quarter, which then ends with the last event.
func newAxisTo(last, end time.Duration) axis {
	a := axis{origin: "start", step: stepOf(last)}
	if a.linear = roundUp(last, a.step); a.linear == 0 || a.linear > end/4 {
		return axis{origin: "start", step: stepOf(end), linear: end}
	}
	a.first, a.last = end, end
	return a
}

// linearEnd returns the last of the sorted instants up to which a linear axis is readable.
func linearEnd(sorted []time.Duration) time.Duration {
	distinct := slices.Compact(slices.Clone(sorted))
	for i := len(distinct) - 1; i > 0; i-- {
		end := distinct[i]
		if end <= neverBroken || !squeezes(sorted, end) && !squeezes(distinct, end) {
			return end
		}
	}
	return distinct[0]
}

// squeezes reports whether a linear axis with the given end squeezes too many of the sorted instants.
func squeezes(sorted []time.Duration, end time.Duration) bool {
	return upTo(sorted, end/parts-1)*mostSqueezed >= upTo(sorted, end)
}

// upTo returns how many of the sorted instants are not later than the given one.
func upTo(sorted []time.Duration, end time.Duration) int {
	return sort.Search(len(sorted), func(i int) bool { return sorted[i] > end })
}

// broken reports whether the axis has a part after the linear one.
func (a axis) broken() bool { return a.last > 0 }

// x returns where an instant is drawn. Overdue instants are drawn at now.
func (a axis) x(offset time.Duration) float64 {
	right := chartRight
	if a.broken() {
		right = breakLeft
	}
	switch {
	case offset <= 0:
		return chartLeft
	case offset <= a.linear || !a.broken():
		return chartLeft + (right-chartLeft)*offset.Seconds()/a.linear.Seconds()
	case a.first == a.last:
		return (breakRight + chartRight) / 2
	}
	share := math.Log(offset.Seconds()/a.first.Seconds()) / math.Log(a.last.Seconds()/a.first.Seconds())
	return breakRight + (chartRight-breakRight)*share
}

// ticksApart is how close ticks may be.
const ticksApart = 72

// tick is a labeled line of the axis.
type tick struct {
	X           string
	Label, When string
}

// ticks returns the ticks of the linear part, then those after the break.
func (a axis) ticks(at time.Time) []tick {
	var all []tick
	for i := range int(a.linear/a.step) + 1 {
		all = append(all, a.tick(at, time.Duration(i)*a.step))
	}
	if last := a.linear.Truncate(a.step); last < a.linear {
		if last > 0 && a.x(a.linear)-a.x(last) < ticksApart {
			all = all[:len(all)-1]
		}
		all = append(all, a.tick(at, a.linear))
	}
	for _, offset := range a.laterTicks() {
		all = append(all, a.tick(at, offset))
	}
	return all
}

func (a axis) tick(at time.Time, offset time.Duration) tick {
	label := a.origin
	if offset > 0 {
		label = "+" + short(offset)
	}
	return tick{X: number(a.x(offset)), Label: label, When: a.when(at, offset)}
}

// when formats an instant as short as possible without ambiguity.
func (a axis) when(at time.Time, offset time.Duration) string {
	at = at.UTC()
	then := at.Add(offset)
	switch {
	case offset >= 48*time.Hour:
		return then.Format("2006-01-02")
	case then.YearDay() != at.YearDay():
		return then.Format("01-02 15:04")
	case offset == 0 || a.step < time.Minute:
		return then.Format(time.TimeOnly)
	}
	return then.Format("15:04")
}

// laterTicks returns the first instant after the break, the last instant, and round ones between them if there is room.
func (a axis) laterTicks() []time.Duration {
	if !a.broken() {
		return nil
	}
	ticks := []time.Duration{a.first}
	if a.x(a.last)-a.x(a.first) < ticksApart {
		return ticks
	}
	for _, round := range []time.Duration{
		10 * time.Minute, time.Hour, 6 * time.Hour,
		day, week, 30 * day, year, 10 * year, 100 * year,
	} {
		if round > a.first && round < a.last &&
			a.x(round)-a.x(ticks[len(ticks)-1]) >= ticksApart && a.x(a.last)-a.x(round) >= ticksApart {
			ticks = append(ticks, round)
		}
	}
	return append(ticks, a.last)
}

const (
	day  = 24 * time.Hour
	week = 7 * day
	year = 365 * day
)

// stepOf returns a distance of ticks that divides a span into a handful of parts.
func stepOf(span time.Duration) time.Duration {
	steps := []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		day, 2 * day, week, 30 * day, 90 * day, year, 2 * year, 5 * year, 10 * year,
	}
	for _, step := range steps {
		if span <= 7*step {
			return step
		}
	}
	return 50 * year
}

// roundUp returns the next multiple of a step, if there is one.
func roundUp(span, step time.Duration) time.Duration {
	beyond := span % step
	if up := span - beyond + step; beyond > 0 && up > span {
		return up
	}
	return span
}

// short formats a span in its largest units: 1h30m, 3d, 2y.
func short(span time.Duration) string {
	switch {
	case span >= year:
		return strconv.FormatFloat(math.Floor(10*span.Hours()/year.Hours())/10, 'f', -1, 64) + "y"
	case span >= day:
		return strconv.FormatFloat(math.Floor(10*span.Hours()/day.Hours())/10, 'f', -1, 64) + "d"
	case span < time.Second:
		return span.Round(time.Millisecond).String()
	}
	return sentence.Duration(span.Round(time.Second))
}

// number formats a coordinate.
func number(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }
