// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// row is one pod of the node that an act is about.
type row struct {
	sighting
	promise
}

// outcome compares promise and sighting at an instant.
func (r row) outcome(at time.Time) outcome { return judge(r.promise, r.sighting, at) }

// original reports whether the pod was on the node before the act began.
func (r row) original(t timeline) bool { return !r.bound.After(t[0].from) }

// rowsOf picks the pods that are on a node, or were since the timeline began, each with what is promised to it.
// They are in the order in which they are due; those that stay come last.
func rowsOf(rule verdict.Rule, seen []sighting, node string, t timeline) []row {
	var rows []row
	for _, s := range seen {
		if s.pod.Spec.NodeName != node || s.leftBefore(t[0].from) {
			continue
		}
		rows = append(rows, row{s, expect(rule, s.rule(), t)})
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(a.order().Compare(b.order()), strings.Compare(a.pod.Name, b.pod.Name))
	})
	return rows
}

func (r row) order() time.Time {
	if by := r.settledBy(); !by.IsZero() {
		return by
	}
	return verdict.Latest
}

// elsewhere counts what happened on all other nodes since an instant: nothing shall.
type elsewhere struct{ there, left int }

func countElsewhere(seen []sighting, nodes []string, since time.Time) elsewhere {
	var count elsewhere
	for _, s := range seen {
		if s.pod.Spec.NodeName == "" || slices.Contains(nodes, s.pod.Spec.NodeName) || s.leftBefore(since) {
			continue
		}
		count.there++
		if !s.left.IsZero() {
			count.left++
		}
	}
	return count
}

// settleTime is for how long an act goes on after the last instant of interest, to see that nothing more happens.
const settleTime = time.Second

// over reports whether an act whose steps have all been taken can end: nobody is overdue without being hopelessly so,
// and the last due or cancelled instant of the pods that were there from the beginning is settleTime ago. The
// replacements of evicted pods may come and go for ever; they do not hold up the end.
func over(rows []row, t timeline, now time.Time) bool {
	last := t[len(t)-1].from
	for _, r := range rows {
		if r.outcome(now) == waiting && !r.Due.After(now) {
			return false
		}
		if by := r.settledBy(); r.original(t) && by.After(last) {
			last = by
		}
	}
	return now.Sub(last) >= settleTime
}

// report says how one act went.
type report struct {
	expected  int // pods that were due before the end
	evicted   int // of those, the ones that left on time and by eviction
	early     int
	staying   int // pods that were promised to stay
	stayed    int
	cancelled int // of those that stayed, the ones that were due before an untaint
	pending   int // pods that were not due yet at the end
	worst     time.Duration
	elsewhere elsewhere
	problems  []string
}

// summarise makes the report of an act that ended at an instant.
func summarise(rows []row, others elsewhere, end time.Time) report {
	result := report{elsewhere: others}
	for _, r := range rows {
		result.count(r, r.outcome(end))
	}
	if others.left > 0 {
		result.problems = append(result.problems, fmt.Sprintf("%s on nodes without a taint left", plural(others.left, "pod")))
	}
	return result
}

func (r *report) count(pod row, o outcome) {
	switch {
	case o == waiting:
		r.pending++
	case pod.Stays():
		r.staying++
	default:
		r.expected++
	}
	switch o {
	case stayed:
		r.stayed++
		if pod.cancelled() {
			r.cancelled++
		}
	case evicted:
		r.evicted++
	case tooEarly:
		r.early++
	}
	if pod.Leaves && !pod.left.IsZero() {
		r.worst = max(r.worst, lateness(pod.promise, pod.sighting))
	}
	if !o.kept() {
		r.problems = append(r.problems, explain(pod, o))
	}
}

// ok reports whether everything happened as promised.
func (r report) ok() bool { return len(r.problems) == 0 }

// plus adds up two reports.
func (r report) plus(other report) report {
	return report{
		expected:  r.expected + other.expected,
		evicted:   r.evicted + other.evicted,
		early:     r.early + other.early,
		staying:   r.staying + other.staying,
		stayed:    r.stayed + other.stayed,
		cancelled: r.cancelled + other.cancelled,
		pending:   r.pending + other.pending,
		worst:     max(r.worst, other.worst),
		problems:  slices.Concat(r.problems, other.problems),
	}
}

func explain(pod row, o outcome) string {
	what := map[outcome]string{
		tooEarly: "left before it was due",
		tooLate:  "left " + lateness(pod.promise, pod.sighting).Round(time.Millisecond).String() + " after it was due",
		leftOver: "is still there, although it was due",
		broken:   "left, although it was promised to stay",
		unmarked: "left without the condition DisruptionTarget: somebody else deleted it",
	}[o]
	return fmt.Sprintf("pod %s on node %s %s", pod.pod.Name, pod.pod.Spec.NodeName, what)
}

// sentences are the report in words.
func (r report) sentences() []string {
	sentences := []string{"Nobody had to leave."}
	if r.expected > 0 {
		sentences = []string{r.evictedSentence()}
	}
	if r.staying > 0 {
		sentences = append(sentences, r.stayedSentence())
	}
	if r.pending > 0 {
		sentences = append(sentences, fmt.Sprintf("%s not due yet.", plural(r.pending, "replacement")))
	}
	return sentences
}

func (e elsewhere) sentence() string {
	return fmt.Sprintf("%s of the %s on other nodes left.", capital(noneOr(e.left)), plural(e.there, "pod"))
}

func (r report) evictedSentence() string {
	sentence := fmt.Sprintf("%d of %d evicted, %s early", r.evicted, r.expected, noneOr(r.early))
	if r.evicted > 0 || r.worst > 0 {
		sentence += fmt.Sprintf(", at most %s late", milliseconds(r.worst))
	}
	return sentence + "."
}

func (r report) stayedSentence() string {
	if r.stayed < r.staying {
		return fmt.Sprintf("%d of %d stayed.", r.stayed, r.staying)
	}
	if r.cancelled > 0 {
		return fmt.Sprintf("%d stayed as promised, %d of them because of the untaint.", r.stayed, r.cancelled)
	}
	return fmt.Sprintf("%d stayed as promised.", r.stayed)
}

func noneOr(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func wereOrWas(n int, word string) string {
	if n == 1 {
		return plural(n, word) + " was"
	}
	return plural(n, word) + " were"
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
