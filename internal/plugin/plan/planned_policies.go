// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// tellPolicies adds to a plan what the EvictionPolicies do with the pods that leave.
func tellPolicies(plan *cliv1alpha1.TaintPlan, outcome *course.Outcome) {
	set := outcome.Policies
	plan.Notes = append(plan.Notes, set.Flaws...)
	planned := map[string]*cliv1alpha1.PlannedPolicy{}
	for _, p := range set.All {
		trip := outcome.Trips[p.Name]
		planned[p.Name] = &cliv1alpha1.PlannedPolicy{
			Name: p.Name, Pace: policies.PaceOf(p), TripsAt: policies.MicroTime(trip.At), Trips: trip.Why,
		}
	}
	resumed := resume{before: set, after: set.Resumed(), at: plan.At.Time}
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		if is := outcome.Pods[pod.UID]; is != nil {
			pod.Answer = policies.AnswerOf(is.Course)
			tally(planned, is, pod.Answer)
			resumed.add(is.Candidate, is.Course)
		}
	}
	plan.Resumed = resumed.planned()
	for _, p := range set.All {
		if is := planned[p.Name]; is.Pods > 0 || is.Trips != "" {
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

// tally counts a pod that leaves for the policies that select it, and for the one that answers when it is due.
func tally(
	planned map[string]*cliv1alpha1.PlannedPolicy, pod *course.Selected, answer *cliv1alpha1.PolicyAnswer,
) {
	for _, p := range pod.By {
		if _, applies := p.Due(pod.Causes); !applies {
			continue
		}
		is := planned[p.Name]
		is.Pods++
		if p.Pace() != nil && !p.DryRun && (is.LastAt == nil || is.LastAt.Time.Before(pod.Leaves)) {
			is.LastAt = policies.MicroTime(pod.Leaves)
		}
	}
	of := planned[pod.First.Policy]
	switch {
	case of == nil:
	case pod.First.Step == policy.Ask, pod.Asks && (pod.First.Why == policy.Paced || asksBudget(answer)): // maybe later
		of.Asked++
	case pod.First.Why != policy.Paced:
		of.Held += count(pod.First.Stays())
	}
}
