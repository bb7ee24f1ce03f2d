// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/page"
)

// formatHTML is the plan as a page.
const formatHTML = "html"

// printPage prints a plan as one page, in the words of the table.
func printPage(o *output, plan *cliv1alpha1.TaintPlan) error {
	return page.Write(o.env.Out, page.Page{
		Plan: plan, Answer: answer(plan), Losses: slices.Concat(silenceLines(plan), losses(plan)),
		Words: func(pod *cliv1alpha1.PlannedPod) page.Words {
			words := page.Words{Leaves: "stays", Toleration: tolerationOf(pod)}
			if pod.Leaves {
				words.Leaves, words.At = relative(plan.At.Time, pod.Due.Time), absolute(pod.Due.Time)
			}
			if pod.DueBefore != nil {
				words.Before = absolute(pod.DueBefore.Time)
			}
			return words
		},
	})
}
