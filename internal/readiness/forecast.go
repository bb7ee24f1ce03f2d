// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// Course is what becomes of a node in a forecast.
type Course struct {
	Node string
	// SilentAt is when its conditions become Unknown; zero: it is not silent, or they are Unknown already.
	SilentAt time.Time
	// Conditions are those that become Unknown then.
	Conditions []corev1.NodeCondition
	// Steps are its taints, from each instant on at which they change.
	Steps []Step
	// Held says why it waits for a NoExecute taint in vain; nil: it does not.
	Held *Held
}

// Step is the taints of a node from an instant on.
type Step struct {
	At     time.Time
	Taints []corev1.Taint
}

// Forecast returns what becomes of all nodes, by name, if some of them give no sign of life from an instant on while
// the others go on as they are. Facts.Plan decides about each node and Zones about each turn, as in node health, by a
// clock that jumps from one instant at which something happens to the next. Of nodes that could have the same turn, the
// first by name has it.
func Forecast(nodes []*corev1.Node, silent []string, grace Grace, policy Policy, at time.Time) []Course {
	at = at.Round(0).UTC() // instants are keys
	f := &forecast{
		zones: NewZones(policy, logr.Discard()),
		nodes: map[string]*corev1.Node{}, courses: map[string]*Course{},
		unheard: map[string]Standing{}, falls: map[time.Time][]string{}, looks: map[time.Time][]string{},
	}
	for _, node := range nodes {
		f.nodes[node.Name], f.courses[node.Name] = node, &Course{Node: node.Name}
		f.zones.Put(node, Heard, at)
	}
	for _, name := range silent {
		if node := f.nodes[name]; node != nil {
			over := FirstSign(node, at).Add(grace.Of(Condition(node, corev1.NodeReady) != nil)).UTC()
			if over.Before(at) {
				over = at
			}
			f.falls[over] = append(f.falls[over], name)
		}
	}
	f.zones.Begin(nodes, nil, verdict.SeenAt(at).Sight)
	f.looks[at] = slices.Collect(maps.Keys(f.nodes))
	for f.next() {
	}
	return f.all()
}

// forecast is one under way.
type forecast struct {
	zones   *Zones
	nodes   map[string]*corev1.Node // as they are at the instant at which it is
	courses map[string]*Course
	unheard map[string]Standing
	falls   map[time.Time][]string // whose grace periods are over when
	looks   map[time.Time][]string // whose plan can be another when
}

// next goes to the next instant at which something happens. It reports whether there was one.
func (f *forecast) next() bool {
	var now time.Time
	for _, instants := range []map[time.Time][]string{f.falls, f.looks} {
		for at := range instants {
			if now.IsZero() || at.Before(now) {
				now = at
			}
		}
	}
	if now.IsZero() {
		return false
	}
	names := f.looks[now]
	for _, name := range f.falls[now] {
		f.unheard[name] = Silent
	}
	if len(f.falls[now]) > 0 { // all of them, before the first is looked at
		names = append(names, f.zones.Count(f.unheard, now).Wake...)
	}
	delete(f.falls, now)
	delete(f.looks, now)
	for slices.Sort(names); len(names) > 0; {
		woken := f.look(names[0], now)
		slices.Sort(woken)
		names = append(names[1:], woken...)
	}
	return true
}

// look makes a node what its plan says, and returns whose plan can be another then.
func (f *forecast) look(name string, now time.Time) (wake []string) {
	course := f.courses[name]
	facts := Facts{Node: f.nodes[name], Standing: f.unheard[name], Disrupted: f.zones.AllDisrupted(), Now: now}
	if conditions := facts.Plan().Conditions; len(conditions) > 0 {
		course.SilentAt, course.Conditions = now, conditions
		facts.Node = WithConditions(facts.Node, conditions)
		wake = f.zones.Put(facts.Node, Silent, now).Wake
	}
	p, next := f.planInTurn(facts)
	if p.Retaints {
		facts.Node = facts.Node.DeepCopy()
		facts.Node.Spec.Taints = p.Taints
		course.Steps = append(course.Steps, Step{At: now, Taints: p.Taints})
	}
	f.nodes[name] = facts.Node
	return append(wake, next...)
}

// planInTurn plans a node's taints, and asks its zone for a turn if it needs one, as the reconciler of node health
// does. It returns who is next, too.
func (f *forecast) planInTurn(facts Facts) (Plan, []string) {
	course, p := f.courses[facts.Node.Name], facts.Plan()
	course.Held = nil
	if !p.Asks {
		return p, f.zones.GiveUp(course.Node)
	}
	turn := f.zones.Turn(course.Node, facts.Now)
	if turn.Granted {
		facts.Granted = true
		return facts.Plan(), turn.Next
	}
	course.Held = &turn.Held
	if turn.Wait > 0 {
		again := facts.Now.Add(turn.Wait)
		f.looks[again] = append(f.looks[again], course.Node)
	}
	return p, turn.Next
}

// all returns the courses, by name. Why nodes are held back is said as it is in the end.
func (f *forecast) all() []Course {
	courses := make([]Course, 0, len(f.courses))
	for name, course := range f.courses {
		if course.Held != nil {
			held := f.zones.held(f.zones.members[name].zone)
			course.Held = &held
		}
		courses = append(courses, *course)
	}
	slices.SortFunc(courses, func(a, b Course) int { return cmp.Compare(a.Node, b.Node) })
	return courses
}
