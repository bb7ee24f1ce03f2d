// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// generateEvictions makes a history.
//
// It keeps ties out, so that who came first is never a matter of the second's resolution: steps lie
// on even seconds plus a fraction of 20 to 400 ms that no other step has, every timeAdded is an
// even second, and tolerationSeconds that end within a history are odd. So whatever is due lies on
// an odd second plus a step's fraction, or, where the second was rounded up, on an even second, at
// least 20 ms before a step.
func generateEvictions(d dice) *history {
	g := &evictionsGenerator{
		generator: generator{dice: d}, keys: map[string][]string{}, pods: map[string]*podSpec{}, nodes: map[string]bool{},
	}
	g.begin()
	return g.happen(25, g.advance, g.action)
}

type evictionsGenerator struct {
	generator

	fractions []time.Duration // taken
	unseen    bool            // there is a createUnseen already: a second would meet a longer backoff

	keys  map[string][]string // of the taints on each node
	pods  map[string]*podSpec // by name, the last that was created
	nodes map[string]bool     // that are there
	uids  int

	planned []func() action // that usually come next
	soon    bool            // the next step follows within the second, if there is room
}

// even returns an even number of seconds.
func (g *evictionsGenerator) even(least, most int) time.Duration {
	return time.Duration(2*g.between(least/2, most/2)) * sec
}

func (g *evictionsGenerator) begin() {
	g.started = -sec
	g.at = g.instantIn(0, 20)
	g.history.Start, g.started = g.at, g.at
	for i := range pick(g.dice, 1, 1, 2, 2, 3, 4) {
		spec := nodeSpec{Name: "n" + strconv.Itoa(i+1)}
		g.nodes[spec.Name] = true
		for range pick(g.dice, 0, 0, 0, 1, 2) {
			taint := g.taint()
			spec.Taints = withTaint(spec.Taints, taint)
			g.keys[spec.Name] = append(g.keys[spec.Name], taint.Key)
		}
		g.history.Nodes = append(g.history.Nodes, spec)
	}
	for range g.between(0, 5) {
		g.history.Pods = append(g.history.Pods, g.oldPod())
	}
}

// advance moves on to the instant of the next step.
func (g *evictionsGenerator) advance() {
	second := g.at.Truncate(sec)
	least := 20
	if into := int((g.at - second) / ms); (g.soon || g.chance(15)) && into < 300 {
		least = into + int(spacing/ms)
	} else {
		second += time.Duration(pick(g.dice, 2, 2, 4, 4, 6, 8, 10, 12)) * sec
	}
	if len(g.history.Steps) > 0 {
		if last, ok := g.history.Steps[len(g.history.Steps)-1].Do.(create); ok && last.Unseen {
			second, least = (g.at + 2*blindFor).Truncate(sec), 20
		}
	}
	g.at = g.instantIn(second, least)
}

// instantIn returns an instant with a fraction of a second that is not taken, at least the given number of milliseconds
// into the second, or in a later second. At that fraction, no timeAdded may be written because of another step, and the
// contestant may not have started.
func (g *evictionsGenerator) instantIn(second time.Duration, least int) time.Duration {
	const tries = 30
	for try := 1; ; try++ {
		f := time.Duration(g.between(least, 400)) * ms
		taken := slices.ContainsFunc(g.fractions, func(other time.Duration) bool {
			return f == other || f == other+stampAfter || f == other-stampAfter
		})
		if !taken && (second+f-g.started).Abs() > spacing {
			g.fractions = append(g.fractions, f)
			return second + f
		}
		if try%tries == 0 {
			second, least = second+2*sec, 20
		}
	}
}

// spacing is the least time between two steps: when it starts, upstream may delete a pod twice, and tries the second
// delete again for 50 ms.
const spacing = 60 * ms

// seconds returns tolerationSeconds: nil, short, zero or less, or longer than any history, the
// overflowing ones among them.
func (g *evictionsGenerator) seconds() *int64 {
	switch n := g.IntN(100); {
	case n < 28:
		return nil
	case n < 34:
		return new(pick[int64](g.dice, 0, 0, -1, -3, math.MinInt64))
	case n < 44:
		return new(pick[int64](g.dice, 1<<31, 18446744074, 18446744077, 9223372036, 9223372037, 1<<62, math.MaxInt64))
	}
	return new(pick[int64](g.dice, 1, 3, 5, 7, 9, 11, 15, 21, int64(longestCountdown/sec)))
}

