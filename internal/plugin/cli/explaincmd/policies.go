// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explaincmd

import (
	"fmt"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// objection is the line of the answer that says what EvictionPolicies do about a pod that is due.
func (e *explainer) objection() []string {
	if e.Answer == nil || e.Answer.Says == cliv1alpha1.PolicyFree {
		return nil
	}
	switch leaves := e.Answer.LeavesAt; {
	case e.Answer.Says == cliv1alpha1.PolicyAsk:
		return []string{e.Answer.Message + "."}
	case leaves == nil:
		return []string{e.Answer.Message + ". It stays until that changes."}
	default:
		return []string{fmt.Sprintf("%s. If nothing else changes, EvictionPolicy %s is the last to let it go, %s, at %s.", e.Answer.Message,
			e.Answer.LastPolicy, output.When(e.At.Time, leaves.Time), output.Absolute(leaves.Time))}
	}
}

func (e *explainer) printPolicies() error {
	if len(e.Policies) == 0 {
		return nil
	}
	e.section("The EvictionPolicies:")
	rows := make([][]any, 0, len(e.Policies))
	for i := range e.Policies {
		p := &e.Policies[i]
		rows = append(rows, []any{p.Name, selects(p), e.says(p), e.letsGo(p), p.Pace})
	}
	return e.Table([]string{"Policy", "Selects it", "Says when due", "Lets it go", "Pace"}, rows)
}

func selects(p *cliv1alpha1.ExplainedPolicy) string {
	if p.Selects {
		return "yes"
	}
	return "no: " + p.Mismatch
}

func (e *explainer) says(p *cliv1alpha1.ExplainedPolicy) string {
	switch {
	case p.DryRun && p.Selects:
		return "Free: it is a dry run"
	case p.Answer != nil && p.Answer.Reason != "":
		return fmt.Sprintf("%s: %s", p.Answer.Says, p.Answer.Reason)
	case p.Answer != nil:
		return string(p.Answer.Says)
	case p.Selects && e.Leaves:
		return "nothing about these taints"
	}
	return ""
}

// letsGo says when a policy lets the pod go, as far as time alone decides.
func (e *explainer) letsGo(p *cliv1alpha1.ExplainedPolicy) string {
	switch {
	case p.Answer == nil:
		return ""
	case p.Answer.Says == cliv1alpha1.PolicyAsk:
		return "asks at once"
	case p.Answer.LastPolicy == "":
		return "at once"
	case p.Answer.Reason == string(policy.Paced):
		return "at its pace"
	case p.Answer.LeavesAt == nil:
		return "not by itself"
	}
	return output.When(e.At.Time, p.Answer.LeavesAt.Time)
}
