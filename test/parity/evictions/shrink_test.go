// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// reductions returns the histories that are one thing smaller.
func reductions(h *history) []*history {
	var all []*history
	add := func(change func(*history)) {
		smaller := &history{Nodes: slices.Clone(h.Nodes), Pods: slices.Clone(h.Pods), Start: h.Start, Steps: slices.Clone(h.Steps)}
		change(smaller)
		all = append(all, smaller)
	}
	for _, steps := range arena.Fewer(h.Steps) {
		add(func(s *history) { s.Steps = steps })
	}
	for i := range h.Pods {
		add(func(s *history) { s.Pods = slices.Delete(s.Pods, i, i+1) })
	}
	for i := range h.Nodes {
		add(func(s *history) { s.Nodes = slices.Delete(s.Nodes, i, i+1) })
		for j := range h.Nodes[i].Taints {
			add(func(s *history) { s.Nodes[i].Taints = without(s.Nodes[i].Taints, j) })
		}
	}
	for i := range h.Pods {
		for _, pod := range plainer(h.Pods[i]) {
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

func without[T any](list []T, i int) []T { return slices.Delete(slices.Clone(list), i, i+1) }

// plainer returns the pods that are one thing plainer.
func plainer(pod podSpec) []podSpec {
	var all []podSpec
	add := func(change func(*podSpec)) {
		plain := pod
		change(&plain)
		all = append(all, plain)
	}
	for i := range pod.Tolerations {
		add(func(p *podSpec) { p.Tolerations = without(p.Tolerations, i) })
	}
	if pod.Grace > 0 {
		add(func(p *podSpec) { p.Grace = 0 })
	}
	if pod.Phase != corev1.PodRunning {
		add(func(p *podSpec) { p.Phase = corev1.PodRunning })
	}
	for _, flag := range []func(*podSpec) *bool{
		func(p *podSpec) *bool { return &p.Mirror },
		func(p *podSpec) *bool { return &p.Terminating },
		func(p *podSpec) *bool { return &p.Held },
	} {
		if *flag(&pod) {
			add(func(p *podSpec) { *flag(p) = false })
		}
	}
	return all
}

func plainerActions(do action) []action {
	var all []action
	switch do := do.(type) {
	case create:
		for _, pod := range plainer(do.Pod) {
			all = append(all, create{pod})
		}
	case createUnseen:
		all = append(all, create(do))
		for _, pod := range plainer(do.Pod) {
			all = append(all, createUnseen{pod})
		}
	case tolerate:
		for i := range do.Tolerations {
			all = append(all, tolerate{do.UID, without(do.Tolerations, i)})
		}
	case swap:
		all = append(all, untaint{do.Node, do.From}, setTaint{do.Node, noExecute(do.To, do.TimeAdded)})
	case setTaint:
		if do.Taint.TimeAdded != nil {
			do.Taint.TimeAdded = nil
			all = append(all, do)
		}
	case restart:
		if do.Down > 0 {
			all = append(all, restart{})
		}
	}
	return all
}
