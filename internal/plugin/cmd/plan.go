// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// planOptions are the options of kubectl taintkeeper plan.
type planOptions struct {
	source    source.Source
	output    show.Printer
	nodes     nodeSelection
	overwrite bool
	whereTo   bool
	failOn    failOnFlag

	edit taints.Edit
}

// newPlan returns the command plan.
func newPlan(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &planOptions{source: source.New(env, config), output: show.NewPrinter(env, show.HTML)}
	cmd := &cobra.Command{
		Use:   "plan (NODE... | -l SELECTOR | --all) TAINT...",
		Short: "Say what taints would do: which pods leave, when and why",
		Long: `Say what taints would do, without setting them: which pods leave, when and why, what that means for their
workloads and PodDisruptionBudgets, and which nodes are emptied. If there are EvictionPolicies, it says which pods
they hold and until when, which pods need the Eviction API, which breakers would trip, and how long the evictions take
if a policy sets a pace.

A workload loses every replica if none is ready at some instant. A successor is ready 5s after the old pod has left, so
replicas that leave one after the other are not lost together.

With more than 30 rows, pods of one workload that leave together share a row; -o wide has a row for each pod and more
columns.

With --where-to, it also says which nodes would take the pods that leave, by the scheduler's own filters and scores, one
by one, after those that are already waiting for a node. If scores are equal, the scheduler chooses at random.

` + ruleOfTheEvictor + `

` + taintSyntax + `

--fail-on is for scripts: the exit code is 3 if a pod leaves that no controller replaces (lost-pod), a workload has no
ready replica for some time (lost-workload), more pods leave together than a PodDisruptionBudget allows (budget), or a
pod may fit no node (nowhere).`,
		Example: `  # Which pods would leave if node worker-1 got this taint?
  kubectl taintkeeper plan worker-1 maintenance=now:NoExecute

  # And where would the pods go?
  kubectl taintkeeper plan worker-1 maintenance=now:NoExecute --where-to

  # The same for a whole zone, without a cluster
  kubectl taintkeeper plan -f cluster.json -l topology.kubernetes.io/zone=a maintenance=now:NoExecute

  # In a script: fail if a budget would be overrun, or a workload lost
  kubectl taintkeeper plan worker-1 maintenance=now:NoExecute --fail-on=lost-workload,budget

  # As a page for a browser, with a timeline
  kubectl taintkeeper plan worker-1 maintenance=now:NoExecute -o html > plan.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddFlags(cmd)
	o.nodes.AddFlags(cmd)
	cmd.ValidArgsFunction = completeTaints(&o.source)
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Replace taints with the same key and effect, as kubectl taint --overwrite does.")
	cmd.Flags().BoolVar(&o.whereTo, "where-to", false, "Say which nodes would take the pods that leave.")
	o.failOn.AddFlag(cmd)
	return cmd
}

func (o *planOptions) complete(args []string) error {
	nodes, specs, err := splitTaints(args)
	if err != nil {
		return err
	}
	o.nodes.Complete(nodes)
	o.edit, err = o.nodes.EditOf(specs)
	return err
}

func (o *planOptions) validate() error {
	if err := noNamespace(o.source.Config); err != nil {
		return err
	}
	if o.whereTo && o.output.Format == show.Name {
		return command.Usagef("--where-to cannot be printed as names: remove it, or choose another --output")
	}
	if o.failOn.Asks(command.Nowhere) && !o.whereTo {
		return command.Usagef("--fail-on=%s requires --where-to", command.Nowhere)
	}
	return firstError(o.nodes.Validate, o.source.Validate, o.output.Validate, o.failOn.Validate)
}

func (o *planOptions) run(ctx context.Context) error {
	cluster, err := o.source.Read(ctx, source.Wants{
		Policies: true, Budgets: true, Successors: true, Scheduling: o.whereTo, Evictor: true,
	})
	if err != nil {
		return err
	}
	if err := o.failOn.CheckBudgets(!cluster.Knows(state.Budgets.Resource)); err != nil {
		return err
	}
	nodes, err := o.nodes.Of(cluster)
	if err != nil {
		return err
	}
	request := plan.Request{Nodes: nodes, Edit: o.edit, At: o.source.Now(cluster), WhereTo: o.whereTo}
	if o.overwrite {
		request.Overwrite = taints.OverwriteExisting
	}
	made, err := plan.Make(ctx, cluster, request)
	if err != nil {
		return err
	}
	printed, err := o.output.Object(made)
	switch {
	case printed:
	case o.output.Format == show.HTML:
		err = printPage(&o.output, made)
	default:
		printPlan(&o.output, made)
	}
	if err != nil {
		return err
	}
	return o.failOn.Check(show.Found(show.LossesOf(made)))
}
