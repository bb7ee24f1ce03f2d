// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plancmd

import (
	"slices"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/page"
	"github.com/taintkeeper/taintkeeper/internal/plugin/summary"
)

// printPage prints a plan as one page, with the same words as the table.
func printPage(o *output.Printer, plan *cliv1alpha1.TaintPlan) error {
	return page.Write(o.Env.Out, page.Page{
		Plan: plan, Cluster: summary.Cluster(plan), Answer: summary.Answer(plan),
		Losses: slices.Concat(summary.Policies(plan), summary.Losses(plan)),
		Words: func(pod *cliv1alpha1.PlannedPod) page.Words {
			words := page.Words{Leaves: "stays", Toleration: tolerationOf(pod), HeldBy: output.HeldBy(plan.At.Time, pod.Answer)}
			if pod.Leaves {
				words.Leaves, words.At = output.Relative(plan.At.Time, pod.Due.Time), output.Absolute(pod.Due.Time)
			}
			if pod.DueBefore != nil {
				words.Before = output.Absolute(pod.DueBefore.Time)
			}
			return words
		},
	})
}
