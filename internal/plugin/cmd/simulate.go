// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// simulateOptions are the options of kubectl taintkeeper simulate.
type simulateOptions struct {
	source     source.Source
	output     show.Printer
	health     readiness.Options
	whereTo    bool
	startDelay time.Duration
	failOn     failOnFlag
	silent     bool
	lasts      time.Duration // how long nodes are silent
	nodes      nodeSelection // those that are

	name     string // the name of the scenario
	scenario *course.Scenario
}

// newSimulate returns the command simulate.
func newSimulate(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &simulateOptions{source: source.New(env, config), output: show.NewPrinter(env, show.HTML)}
	cmd := &cobra.Command{
		Use:   "simulate (SCENARIO | --silent (NODE... | -l SELECTOR | --all))",
		Short: "Simulate an outage: what happens, when, and what is left",
		Long: `Simulate what happens next in the cluster, without changing it. A scenario says which nodes fall silent and
come back, which taints are set and removed, and when the API server is down. The command says what happens and when:
which nodes are tainted, which pods leave, how many replicas are ready, which PodDisruptionBudgets are overrun, and
which pods find no room.

With --silent, the nodes stop renewing their Leases now and come back after --for. Then the simulation continues for the
same length of time. It says when node health taints each node NoExecute, or why it does not. For flags that the
controller has too, use the controller's values.

Otherwise, the scenario is a file, or - for stdin:

    kind: Simulation
    until: 45m
    steps:
    - {at: 0s,  silent: {selector: topology.kubernetes.io/zone=b}}
    - {at: 10m, back:   {selector: topology.kubernetes.io/zone=b}}
    - {at: 12m, taint:  {nodes: [worker-7], taints: ["kernel:NoExecute"]}}
    - {at: 20m, apiServerDown: 10m}

A step selects nodes by name (nodes) or by label (selector), or selects all of them (all: true). A trailing - removes a
taint.

Without --where-to, a pod finds room if there is at least one node whose taints it tolerates. With it, the filters and
scores of the scheduler decide, and pods that fit nowhere wait until room appears.

` + ruleOfTheEvictor + `

The exit code is 3 if something happens that --fail-on names (see plan).`,
		Example: `  # What happens if a zone goes dark for ten minutes?
  kubectl taintkeeper simulate --silent -l topology.kubernetes.io/zone=b --for 10m

  # The same from a snapshot, and where would the pods go?
  kubectl taintkeeper simulate -f cluster.json --where-to --silent -l topology.kubernetes.io/zone=b --for 10m

  # Several steps
  kubectl taintkeeper simulate examples/simulations/zone.yaml

  # In CI: fail if a workload loses its last ready replica
  kubectl taintkeeper simulate -f cluster.json --fail-on=lost-workload scenario.yaml

  # As a page for a browser, with a timeline
  kubectl taintkeeper simulate scenario.yaml -o html > outage.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd, args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddFlags(cmd)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.health.AddFlags(flags)
	flags.VisitAll(func(flag *pflag.Flag) {
		flag.Usage = "As set on the controller: " + flag.Usage + "."
		cmd.Flags().AddFlag(flag)
	})
	cmd.Flags().BoolVar(&o.whereTo, "where-to", false, "Use the scheduler's filters and scores to choose where pods go. Without it, a pod finds room if there is at least one node whose taints it tolerates.")
	cmd.Flags().DurationVar(&o.startDelay, "start-delay", course.DefaultStartDelay, "How long a pod takes to become ready after it is bound to a node.")
	o.failOn.AddFlag(cmd)
	o.nodes.AddFlags(cmd)
	cmd.Flags().BoolVar(&o.silent, "silent", false, "Simulate nodes that stop renewing their Leases, instead of a scenario.")
	cmd.Flags().DurationVar(&o.lasts, "for", defaultLasts, "With --silent, how long until the nodes come back.")
	nodes := completeNodes(&o.source)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if o.silent {
			return nodes(cmd, args, word)
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
	return cmd
}

// defaultLasts is the default of --for. Pods tolerate a silent node for five minutes by default.
const defaultLasts = 10 * time.Minute

func (o *simulateOptions) complete(cmd *cobra.Command, args []string) error {
	if err := noNamespace(o.source.Config); err != nil {
		return err
	}
	if o.startDelay < 0 {
		return command.Usagef("--start-delay=%s: it cannot be negative", o.startDelay)
	}
	if err := firstError(o.source.Validate, o.output.Validate, o.failOn.Validate, o.health.Validate); err != nil {
		return command.Usagef("%w", err)
	}
	if o.silent {
		return o.completeSilence(args)
	}
	for _, flag := range []string{"for", "selector", "all"} {
		if cmd.Flags().Changed(flag) {
			return command.Usagef("--%s requires --silent", flag)
		}
	}
	if len(args) != 1 {
		return command.Usagef("name one scenario, a file or - for stdin, or nodes with --silent: see %s --help", cmd.CommandPath())
	}
	o.name = args[0]
	text, err := readFile(o.source.Env.In, o.name)
	if err != nil {
		return fmt.Errorf("read the scenario: %w", err)
	}
	if o.scenario, err = course.Parse(text); err != nil {
		return command.Usagef("%s: %w", o.name, err)
	}
	return nil
}

// completeSilence completes the command line with --silent.
func (o *simulateOptions) completeSilence(args []string) error {
	switch {
	case o.lasts <= 0:
		return command.Usagef("--for=%s: it must be more than zero", o.lasts)
	case o.lasts > course.Longest/2:
		return command.Usagef("--for=%s is too long: at most %s can be simulated", o.lasts, course.Longest/2)
	}
	o.nodes.Complete(args)
	return o.nodes.Validate()
}

func (o *simulateOptions) run(ctx context.Context) error {
	cluster, err := o.source.Read(ctx, source.Wants{
		Policies: true, Budgets: true, Successors: true, Renewals: true, Scheduling: o.whereTo, Evictor: true,
	})
	if err != nil {
		return err
	}
	if err := o.failOn.CheckBudgets(!cluster.Knows(state.Budgets.Resource)); err != nil {
		return err
	}
	if o.silent {
		nodes, err := o.nodes.Of(cluster)
		if err != nil {
			return err
		}
		o.name = sentence.Counted(len(nodes), "silent node") + " for " + sentence.Duration(o.lasts)
		o.scenario = course.Silence(nodes, o.lasts)
	}
	report, err := course.Play(ctx, cluster, o.scenario, course.Options{
		At: o.source.Now(cluster), Grace: o.health.Grace(), Policy: o.health.Policy(),
		StartDelay: o.startDelay, WhereTo: o.whereTo,
	})
	if err != nil {
		return err
	}
	printed, err := o.output.Object(report)
	switch {
	case printed:
	case o.output.Format == show.HTML:
		err = o.printPage(report)
	default:
		printReport(&o.output, report)
	}
	if err != nil {
		return err
	}
	return o.failOn.Check(show.Found(show.SimulatedLosses(report.Summary)))
}
