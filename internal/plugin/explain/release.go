// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"time"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// release adds to a policy that keeps the pod what makes it release the pod, as a sentence without a full stop, and the
// command for it, if one command can do it. It adds nothing if the policy releases the pod soon anyway.
func (s *Subject) release(
	explained *cliv1alpha1.ExplainedPolicy, p *policy.Policy, first policy.Answer, due time.Time,
) {
	say := func(what, command string) { explained.Release, explained.ReleaseCommand = what, command }
	switch first.Why {
	case policy.Paused:
		if s.Policies.IsPause(p) {
			say("End the pause "+p.Name, "kubectl taintkeeper resume "+p.Name)
			return
		}
		if p.HoldsWithoutEnd() {
			say("Remove spec.paused from EvictionPolicy "+p.Name+" and set its spec.deadline, because Hold without a deadline keeps pods indefinitely", "")
			return
		}
		say("Remove spec.paused from EvictionPolicy "+p.Name, "kubectl taintkeeper resume "+p.Name)
	case policy.BreakerOpen:
		let := "Let"
		if due.After(s.At) {
			let = "Once the pod is due, let"
		}
		say(let+" EvictionPolicy "+p.Name+" release the pods that are due", "kubectl taintkeeper resume "+p.Name)
	case policy.Held:
		verb := "Set"
		if !first.Until.IsZero() {
			verb = "Shorten"
		}
		say(fmt.Sprintf("%s spec.deadline of EvictionPolicy %s, or change its selectors so that they do not match the pod", verb, p.Name), "")
	case policy.Finished:
		say("Delete the pod", fmt.Sprintf("kubectl delete pod %s -n %s", s.Pod.Name, s.Pod.Namespace))
	case policy.NotPermitted:
		say("Allow Taintkeeper's ServiceAccount to create pods/eviction", "")
	case policy.SeveralBudgets:
		say("Delete all but one of the PodDisruptionBudgets "+first.Detail, "")
	case policy.Budget:
		say("Raise what PodDisruptionBudget "+first.Detail+" allows, or start more of its pods", "")
	}
}
