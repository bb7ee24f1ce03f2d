// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// shrink makes a history smaller while it keeps a kind of fault: it leaves out what the fault does not need, until
// nothing more can be left out.
func (g *game) shrink(t *testing.T, h *history, kind kind) *history {
	t.Helper()
	for {
		all := h.reductions()
		smaller := slices.IndexFunc(all, func(candidate *history) bool { return g.try(t, candidate).has(kind) })
		if smaller < 0 {
			return h
		}
		h = all[smaller]
	}
}

// reductions returns the histories that are one thing smaller.
func (h *history) reductions() []*history { //nolint:gocyclo // a loop for each kind of part
	var all []*history
	add := func(change func(*history)) {
		smaller := &history{Nodes: slices.Clone(h.Nodes), Pods: slices.Clone(h.Pods), Start: h.Start, Steps: slices.Clone(h.Steps)}
		change(smaller)
		if smaller.isAnchored() {
			all = append(all, smaller)
		}
	}
	for part := len(h.Steps) / 2; part > 1; part /= 2 { // halves, quarters and so on
		for from := 0; from+part <= len(h.Steps); from += part {
			add(func(s *history) { s.Steps = slices.Delete(s.Steps, from, from+part) })
		}
	}
	for i := range h.Steps {
		add(func(s *history) { s.Steps = without(s.Steps, i) })
	}
	for i := range h.Pods {
		add(func(s *history) { s.Pods = without(s.Pods, i) })
	}
	for i := range h.Nodes {
		add(func(s *history) { s.Nodes = without(s.Nodes, i) })
	}
	for i := range h.Nodes {
		for _, node := range plainerNodes(h.Nodes[i]) {
			add(func(s *history) { s.Nodes[i] = node })
		}
	}
	for i := range h.Pods {
		for _, pod := range plainerPods(h.Pods[i]) {
			add(func(s *history) { s.Pods[i] = pod })
		}
	}
	for i := range h.Steps {
		for _, do := range plainerActions(h.Steps[i].Do) {
			add(func(s *history) { s.Steps[i].Do = do })
		}
	}
	return all
}

// isAnchored reports whether each zone with kubelets has a node that counts and is always there: what upstream does with
// zones that vanish depends on the order of a Go map.
func (h *history) isAnchored() bool {
	zones := map[string]bool{}
	for _, spec := range h.nodeSpecs() {
		zones[spec.Zone] = zones[spec.Zone] || spec.Phase == 0 || h.anchors(spec)
	}
	for _, anchored := range zones {
		if !anchored {
			return false
		}
	}
	return true
}

func (h *history) anchors(spec nodeSpec) bool {
	first := slices.ContainsFunc(h.Nodes, func(n nodeSpec) bool { return n.Name == spec.Name && !n.Excluded })
	return first && !slices.ContainsFunc(h.Steps, func(s step) bool {
		remove, ok := s.Do.(removeNode)
		return ok && remove.Node == spec.Name
	})
}

func without[T any](list []T, i int) []T { return slices.Delete(slices.Clone(list), i, i+1) }

// plainerNodes returns the nodes that are one thing plainer.
func plainerNodes(node nodeSpec) (all []nodeSpec) {
	for i := range node.Taints {
		plain := node
		plain.Taints = without(node.Taints, i)
		all = append(all, plain)
	}
	for _, flag := range []func(*nodeSpec) *bool{
		func(n *nodeSpec) *bool { return &n.Absent }, func(n *nodeSpec) *bool { return &n.Mute },
		func(n *nodeSpec) *bool { return &n.Excluded }, func(n *nodeSpec) *bool { return &n.Cordoned },
	} {
		if plain := node; *flag(&plain) {
			*flag(&plain) = false
			all = append(all, plain)
		}
	}
	return all
}

// plainerPods returns the pods that are one thing plainer.
func plainerPods(pod podSpec) (all []podSpec) {
	add := func(unlike bool, change func(*podSpec)) {
		if plain := pod; unlike {
			change(&plain)
			all = append(all, plain)
		}
	}
	for i := range pod.Tolerations {
		add(true, func(p *podSpec) { p.Tolerations = without(p.Tolerations, i) })
	}
	add(pod.Grace > 0, func(p *podSpec) { p.Grace = 0 })
	add(pod.Phase != corev1.PodRunning, func(p *podSpec) { p.Phase = corev1.PodRunning })
	add(pod.Mirror, func(p *podSpec) { p.Mirror = false })
	add(pod.Terminating, func(p *podSpec) { p.Terminating = false })
	add(pod.Held, func(p *podSpec) { p.Held = false })
	return all
}

// plainerActions returns what a step can do that is one thing less.
func plainerActions(do action) (all []action) { //nolint:gocyclo // a case for each kind of action
	switch do := do.(type) {
	case create:
		if do.Unseen {
			all = append(all, create{Pod: do.Pod})
		}
		for _, pod := range plainerPods(do.Pod) {
			all = append(all, create{pod, do.Unseen})
		}
	case tolerate:
		for i := range do.Tolerations {
			all = append(all, tolerate{do.UID, without(do.Tolerations, i)})
		}
	case swap:
		all = append(all, untaint{Node: do.Node, Key: do.From}, setTaint{do.Node, noExecute(do.To, do.TimeAdded)})
	case setTaint:
		if do.Taint.TimeAdded != nil {
			do.Taint.TimeAdded = nil
			all = append(all, do)
		}
	case fall:
		for i := range do.Nodes {
			if len(do.Nodes) > 1 {
				all = append(all, fall{without(do.Nodes, i)})
			}
		}
	case restart:
		if do.Down > 0 {
			all = append(all, restart{})
		}
	}
	return all
}
