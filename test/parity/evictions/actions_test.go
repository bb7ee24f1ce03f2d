// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// action makes the next step's action; nil when what was drawn is not possible now.
func (g *generator) action() action {
	g.soon = false
	if len(g.planned) > 0 && g.chance(75) {
		do := g.planned[0]
		g.planned = g.planned[1:]
		return do()
	}
	node := pick(g, g.history.Nodes...).Name
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
		return g.restart()
	case n < 78:
		return g.changeNode(node)
	}
	return g.editPod()
}

// sicken taints a node as the node-lifecycle controller does, and makes it alternate between not ready and unreachable
// for a while.
func (g *generator) sicken(node string) action {
	name := pick(g, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	first := setTaint{node, noExecute(name, g.at)}
	g.planned = nil
	for range g.between(1, 5) {
		from, to := name, otherName(name)
		g.planned = append(g.planned, func() action { return g.swap(node, from, to) })
		name = to
	}
	if g.chance(50) {
		g.planned = append(g.planned, func() action { return untaint{node, name} })
	}
	g.keys[node] = append(g.keys[node], corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	return first
}

// otherName is the other name of a node that is not ready.
func otherName(name string) string {
	if name == corev1.TaintNodeNotReady {
		return corev1.TaintNodeUnreachable
	}
	return corev1.TaintNodeNotReady
}

// swap makes one name the other: in one write or, as upstream does, in two, of which the second usually follows soon.
func (g *generator) swap(node, from, to string) action {
	if g.chance(30) {
		return swap{node, from, to, g.at}
	}
	g.soon = g.chance(80)
	g.planned = append([]func() action{func() action { return untaint{node, from} }}, g.planned...)
	return setTaint{node, noExecute(to, g.at)}
}

// template makes a controller write one taint again and again: with another value, another timeAdded, or without.
func (g *generator) template(node string) action {
	key := g.key()
	g.keys[node] = append(g.keys[node], key)
	again := func() action {
		taint := corev1.Taint{Key: key, Value: g.value(), Effect: corev1.TaintEffectNoExecute}
		if g.chance(60) {
			taint.TimeAdded = instant(g.at)
		}
		return setTaint{node, taint}
	}
	g.planned = nil
	for range g.between(1, 6) {
		g.planned = append(g.planned, again)
	}
	return again()
}

func (g *generator) editTaint(node string) action {
	if len(g.keys[node]) == 0 {
		return nil
	}
	key := pick(g, g.keys[node]...)
	switch n := g.IntN(100); {
	case n < 50:
		g.keys[node] = slices.DeleteFunc(g.keys[node], func(other string) bool { return other == key })
		return untaint{node, key}
	case n < 65:
		return changeValue{node, key, g.value()}
	}
	return retime{node, key, g.timeAdded()}
}

func (g *generator) changeNode(node string) action {
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

func (g *generator) restart() action {
	if g.at < g.started {
		return nil
	}
	down := g.even(0, 8)
	g.started = g.at + down
	return restart{down}
}

// create creates a pod that has a new name or replaces another one.
func (g *generator) create() action {
	const mostPods = 12
	if g.uids >= mostPods {
		return nil
	}
	if len(g.pods) == 0 || g.chance(60) {
		return create{g.newPod("p" + strconv.Itoa(len(g.pods)+1))}
	}
	name := pick(g, slices.Sorted(maps.Keys(g.pods))...)
	spec := g.newPod(name)
	if g.chance(30) && !g.unseen && (g.started < g.at || g.started > g.at+2*blindFor) {
		g.unseen = true
		return createUnseen{spec}
	}
	return create{spec}
}

// newPod makes a pod that is created now. A replacement often is like the one before.
func (g *generator) newPod(name string) podSpec {
	before := g.pods[name]
	spec := g.pod(name)
	spec.Created = g.at
	if before != nil && g.chance(50) {
		spec.Tolerations = before.Tolerations
	}
	if g.chance(80) {
		spec.Node = pick(g, g.history.Nodes...).Name
		if g.chance(75) {
			spec.Scheduled = new(g.at)
		}
	}
	return *spec
}

// oldPod makes a pod that was there before the history begins.
func (g *generator) oldPod() podSpec {
	spec := g.pod("p" + strconv.Itoa(len(g.pods)+1))
	spec.Created = -g.even(10, 40)
	spec.Terminating = g.chance(8)
	if g.chance(90) || spec.Terminating {
		spec.Node = pick(g, g.history.Nodes...).Name
		if g.chance(75) {
			spec.Scheduled = new(spec.Created + g.even(0, 8))
		}
	}
	return *spec
}

func (g *generator) pod(name string) *podSpec {
	g.uids++
	spec := &podSpec{
		UID: name, Name: name,
		Tolerations: g.tolerations(),
		Grace:       pick[int64](g, 0, 0, 0, 1, 4, 10, 30),
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

func (g *generator) editPod() action {
	if len(g.pods) == 0 {
		return nil
	}
	pod := g.pods[pick(g, slices.Sorted(maps.Keys(g.pods))...)]
	switch n := g.IntN(100); {
	case pod.Node == "" && n < 60:
		pod.Node = pick(g, g.history.Nodes...).Name
		return bind{pod.UID, pod.Node, g.chance(75)}
	case n < 65:
		pod.Tolerations = g.retolerated(pod.Tolerations)
		return tolerate{pod.UID, pod.Tolerations}
	case n < 90:
		return remove{pod.UID, g.chance(30)}
	}
	return finish{pod.UID, pick(g, corev1.PodSucceeded, corev1.PodFailed)}
}
