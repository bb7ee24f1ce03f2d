// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// taintsOptions are the options of kubectl taintkeeper taints.
type taintsOptions struct {
	source      source.Source
	output      output.Printer
	nodes       nodeSelection
	key, effect string
}

// newTaints returns the command taints.
func newTaints(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &taintsOptions{source: source.New(env, config), output: output.NewPrinter(env)}
	cmd := &cobra.Command{
		Use:   "taints [NODE...]",
		Short: "List the taints of nodes, and how many pods tolerate them",
		Example: `  # Every taint of the cluster
  kubectl taintkeeper taints

  # The NoExecute taints of a zone
  kubectl taintkeeper taints -l topology.kubernetes.io/zone=a --effect NoExecute`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.nodes.Complete(args)
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddFlags(cmd)
	o.nodes.AddFlags(cmd)
	cmd.Flags().StringVar(&o.key, "key", "", "Only taints with this key.")
	cmd.Flags().StringVar(&o.effect, "effect", "",
		"Only taints with this effect: "+strings.Join(taintEffects, ", ")+".")
	cmd.ValidArgsFunction = completeNodes(&o.source)
	_ = cmd.RegisterFlagCompletionFunc("key", completeKeys(&o.source))
	effects := cobra.FixedCompletions(taintEffects, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("effect", effects)
	return cmd
}

func (o *taintsOptions) validate() error {
	if len(o.nodes.Names) == 0 && o.nodes.Selector == "" {
		o.nodes.All = true
	}
	if o.effect != "" && !slices.Contains(taintEffects, o.effect) {
		return command.Usagef("--effect=%s: choose one of %s", o.effect, strings.Join(taintEffects, ", "))
	}
	if err := noNamespace(o.source.Config); err != nil {
		return err
	}
	return firstError(o.nodes.Validate, o.source.Validate, o.output.Validate)
}

func (o *taintsOptions) run(ctx context.Context) error {
	cluster, err := o.source.Read(ctx, source.Wants{})
	if err != nil {
		return err
	}
	nodes, err := o.nodes.Of(cluster)
	if err != nil {
		return err
	}
	list := &cliv1alpha1.TaintList{TypeMeta: cliv1alpha1.Type("TaintList"), At: metav1.NewMicroTime(o.source.Now(cluster)), Notes: cluster.Notes()}
	list.Taints = plan.TaintsOf(cluster, nodes, func(taint corev1.Taint) bool {
		return (o.key == "" || taint.Key == o.key) && (o.effect == "" || string(taint.Effect) == o.effect)
	})
	if printed, err := o.output.Object(list); printed {
		return err
	}
	return o.print(list)
}

func (o *taintsOptions) print(list *cliv1alpha1.TaintList) error {
	o.output.Notes(list.Notes)
	if o.output.Format == output.Name {
		var names []string
		for i := range list.Taints {
			names = append(names, list.Taints[i].Node)
		}
		for _, name := range slices.Compact(names) {
			o.output.Line("node/%s", name)
		}
		return nil
	}
	if len(list.Taints) == 0 {
		fmt.Fprintln(o.output.Env.ErrOut, "No taints found.")
		return nil
	}
	rows := make([][]any, 0, len(list.Taints))
	for i := range list.Taints {
		taint := &list.Taints[i]
		age, added := "unknown", ""
		if !taint.TimeAdded.IsZero() {
			age, added = output.Age(taint.TimeAdded.Time, list.At.Time), output.Absolute(taint.TimeAdded.Time)
		}
		written := "unknown"
		if taint.LastWrite != nil {
			written = fmt.Sprintf("%s, %s ago", taint.LastWrite.By, output.Span(taint.LastWrite.At.Time, list.At.Time))
		}
		rows = append(rows, []any{
			taint.Node, taint.Key, taint.Value, string(taint.Effect), age, written,
			taint.Indefinite, taint.ForAWhile, taint.NotAtAll, added,
		})
	}
	columns := []string{
		"Node", "Key", "Value", "Effect", "Age", "Last write",
		"Forever", "For a while", "Not at all", "+Time added",
	}
	if o.output.IsNarrow(columns, rows) {
		o.printLines(list)
		return nil
	}
	return o.output.Table(columns, rows)
}

// printLines prints the taints as sentences. A terminal shows this if it is too narrow for the table's last columns.
func (o *taintsOptions) printLines(list *cliv1alpha1.TaintList) {
	for i := range list.Taints {
		taint := &list.Taints[i]
		since := ""
		switch {
		case taint.TimeAdded.IsZero():
		case taint.TimeAdded.After(list.At.Time):
			since = ", with timeAdded " + output.Absolute(taint.TimeAdded.Time)
		default:
			since = ", for " + output.Span(taint.TimeAdded.Time, list.At.Time)
		}
		o.output.Line("%s %s%s", taint.Node, taint.Taint, since)
		o.output.Line("  Of the node's pods, %d %s the taint indefinitely, %d for a while, and %d not at all.",
			taint.Indefinite, sentence.Agree(taint.Indefinite, "tolerates", "tolerate"), taint.ForAWhile, taint.NotAtAll)
		if taint.LastWrite != nil {
			o.output.Line("  %s", lastWrite(taint.LastWrite, list.At.Time))
		}
	}
}
