// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulatecmd

import (
	"slices"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/page"
)

// printPage prints a report as one page, with the same words as the text.
func (o *options) printPage(report *cliv1alpha1.SimulationReport) error {
	lines := answer(report)
	name := o.name
	if name == "-" {
		name = "stdin"
	}
	return page.WriteSimulation(o.output.Env.Out, page.Simulation{
		Report: report, Cluster: clusterOf(report), Scenario: name, Steps: o.scenario.String(),
		Answer: lines[0], Losses: slices.Concat(lines[1:], reasons(report)),
	})
}
