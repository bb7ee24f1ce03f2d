// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// reductions returns the histories that are one thing smaller.
func reductions(h *history) []*history {
	var all []*history
	add := func(change func(*history)) {
		smaller := &history{Nodes: slices.Clone(h.Nodes), Start: h.Start, Steps: slices.Clone(h.Steps)}
		change(smaller)
		if smaller.anchored() {
			all = append(all, smaller)
		}
	}
	for _, steps := range arena.Fewer(h.Steps) {
		add(func(s *history) { s.Steps = steps })
	}
	for i := range h.Nodes {
		add(func(s *history) { s.Nodes = slices.Delete(s.Nodes, i, i+1) })
	}
	for i := range h.Nodes {
		for _, flag := range []func(*nodeSpec) *bool{
			func(n *nodeSpec) *bool { return &n.Absent }, func(n *nodeSpec) *bool { return &n.Mute },
			func(n *nodeSpec) *bool { return &n.Excluded }, func(n *nodeSpec) *bool { return &n.Cordoned },
		} {
			if *flag(&h.Nodes[i]) {
				add(func(s *history) { *flag(&s.Nodes[i]) = false })
			}
		}
	}
	for i := range h.Steps {
		for _, do := range smallerActions(h.Steps[i].Do) {
			add(func(s *history) { s.Steps[i].Do = do })
		}
	}
	return all
}

// smallerActions returns what a step can do that is one thing less.
func smallerActions(do action) (all []action) {
	switch do := do.(type) {
	case fall:
		for j := range do.Nodes {
			if len(do.Nodes) > 1 {
				all = append(all, fall{slices.Delete(slices.Clone(do.Nodes), j, j+1)})
			}
		}
	case restart:
		if do.Down > 0 {
			all = append(all, restart{})
		}
	}
	return all
}

// anchored reports whether each zone has a node that counts and is always there.
func (h *history) anchored() bool {
	zones := map[string]bool{}
	for _, spec := range h.specs() {
		zones[spec.Zone] = zones[spec.Zone] || h.anchors(spec)
	}
	for _, anchored := range zones {
		if !anchored {
			return false
		}
	}
	return len(zones) > 0
}

func (h *history) anchors(spec nodeSpec) bool {
	first := slices.ContainsFunc(h.Nodes, func(n nodeSpec) bool { return n.Name == spec.Name && !n.Excluded })
	return first && !slices.ContainsFunc(h.Steps, func(s step) bool {
		remove, ok := s.Do.(removeNode)
		return ok && remove.Node == spec.Name
	})
}