func (g *evictionsGenerator) key() string {
	return pick(g.dice, "a", "a", "a", "b", "b", "b", "c", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
}

func (g *evictionsGenerator) value() string { return pick(g.dice, "", "", "x", "5", "12", "09", "-7") }

func (g *evictionsGenerator) toleration() corev1.Toleration {
	toleration := corev1.Toleration{
		Key:      g.key(),
		Operator: pick(g.dice, corev1.TolerationOpExists, corev1.TolerationOpExists, corev1.TolerationOpExists, corev1.TolerationOpEqual, ""),
		Effect:   pick(g.dice, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, "", corev1.TaintEffectNoSchedule),
	}
	switch {
	case g.chance(12):
		toleration.Key, toleration.Operator = "", corev1.TolerationOpExists
	case g.chance(8):
		toleration.Operator = pick(g.dice, corev1.TolerationOpGt, corev1.TolerationOpLt)
	}
	if toleration.Operator != corev1.TolerationOpExists {
		toleration.Value = g.value()
	}
	if toleration.Effect == corev1.TaintEffectNoExecute {
		toleration.TolerationSeconds = g.seconds()
	}
	return toleration
}

func (g *evictionsGenerator) tolerations() []corev1.Toleration {
	var list []corev1.Toleration
	for range pick(g.dice, 0, 1, 1, 1, 2, 2, 3, 4) {
		list = append(list, g.toleration())
	}
	if g.chance(35) {
		list = append(list, g.defaultTolerations()...)
	}
	return list
}

// defaultTolerations are the ones that the API server gives to pods, usually with the same seconds for both.
func (g *evictionsGenerator) defaultTolerations() []corev1.Toleration {
	list := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	both := new(pick[int64](g.dice, 5, 15, 21, 31))
	for i := range list {
		list[i].TolerationSeconds = both
		if g.chance(25) {
			list[i].TolerationSeconds = g.seconds()
		}
	}
	return list
}

// retolerated changes tolerations as the API lets those of a running pod change: some may be added,
// and the tolerationSeconds of those there are may change.
func (g *evictionsGenerator) retolerated(current []corev1.Toleration) []corev1.Toleration {
	list := slices.Clone(current)
	for i := range list {
		if list[i].Effect == corev1.TaintEffectNoExecute && g.chance(60) {
			list[i].TolerationSeconds = g.seconds()
		}
	}
	if len(list) == 0 || g.chance(40) {
		list = slices.Insert(list, g.IntN(len(list)+1), g.toleration())
	}
	return list
}

func (g *evictionsGenerator) taint() corev1.Taint {
	taint := corev1.Taint{Key: g.key(), Value: g.value(), Effect: corev1.TaintEffectNoExecute}
	if g.chance(12) {
		taint.Effect = pick(g.dice, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)
	}
	if at := g.timeAdded(); at != nil {
		taint.TimeAdded = new(instant(*at))
	}
	return taint
}

// timeAdded is missing, or now, or in the past, or in the future.
func (g *evictionsGenerator) timeAdded() *time.Duration {
	now := g.at.Truncate(sec)
	switch n := g.IntN(100); {
	case n < 55:
		return nil
	case n < 75:
		return new(now)
	case n < 92:
		return new(now - g.even(2, 30))
	}
	return new(now + g.even(2, 20))
}

// action makes the next step's action; nil when what was drawn is not possible now.
func (g *evictionsGenerator) action() action {
	g.soon = false
	if len(g.planned) > 0 && g.chance(75) {
		do := g.planned[0]
		g.planned = g.planned[1:]
		return do()
	}
	node := pick(g.dice, g.history.Nodes...).Name
	switch n := g.IntN(100); {
	case n < 5:
		return g.sicken(node)
	case n < 8:
		return g.template(node)
	case n < 28:
		taint := g.taint()
		g.keys[node] = append(g.keys[node], taint.Key)
		return setTaint{node, taint}
	case n < 52:
		return g.editTaint(node)
	case n < 68:
		return g.create()
	case n < 74:
		return g.restart(func() time.Duration { return g.even(0, 8) })
	case n < 78:
		return g.changeNode(node)
	}
	return g.editPod()
}

// sicken taints a node as the node-lifecycle controller does, and makes it alternate between not ready and unreachable
// for a while.
func (g *evictionsGenerator) sicken(node string) action {
	name := pick(g.dice, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	first := setTaint{node, noExecute(name, g.at)}
	g.planned = nil
	for range g.between(1, 5) {
		from, to := name, opposite(name)
		g.planned = append(g.planned, func() action { return g.swap(node, from, to) })
		name = to
	}
	if g.chance(50) {
		g.planned = append(g.planned, func() action { return untaint{Node: node, Key: name} })
	}
	g.keys[node] = append(g.keys[node], corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	return first
}

// swap makes one name the other: in one write or, as upstream does, in two, of which the second usually follows soon.
func (g *evictionsGenerator) swap(node, from, to string) action {
	if g.chance(30) {
		return swap{node, from, to, g.at}
	}
	g.soon = g.chance(80)
	g.planned = append([]func() action{func() action { return untaint{Node: node, Key: from} }}, g.planned...)
	return setTaint{node, noExecute(to, g.at)}
}

// template makes a controller write one taint again and again: with another value, another timeAdded, or without.
func (g *evictionsGenerator) template(node string) action {
	key := g.key()
	g.keys[node] = append(g.keys[node], key)
	again := func() action {
		taint := corev1.Taint{Key: key, Value: g.value(), Effect: corev1.TaintEffectNoExecute}
		if g.chance(60) {
			taint.TimeAdded = new(instant(g.at))
		}
		return setTaint{node, taint}
	}
	g.planned = nil
	for range g.between(1, 6) {
		g.planned = append(g.planned, again)
	}
	return again()
}

func (g *evictionsGenerator) editTaint(node string) action {
	if len(g.keys[node]) == 0 {
		return nil
	}
	key := pick(g.dice, g.keys[node]...)
	switch n := g.IntN(100); {
	case n < 50:
		g.keys[node] = slices.DeleteFunc(g.keys[node], func(other string) bool { return other == key })
		return untaint{Node: node, Key: key}
	case n < 65:
		return changeValue{node, key, g.value()}
	}
	return retime{node, key, g.timeAdded()}
}

func (g *evictionsGenerator) changeNode(node string) action {
	if g.nodes[node] {
		g.nodes[node], g.keys[node] = false, nil
		return removeNode{node}
	}
	g.nodes[node] = true
	spec := nodeSpec{Name: node}
	if g.chance(50) {
		taint := g.taint()
		spec.Taints, g.keys[node] = []corev1.Taint{taint}, []string{taint.Key}
	}
	return addNode{spec}
}

// create creates a pod that has a new name or replaces another one.
func (g *evictionsGenerator) create() action {
	const mostPods = 12
	if g.uids >= mostPods {
		return nil
	}
	if len(g.pods) == 0 || g.chance(60) {
		return create{Pod: g.newPod("p" + strconv.Itoa(len(g.pods)+1))}
	}
	name := pick(g.dice, slices.Sorted(maps.Keys(g.pods))...)
	spec := g.newPod(name)
	if g.chance(30) && !g.unseen && (g.started < g.at || g.started > g.at+2*blindFor) {
		g.unseen = true
		return create{spec, true}
	}
	return create{Pod: spec}
}

// newPod makes a pod that is created now. A replacement often is like the one before.
func (g *evictionsGenerator) newPod(name string) podSpec {
	before := g.pods[name]
	spec := g.pod(name)
	spec.Created = g.at
	if before != nil && g.chance(50) {
		spec.Tolerations = before.Tolerations
	}
	if g.chance(80) {
		spec.Node = pick(g.dice, g.history.Nodes...).Name
		if g.chance(75) {
			spec.Scheduled = new(g.at)
		}
	}
	return *spec
}

// oldPod makes a pod that was there before the history begins.
func (g *evictionsGenerator) oldPod() podSpec {
	spec := g.pod("p" + strconv.Itoa(len(g.pods)+1))
	spec.Created = -g.even(10, 40)
	spec.Terminating = g.chance(8)
	if g.chance(90) || spec.Terminating {
		spec.Node = pick(g.dice, g.history.Nodes...).Name
		if g.chance(75) {
			spec.Scheduled = new(spec.Created + g.even(0, 8))
		}
	}
	return *spec
}

func (g *evictionsGenerator) pod(name string) *podSpec {
	g.uids++
	spec := &podSpec{
		UID: name, Name: name,
		Tolerations: g.tolerations(),
		Grace:       pick[int64](g.dice, 0, 0, 0, 1, 4, 10, 30),
		Phase:       corev1.PodRunning,
		Mirror:      g.chance(6),
		Held:        g.chance(6),
	}
	if before := g.pods[name]; before != nil {
		spec.UID = name + "-" + strconv.Itoa(g.uids)
	}
	if g.chance(4) {
		spec.Phase = corev1.PodSucceeded
	}
	g.pods[name] = spec
	return spec
}

func (g *evictionsGenerator) editPod() action {
	if len(g.pods) == 0 {
		return nil
	}
	pod := g.pods[pick(g.dice, slices.Sorted(maps.Keys(g.pods))...)]
	switch n := g.IntN(100); {
	case pod.Node == "" && n < 60:
		pod.Node = pick(g.dice, g.history.Nodes...).Name
		return bind{pod.UID, pod.Node, g.chance(75)}
	case n < 65:
		pod.Tolerations = g.retolerated(pod.Tolerations)
		return tolerate{pod.UID, pod.Tolerations}
	case n < 90:
		return remove{pod.UID, g.chance(30)}
	}
	return finish{pod.UID, pick(g.dice, corev1.PodSucceeded, corev1.PodFailed)}
}
