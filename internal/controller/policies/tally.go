// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// tally is what a policy does to the pods that are due now.
type tally struct {
	selected          int    // pods, on all nodes
	open              string // why its breaker is open; empty if it is not
	due, held, asking int
	settling          int // wait only to see how many other pods are due

	since    time.Time // when the first held pod was due
	why      map[policy.Why]int
	examples []string // names of held pods, sorted

	halted int       // pods that a halt keeps
	until  time.Time // when the last halt ended after which a deadline counts; zero if none does
}

// tallies counts for each policy what it does now.
func (f *Follower) tallies() map[string]*tally {
	all, tallies := f.all(), map[string]*tally{}
	f.with(func(e *policy.Engine, now time.Time) {
		for _, p := range all {
			tallies[p.Name] = &tally{
				why: map[policy.Why]int{}, selected: f.countSelected(p.Policy, now), open: e.Open(p.Policy, now),
			}
		}
	})
	if len(all) == 0 {
		return tallies
	}
	for _, name := range f.tainted() {
		f.with(func(e *policy.Engine, now time.Time) {
			for _, is := range (cluster{f}).Leaving(name, now) {
				decision := e.Decide(is, now)
				for _, p := range is.By {
					if t := tallies[p.Name]; t != nil {
						t.add(is, p, &decision, now)
					}
				}
			}
		})
	}
	return tallies
}

// add counts a pod that the policy selects.
func (t *tally) add(is *policy.Leaver, p *policy.Policy, together *policy.Decision, now time.Time) {
	due, applies := p.Due(is.Causes)
	if !applies || due.After(now) {
		return
	}
	t.due++
	t.halts(p, is.Causes, now)
	alone := together.Alone(p, is.Causes, now)
	switch {
	case needless(alone, together.Said, now.Sub(due)):
	case alone.Why == policy.Settling:
		t.settling++
	case alone.Stays() && (together.Stays() || p.DryRun):
		t.held++
		t.why[alone.Why]++
		t.since = timeline.Next(t.since, due)
		t.exemplify(is.Memo.(leaving).pod)
	case alone.Step == policy.Ask && together.Step == policy.Ask:
		t.asking++
	}
}

// needless reports whether a status need not say that a pod is unread, because something else holds it, or because it
// has been due only for a moment.
func needless(alone, together policy.Said, due time.Duration) bool {
	return alone.Why == policy.PodUnread && (together.Why != policy.PodUnread || due < reportAtMost)
}

// halts notes which halts a deadline waits for, or counts from.
func (t *tally) halts(p *policy.Policy, causes []policy.Cause, now time.Time) {
	on := false
	for _, cause := range causes {
		if !p.HasDeadline() || !p.Applies(cause.Taint) || cause.Due.After(now) {
			continue
		}
		on = on || !cause.Halt.Since.IsZero()
		if from := p.DeadlineFrom(cause); from.After(cause.Due) {
			t.until = timeline.Later(t.until, from)
		}
	}
	if on {
		t.halted++
	}
}

// exemplify keeps the first three pods in alphabetical order, so that the status does not change by itself.
func (t *tally) exemplify(pod *podcache.Pod) {
	const most = 3
	name := pod.Namespace + "/" + pod.Name
	i, _ := slices.BinarySearch(t.examples, name)
	if t.examples = slices.Insert(t.examples, i, name); len(t.examples) > most {
		t.examples = t.examples[:most]
	}
}

// reason is why most of the held pods are held.
func (t *tally) reason() policy.Why {
	return slices.MaxFunc(slices.Sorted(maps.Keys(t.why)), func(a, b policy.Why) int {
		return cmp.Compare(t.why[a], t.why[b])
	})
}

// String says which pods are held, and why.
func (t *tally) String() string {
	var reasons []string
	for _, why := range slices.Sorted(maps.Keys(t.why)) {
		reasons = append(reasons, fmt.Sprintf("%s %d", why, t.why[why]))
	}
	examples := ": "
	if t.held > len(t.examples) {
		examples = ", such as "
	}
	return fmt.Sprintf("%d of %s (%s)", t.held, sentence.Counted(t.due, "due pod"), strings.Join(reasons, ", ")) +
		examples + strings.Join(t.examples, ", ")
}
