// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package taintcmd is kubectl taintkeeper taint and untaint, the commands that change a cluster: they show the plan,
// ask for confirmation, change the nodes, and wait if requested.
//
//	taint, run   the flags, and one run from the first read to the end
//	apply        changing nodes
//	wait         --wait, and obstacles: what keeps pods after --timeout
package taintcmd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/completion"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/selection"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// options are the options of kubectl taintkeeper taint and untaint.
type options struct {
	env    command.Env
	config *genericclioptions.ConfigFlags
	output output.Printer
	nodes  selection.Nodes

	overwrite bool
	dryRun    command.DryRun
	yes       bool
	// asks is true if stdin is a terminal, so the command can ask for confirmation.
	asks bool

	wait    bool
	timeout time.Duration // of --wait; 0 means no limit

	connect source.Dialer

	edit taints.Edit
	// ambiguous are arguments of untaint that may be nodes or keys. Only the cluster can tell.
	ambiguous []string
}

func newOptions(env command.Env, config *genericclioptions.ConfigFlags) *options {
	return &options{
		env: env, config: config, output: output.NewPrinter(env), asks: output.IsTerminal(env.In), connect: source.Dial,
	}
}

const taintOutput = `

The plan and the question go to stderr. Stdout gets what kubectl taint prints: a line for each node, or with -o json and
-o yaml the changed nodes. -o wide adds their taints before and after.

If a node cannot be changed, the command names it and changes the others. In that case, the exit code is 1.`

// NewTaint returns the command taint.
func NewTaint(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	return newOptions(env, config).taintCommand()
}

func (o *options) taintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "taint (NODE... | -l SELECTOR | --all) TAINT...",
		Short: "Taint nodes, with a preview and a confirmation",
		Long: `Change the taints of nodes as kubectl taint does, but first say which pods leave, and ask for confirmation.
A change that would trip the breaker of an EvictionPolicy requires --yes.

` + selection.TaintSyntax + `
The command sets timeAdded on NoExecute taints, because tolerationSeconds count from it. If someone else changes a node
meanwhile, the command reads it again, and makes a new plan if its taints have changed.

Taint-based evictions ignore PodDisruptionBudgets, unless an EvictionPolicy with the action Evict selects the pods. A
policy with a pace makes pods leave a few at a time. Without policies, use kubectl drain before you taint.` +
			taintOutput,
		Example: `  # Taint a node, keep new pods off, and wait until all pods that must leave have left
  kubectl taintkeeper taint worker-1 maintenance=now:NoExecute maintenance=now:NoSchedule --wait --timeout 10m

  # Taint a zone
  kubectl taintkeeper taint -l topology.kubernetes.io/zone=a drill:NoExecute

  # How would the API server answer?
  kubectl taintkeeper taint worker-1 maintenance=now:NoExecute --dry-run=server -o yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.execute(cmd.Context(), o.completeTaint, args) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Replace taints with the same key and effect, as kubectl taint --overwrite does.")
	cmd.ValidArgsFunction = completion.Taints(&source.Source{Env: o.env, Config: o.config})
	return cmd
}

// NewUntaint returns the command untaint.
func NewUntaint(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	return newOptions(env, config).untaintCommand()
}

func (o *options) untaintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "untaint (NODE... | -l SELECTOR | --all) KEY[:Effect]...",
		Short: "Remove taints from nodes, with a preview and a confirmation",
		Long: `Remove taints from nodes as kubectl taint does, but first say which pods then stay and which leave anyway, and ask for
confirmation.

KEY removes the taints with that key, whatever their effect. KEY:Effect removes one of them. A trailing "-", which
kubectl taint requires, is optional. A node without the taint is an error, as in kubectl taint, even with --all.` +
			taintOutput,
		Example: `  # Remove all taints with this key
  kubectl taintkeeper untaint worker-1 maintenance

  # On all nodes, only one effect
  kubectl taintkeeper untaint --all maintenance:NoSchedule --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.execute(cmd.Context(), o.completeUntaint, args)
		},
	}
	o.addFlags(cmd)
	cmd.ValidArgsFunction = completion.Removals(&source.Source{Env: o.env, Config: o.config})
	return cmd
}

