// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/nodecache"
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

// Forecast returns what becomes of all nodes, by name, if some of them give no sign of life from an instant on while the others go on
// as they are. It is pure: plan decides about each node and zones about each turn, as in the Keeper, by a clock that jumps from one
// instant at which something happens to the next. Of nodes that could have the same turn, the first by name has it.
func Forecast(nodes []*corev1.Node, silent []string, grace Grace, policy Policy, at time.Time) []Course {
	at = at.Round(0).UTC() // instants are keys
	f := &forecast{
		zones: newZones(policy, logr.Discard()),
		nodes: map[string]*corev1.Node{}, courses: map[string]*Course{},
		unheard: map[string]standing{}, falls: map[time.Time][]string{}, looks: map[time.Time][]string{},
	}
	records := make([]*nodecache.Node, 0, len(nodes))
	for _, node := range nodes {
		f.nodes[node.Name], f.courses[node.Name] = node, &Course{Node: node.Name}
		records = append(records, &nodecache.Node{Node: node})
	}
	for _, name := range silent {
		if node := f.nodes[name]; node != nil {
			over := firstSign(node, at).Add(grace.of(condition(node, corev1.NodeReady) != nil))
			over = latest(over.UTC(), at)
			f.falls[over] = append(f.falls[over], name)
		}
	}
	f.zones.begin(records, nil, at)
	f.looks[at] = slices.Collect(maps.Keys(f.nodes))
	for f.next() {
	}
	return f.all()
}

// forecast is one under way.
type forecast struct {
	zones   *zones
	nodes   map[string]*corev1.Node // as they are at the instant at which it is
	courses map[string]*Course
	unheard map[string]standing
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
		f.unheard[name] = silent
	}
	if len(f.falls[now]) > 0 { // all of them, before the first is looked at
		names = append(names, f.zones.count(f.unheard, now).wake...)
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
	known := facts{node: f.nodes[name], silent: f.zones.silent(name), disrupted: f.zones.allDisrupted(), now: now}
	p := planFor(known)
	if len(p.conditions) > 0 {
		course.SilentAt, course.Conditions = now, p.conditions
		known.node = with(known.node, p.conditions)
		wake = f.zones.put(known.node, silent, now).wake
		p = planFor(known)
	}
	p, next := f.planInTurn(known, p)
	wake = append(wake, next...)
	if p.retaints {
		known.node = known.node.DeepCopy()
		known.node.Spec.Taints = p.taints
		course.Steps = append(course.Steps, Step{At: now, Taints: p.taints})
	}
	f.nodes[name] = known.node
	return wake
}

// planInTurn asks the zone of a node for a turn if its plan needs one, as the reconciler does. It returns the plan then, and who is
// next.
func (f *forecast) planInTurn(known facts, p plan) (plan, []string) {
	course := f.courses[known.node.Name]
	course.Held = nil
	if !p.asks {
		return p, f.zones.giveUp(course.Node)
	}
	turn := f.zones.turn(course.Node, known.now)
	if turn.Granted {
		known.granted = true
		return planFor(known), turn.Next
	}
	course.Held = &turn.Held
	if turn.Wait > 0 {
		again := known.now.Add(turn.Wait)
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

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
