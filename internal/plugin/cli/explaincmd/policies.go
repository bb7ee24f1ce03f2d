// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explaincmd

import (
	"fmt"
	"slices"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// objection says which EvictionPolicies keep a pod that is due, until when, and how to let it go.
func (e *explainer) objection() []string {
	switch {
	case e.Answer == nil || e.Answer.Says == cliv1alpha1.PolicyFree:
		return nil
	case e.Answer.Says == cliv1alpha1.PolicyAsk:
		return []string{e.Answer.Message + "."}
	}
	var lines, keep, release []string
	for i := range e.Policies {
		p := &e.Policies[i]
		if !p.Answer.Stays() {
			continue
		}
		lines, keep = append(lines, p.Answer.Message+"."), append(keep, p.Name)
		if p.Release != "" {
			release = append(release, "- "+p.Release+".")
		}
		if p.ReleaseCommand != "" {
			release = append(release, "    "+p.ReleaseCommand)
		}
	}
	if len(keep) == 0 { // each policy keeps the pod because of a different taint
		lines, keep = []string{e.Answer.Message + "."}, []string{e.Answer.Policy}
	}
	lines = append(lines, e.until(keep))
	if len(release) > 0 {
		lines = append(append(lines, "To let it go sooner:"), release...)
	}
	return lines
}

// until says how long policies keep the pod.
func (e *explainer) until(keep []string) string {
	leaves := e.Answer.LeavesAt
	switch {
	case leaves != nil:
		return fmt.Sprintf("If nothing else changes, it stays until EvictionPolicy %s lets it go, %s, at %s.",
			e.Answer.LastPolicy, output.When(e.At.Time, leaves.Time), output.Absolute(leaves.Time))
	case len(keep) == 1:
		return fmt.Sprintf("It stays until EvictionPolicy %s lets it go.", keep[0])
	}
	return fmt.Sprintf("It stays until all of these EvictionPolicies let it go: %s.", sentence.Enumerate(keep))
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
	return e.TableWithReasons([]string{"Policy", "Selects it", "Says when due", "Lets it go", "Pace"}, rows)
}

func selects(p *cliv1alpha1.ExplainedPolicy) string {
	if p.Selects {
		return "yes"
	}
	return "no: " + p.Mismatch
}

// says is what one policy says about the pod: "waits" if its objection ends by itself, and "holds" if not.
func (e *explainer) says(p *cliv1alpha1.ExplainedPolicy) string {
	switch {
	case p.DryRun && p.Selects:
		return "lets it go: it is a dry run"
	case p.Answer == nil && p.Selects && e.Leaves:
		return "nothing about these taints"
	case p.Answer == nil:
		return ""
	case p.Answer.Says == cliv1alpha1.PolicyFree:
		return "lets it go"
	case p.Answer.Says == cliv1alpha1.PolicyAsk:
		return "asks the Eviction API"
	case p.Answer.Says == cliv1alpha1.PolicyWait, slices.Contains(waiting, policy.Why(p.Answer.Reason)):
		return "waits: " + p.Answer.Reason
	}
	return "holds: " + p.Answer.Reason
}

// waiting are the reasons that end when other pods have started or left.
var waiting = []policy.Why{policy.Budget, policy.BudgetBusy, policy.Paced, policy.Settling}

// letsGo says when a policy releases the pod if nothing but the time changes.
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
