// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// generateHealth makes a history. See history for how ties are kept out.
//
// The first node of each zone always counts and always stays: what upstream does with zones that
// vanish depends on the order of a Go map.
func generateHealth(d dice) *history {
	g := &healthGenerator{
		generator: generator{dice: d}, there: map[string]nodeSpec{}, anchors: map[string]bool{},
		silent: map[string]bool{}, phases: map[time.Duration]bool{},
	}
	g.begin()
	return g.happen(16, g.advance, g.action)
}

type healthGenerator struct {
	generator

	there   map[string]nodeSpec // by name
	gone    []nodeSpec
	anchors map[string]bool
	silent  map[string]bool
	phases  map[time.Duration]bool
	nodes   int
	zones   []string
	taints  []setTaint
}

func (g *healthGenerator) begin() {
	g.history.Start = time.Duration(g.between(10, 150)) * tick
	g.started, g.at = g.history.Start, g.history.Start.Truncate(sec)
	for i := range pick(g.dice, 1, 1, 2, 2, 3) {
		zone := string(rune('a' + i))
		g.zones = append(g.zones, zone)
		for n := range pick(g.dice, 1, 1, 2, 3, 4, 5, 6, 7, 8) {
			spec := g.node(zone)
			if n == 0 {
				spec.Excluded = false
				g.anchors[spec.Name] = true
			}
			g.history.Nodes = append(g.history.Nodes, spec)
			g.there[spec.Name] = spec
		}
	}
}

func (g *healthGenerator) node(zone string) nodeSpec {
	g.nodes++
	spec := nodeSpec{Name: fmt.Sprintf("%s%02d", zone, g.nodes), Zone: zone, Phase: g.phase()}
	return g.kubeletOf(spec)
}

func (g *healthGenerator) kubeletOf(spec nodeSpec) nodeSpec {
	spec.Mute, spec.Absent = g.chance(10), g.chance(5)
	spec.Excluded, spec.Cordoned = g.chance(12), g.chance(8)
	if spec.Absent {
		g.silent[spec.Name] = true
	}
	return spec
}

// phase returns when a kubelet renews, 90 to 97 ms after a tenth of a second.
func (g *healthGenerator) phase() time.Duration {
	for {
		fraction := time.Duration(g.between(0, 139)) * 50 * time.Microsecond
		if !g.phases[fraction] {
			g.phases[fraction] = true
			return time.Duration(g.between(0, 99))*tick + 90*ms + fraction
		}
	}
}

// advance moves on to the instant of the next step, 98 ms after a tenth of a second.
func (g *healthGenerator) advance() {
	second := g.at.Truncate(sec) + time.Duration(pick(g.dice, 1, 1, 2, 3, 4, 5, 7, 9, 12, 20, 30, 45, 60))*sec
	g.at = second + time.Duration(g.between(0, 9))*tick + 98*ms
}

func (g *healthGenerator) names() []string { return slices.Sorted(maps.Keys(g.there)) }

// action makes the next step's action; nil when what was drawn is not possible now.
func (g *healthGenerator) action() action {
	if g.comesBack() {
		return g.comeBack()
	}
	name := pick(g.dice, g.names()...)
	switch n := g.IntN(100); {
	case n < 22:
		return g.fall(name)
	case n < 40:
		return g.resume()
	case n < 58:
		return g.post(name)
	case n < 63:
		return cordon{name, g.chance(50)}
	case n < 67:
		return report{name, corev1.NodeNetworkUnavailable, pick(g.dice, corev1.ConditionTrue, corev1.ConditionFalse)}
	case n < 79:
		return g.taint(name)
	case n < 86:
		return g.change(name)
	case n < 92:
		return g.restart(func() time.Duration { return time.Duration(pick(g.dice, 0, 1, 5, 20)) * sec })
	case n < 96:
		return g.touch(name)
	}
	return g.fall(name)
}

// comesBack reports whether a node that the latest step has removed comes back at once.
func (g *healthGenerator) comesBack() bool {
	n := len(g.history.Steps)
	if n == 0 || len(g.gone) == 0 || !g.chance(40) {
		return false
	}
	_, removed := g.history.Steps[n-1].Do.(removeNode)
	return removed
}

// fall makes a node, some, a zone, or all nodes fall silent.
func (g *healthGenerator) fall(name string) action {
	names := g.names()
	keep := func(falls func(other string) bool) {
		names = slices.DeleteFunc(names, func(other string) bool { return !falls(other) })
	}
	switch n := g.IntN(100); {
	case n < 45:
		names = []string{name}
	case n < 60:
		keep(func(string) bool { return g.chance(40) })
	case n < 85:
		keep(func(other string) bool { return g.there[other].Zone == g.there[name].Zone })
	}
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		g.silent[name] = true
	}
	return fall{names}
}

func (g *healthGenerator) resume() action {
	silent := slices.DeleteFunc(g.names(), func(name string) bool { return !g.silent[name] })
	if len(silent) == 0 {
		return nil
	}
	name := pick(g.dice, silent...)
	delete(g.silent, name)
	return resume{name}
}

func (g *healthGenerator) post(name string) action {
	if g.silent[name] {
		return nil
	}
	if g.chance(70) {
		return report{name, corev1.NodeReady, pick(g.dice, corev1.ConditionFalse, corev1.ConditionFalse, corev1.ConditionTrue)}
	}
	kind := pick(g.dice, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure)
	return report{name, kind, pick(g.dice, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)}
}

// taint sets a taint of another client, some of which look like the contestant's own, or removes one.
func (g *healthGenerator) taint(name string) action {
	if len(g.taints) > 0 && g.chance(40) {
		last := pick(g.dice, g.taints...)
		return untaint{last.Node, last.Taint.Key, last.Taint.Effect}
	}
	key := pick(g.dice, "example.com/mine", corev1.TaintNodeMemoryPressure, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable)
	effect := pick(g.dice, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)
	next := setTaint{name, corev1.Taint{Key: key, Effect: effect}}
	g.taints = append(g.taints, next)
	return next
}

// change removes a node, or adds one, with a new name or with one that was there before.
func (g *healthGenerator) change(name string) action {
	if g.chance(50) && !g.anchors[name] {
		g.gone = append(g.gone, g.there[name])
		delete(g.there, name)
		delete(g.silent, name)
		return removeNode{name}
	}
	if len(g.gone) > 0 && g.chance(60) {
		return g.comeBack()
	}
	return g.come(g.node(pick(g.dice, g.zones...)))
}

// comeBack adds a node with a name that was there before.
func (g *healthGenerator) comeBack() action {
	last := len(g.gone) - 1
	spec := g.kubeletOf(nodeSpec{Name: g.gone[last].Name, Zone: g.gone[last].Zone, Phase: g.gone[last].Phase})
	if g.chance(40) {
		spec.Absent, g.silent[spec.Name] = true, true
	}
	g.gone = g.gone[:last]
	return g.come(spec)
}

func (g *healthGenerator) come(spec nodeSpec) action {
	spec.Created = g.at
	g.there[spec.Name] = spec
	return addNode{spec}
}

// touch writes to the Lease of a node, but not of an anchor: a zone vanishes if a pass skips all of its nodes.
func (g *healthGenerator) touch(name string) action {
	if g.anchors[name] {
		return nil
	}
	return touch{name}
}
