// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// selected is a pod of the cluster that policies select.
type selected struct {
	policies.Candidate // without causes if it stays

	node     *corev1.Node
	unwanted bool // its DaemonSet deletes it
}

// askPolicies adds to a plan what the EvictionPolicies do with the pods that leave. Breakers count the pods of all
// nodes.
func askPolicies(plan *cliv1alpha1.TaintPlan, cluster *state.Cluster, changes []change) {
	set := cluster.PoliciesOf()
	if set == nil {
		return
	}
	plan.Notes = append(plan.Notes, set.Flaws...)
	all := selectedPods(set, cluster, changes, plan.At.Time)
	planned := map[string]*cliv1alpha1.PlannedPolicy{}
	for _, p := range set.All {
		planned[p.Name] = &cliv1alpha1.PlannedPolicy{Name: p.Name, Pace: policies.PaceOf(p)}
		at, why := trip(set, p, all, plan.At.Time)
		planned[p.Name].TripsAt, planned[p.Name].Trips = policies.MicroTime(at), why
	}
	starts := map[*policy.Policy]map[string][]time.Time{} // when pods start to leave, by scope
	resumed := resume{before: set, after: set.Resumed(), at: plan.At.Time}
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		is := all[pod.UID]
		if is == nil || !pod.Leaves || is.unwanted {
			continue
		}
		course := set.Course(is.By, is.Pod, is.Node, is.Causes, plan.At.Time)
		pod.Answer = policies.AnswerOf(course)
		tally(planned, is, course.First)
		note(starts, is, course.Leaves)
		resumed.add(is.Candidate, course)
	}
	plan.Resumed = resumed.planned()
	for _, p := range set.All {
		is := planned[p.Name]
		if p.Pace() != nil && !p.DryRun {
			is.LastAt = policies.MicroTime(lastAtPace(p.Pace(), starts[p]))
		}
		if is.Pods > 0 || is.Trips != "" {
			plan.Policies = append(plan.Policies, *is)
		}
	}
}

// resume is what happens to halted pods if all pauses and open breakers end.
type resume struct {
	before, after *policies.Set
	at            time.Time
	halted        int
	release       policies.Release
}

// add adds a pod, if a pause or an open breaker keeps it.
func (r *resume) add(pod policies.Candidate, course policies.Course) {
	if course.Halted() {
		r.halted++
		r.release.Add(r.before.AfterHalts(r.after, pod, r.at), r.at)
	}
}

// planned returns what a plan says about that. It is nil if no pod is halted.
func (r *resume) planned() *cliv1alpha1.PlannedResume {
	if r.halted == 0 {
		return nil
	}
	return &cliv1alpha1.PlannedResume{
		Pods: r.halted, Leave: r.release.Leave, Asked: r.release.Asked, Late: r.release.Late,
		LateFrom: metav1.Duration{Duration: r.release.First}, LateTo: metav1.Duration{Duration: r.release.Last},
	}
}

// selectedPods returns the pods that policies select, by UID, as they are after the changes.
func selectedPods(
	set *policies.Set, cluster *state.Cluster, changes []change, at time.Time,
) map[types.UID]*selected {
	nodes, changed, all := map[string]*corev1.Node{}, map[string]change{}, map[types.UID]*selected{}
	for _, node := range cluster.Nodes {
		nodes[node.Name] = node
	}
	for _, change := range changes {
		changed[change.Name] = change
	}
	for _, pod := range cluster.Pods {
		node := nodes[pod.Spec.NodeName]
		if node == nil || pod.DeletionTimestamp != nil {
			continue
		}
		change, changes := changed[node.Name]
		is := &selected{Candidate: policies.Candidate{Pod: policies.PodOf(pod), Node: policies.NodeOf(node)}, node: node}
		is.By = set.Selecting(is.Pod, is.Node)
		if len(is.By) == 0 {
			continue
		}
		if all[pod.UID] = is; state.IsStatic(pod) {
			continue
		}
		facts := state.FactsOf(pod, at)
		if changes {
			is.Causes = policy.CausesOf(state.Rule, facts, change.after)
		} else {
			is.Causes = policy.CausesOf(state.Rule, facts, state.Tainted(node, at))
		}
		is.unwanted = state.Unwanted(pod, is.Causes)
	}
	return all
}

// trip returns when the breaker of a policy opens, and why.
func trip(set *policies.Set, p *policy.Policy, all map[types.UID]*selected, now time.Time) (time.Time, string) {
	if p.DryRun {
		return time.Time{}, ""
	}
	var selected []policies.Candidate
	for _, pod := range all {
		if slices.Contains(pod.By, p) {
			selected = append(selected, pod.Candidate)
		}
	}
	return set.Trip(p, selected, now)
}

// tally counts a pod that leaves for the policies that select it, according to the answer when it is due.
func tally(planned map[string]*cliv1alpha1.PlannedPolicy, pod *selected, answer policy.Answer) {
	for _, p := range pod.By {
		_, applies := p.Due(pod.Causes)
		planned[p.Name].Pods += count(applies)
	}
	if of := planned[answer.Policy]; of != nil {
		of.Held += count(answer.Stays())
		of.Asked += count(answer.Step == policy.Ask)
	}
}

// note records when a pod starts to leave if nothing but the time changes, for the paces that count it.
func note(starts map[*policy.Policy]map[string][]time.Time, pod *selected, leaves time.Time) {
	if leaves.IsZero() {
		return
	}
	for _, p := range pod.By {
		if _, applies := p.Due(pod.Causes); p.Pace() == nil || !applies {
			continue
		}
		scope := p.Pace().In(pod.node.Name, pod.node.Labels[corev1.LabelTopologyZone])
		if starts[p] == nil {
			starts[p] = map[string][]time.Time{}
		}
		starts[p][scope] = append(starts[p][scope], leaves)
	}
}

// lastAtPace returns when the last pod starts to leave at a pace, if the windows are empty at first. It is zero without
// pods.
func lastAtPace(pace *policy.Pace, starts map[string][]time.Time) (last time.Time) {
	for _, times := range starts {
		slices.SortFunc(times, time.Time.Compare)
		for i := range times {
			if i >= pace.Pods {
				if room := times[i-pace.Pods].Add(pace.Per); room.After(times[i]) {
					times[i] = room
				}
			}
			if times[i].After(last) {
				last = times[i]
			}
		}
	}
	return last
}
