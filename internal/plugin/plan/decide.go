// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// decisions are what the rule of the evictor says about a pod, without and with the plan.
type decisions struct{ before, after verdict.Verdict }

// decide returns the decisions about a pod of the node.
func (c change) decide(by state.Evictor, pod *corev1.Pod, at time.Time) decisions {
	facts := state.FactsOf(pod, at)
	before := by.Decide(facts, c.before)
	if by.IsBuiltIn() && state.SameNoExecute(c.Spec.Taints, c.edited) { // it does not look at the pod
		return decisions{before, before}
	}
	return decisions{before, by.Change(before, facts, c.after, at)}
}

// deletes says when the deletes of pods pass the rate limiter of kube-controller-manager, without and with the plan.
type deletes struct{ before, after map[*corev1.Pod]time.Time }

// deletesOf returns when pods are deleted if kube-controller-manager evicts. The due pods of all nodes wait together.
func deletesOf(
	cluster *state.Cluster, byNode map[string][]*corev1.Pod, changes []change, at time.Time,
) (all deletes) {
	if !cluster.IsBuiltIn() {
		return deletes{}
	}
	changed := map[string]change{}
	for _, change := range changes {
		changed[change.Name] = change
	}
	all = deletes{map[*corev1.Pod]time.Time{}, map[*corev1.Pod]time.Time{}}
	for _, node := range cluster.Nodes {
		on, changes := changed[node.Name]
		if !changes {
			tainted := state.Tainted(node, at)
			on = change{Node: node, edited: node.Spec.Taints, before: tainted, after: tainted}
		}
		for _, pod := range byNode[node.Name] {
			if pod.DeletionTimestamp != nil {
				continue
			}
			is := on.decide(cluster.Evictor, pod, at)
			if is.before.Leaves && !cluster.Forgot(is.before, at) {
				all.before[pod] = is.before.Due
			}
			if is.after.Leaves && !cluster.Forgot(is.after, at) {
				all.after[pod] = is.after.Due
			}
		}
	}
	wait(all.before)
	wait(all.after)
	return all
}

// wait makes pods whose evictions begin at some instants wait for each other.
func wait(pods map[*corev1.Pod]time.Time) {
	leave := make([]*corev1.Pod, 0, len(pods))
	for pod := range pods {
		leave = append(leave, pod)
	}
	slices.SortFunc(leave, func(a, b *corev1.Pod) int {
		return cmp.Or(pods[a].Compare(pods[b]), cmp.Compare(a.Spec.NodeName, b.Spec.NodeName),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	begin := make([]time.Time, 0, len(leave))
	for _, pod := range leave {
		begin = append(begin, pods[pod])
	}
	for i, at := range builtin.Deletes(begin) {
		pods[leave[i]] = at
	}
}

// of returns the decisions about a pod with the time for which it waits.
func (d deletes) of(pod *corev1.Pod, is decisions) decisions {
	if at, ok := d.before[pod]; ok {
		is.before.Due = at
	}
	if at, ok := d.after[pod]; ok {
		is.after.Due = at
	}
	return is
}

// comparison compares what kube-controller-manager does with what Taintkeeper would do.
type comparison struct {
	state.Comparison

	begun int // pods that could stay, but whose evictions have begun before the plan
}

// add adds a pod, given what the controller does, and when its eviction begins without the plan.
func (c *comparison) add(is, begins, ours verdict.Verdict, at time.Time) {
	c.Add(is, ours)
	c.begun += count(is.Leaves && !ours.Leaves && begins.DueAt(at))
}

func (c *comparison) notes() []string {
	if c.begun == 0 {
		return c.Notes()
	}
	return append([]string{fmt.Sprintf("kube-controller-manager has begun to evict %s that could stay, and deletes %s nevertheless: "+
		"removing a taint does not stop an eviction that waits in its queue.",
		sentence.Counted(c.begun, "pod"), sentence.Agree(c.begun, "it", "them"))}, c.Notes()...)
}