func (o *options) addFlags(cmd *cobra.Command) {
	command.NoFiles(cmd, cmd.Name()+" changes the nodes of a cluster: to see what it would do to the nodes in files, use plan")
	o.output.AddFlags(cmd)
	o.nodes.AddFlags(cmd)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation.")
	o.dryRun.AddFlag(cmd)
	cmd.Flags().BoolVar(&o.wait, "wait", false, "Wait until all pods that must leave have left, including those that may stay for a while.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "The longest time to wait. After that, this command says why each pod is still there. 0 means no limit.")
}

func (o *options) execute(ctx context.Context, complete func([]string) error, args []string) error {
	if err := complete(args); err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	return o.run(ctx)
}

func (o *options) completeTaint(args []string) error {
	nodes, specs, err := selection.SplitTaints(args)
	if err != nil {
		return err
	}
	o.nodes.Complete(nodes)
	o.edit, err = o.nodes.EditOf(specs)
	return err
}

// completeUntaint treats arguments that cannot be nodes as keys. If a word can be both, the cluster decides: see
// resolve.
func (o *options) completeUntaint(args []string) error {
	first := slices.IndexFunc(args, selection.LooksLikeTaint)
	if first < 0 {
		first = len(args)
	}
	words := o.nodes.WithoutWord(args[:first])
	if !o.nodes.All && o.nodes.Selector == "" && len(words) > 0 {
		o.nodes.Complete(words[:1])
		o.ambiguous, words = words[1:], nil
	}
	if len(words)+len(o.ambiguous)+len(args[first:]) == 0 {
		return command.Usagef("no taint is given: name at least one after the nodes, as key or key:Effect")
	}
	return o.remove(slices.Concat(words, args[first:]))
}

// remove adds removals to the edit.
func (o *options) remove(keys []string) error {
	for _, key := range keys {
		removal, err := taints.ParseRemoval(strings.TrimSuffix(key, "-") + "-")
		if err != nil {
			return command.Usagef("%w", err)
		}
		o.edit.Remove = append(o.edit.Remove, removal)
	}
	return nil
}

// resolve splits the ambiguous arguments into nodes and keys. The first that is not the name of a node begins the keys.
func (o *options) resolve(cluster *state.Cluster) error {
	first := slices.IndexFunc(o.ambiguous, func(word string) bool { return cluster.Node(word) == nil })
	if first < 0 {
		first = len(o.ambiguous)
	}
	o.nodes.Complete(o.ambiguous[:first])
	behind := o.edit.Remove
	o.edit.Remove = nil
	if err := o.remove(o.ambiguous[first:]); err != nil {
		return err
	}
	o.ambiguous, o.edit.Remove = nil, append(o.edit.Remove, behind...)
	if len(o.edit.Remove)+len(o.edit.Add) == 0 {
		return command.Usagef("no taint is given: %s are nodes; name at least one key after them", strings.Join(o.nodes.Names, ", "))
	}
	return nil
}

func (o *options) validate() error {
	if err := command.NoNamespace(o.config); err != nil {
		return err
	}
	for _, check := range []func() error{
		o.nodes.Validate, o.output.Validate, o.validateDryRun, o.validateWait, o.validateQuestion,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) validateDryRun() error {
	if err := o.dryRun.Validate(); err != nil {
		return err
	}
	if o.dry() && o.wait {
		return command.Usagef("--dry-run=%s changes nothing, so there is nothing to wait for: remove --wait", o.dryRun)
	}
	return nil
}

func (o *options) validateWait() error {
	switch {
	case o.timeout < 0:
		return command.Usagef("--timeout=%s: it cannot be less than 0", o.timeout)
	case o.timeout > 0 && !o.wait:
		return command.Usagef("--timeout=%s requires --wait", o.timeout)
	}
	return nil
}

func (o *options) validateQuestion() error {
	if o.yes || o.dry() || o.asks {
		return nil
	}
	return command.Usagef("stdin is not a terminal, so the command cannot ask for confirmation: add --yes to change the nodes without confirmation, or --dry-run=server to see what would change")
}

// dry reports whether this is a dry run.
func (o *options) dry() bool { return o.dryRun != command.DryRunNone }

func (o *options) policy() taints.Overwrite {
	if o.overwrite {
		return taints.OverwriteExisting
	}
	return taints.KeepExisting
}

func (o *options) run(ctx context.Context) error {
	reader, clock, err := o.connect(o.env, o.config)
	if err != nil {
		return err
	}
	return (&tainting{options: o, reader: reader, clock: clock}).run(ctx)
}
