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
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// taintsOptions are the options of kubectl taintkeeper taints.
type taintsOptions struct {
	source      source.Source
	output      show.Printer
	nodes       nodeSelection
	key, effect string
}

// newTaints returns the command taints.
func newTaints(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &taintsOptions{source: source.New(env, config), output: show.NewPrinter(env)}
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
	o.print(list)
	return nil
}

func (o *taintsOptions) print(list *cliv1alpha1.TaintList) {
	if o.output.Format == show.Name {
		var names []string
		for i := range list.Taints {
			names = append(names, "node/"+list.Taints[i].Node)
		}
		o.output.Names(list.Notes, slices.Compact(names))
		return
	}
	o.output.Notes(list.Notes)
	if len(list.Taints) == 0 {
		fmt.Fprintln(o.output.Env.ErrOut, "No taints found.")
		return
	}
	type row = cliv1alpha1.NodeTaint
	show.Table(&o.output, []show.Column[row]{
		{Title: "Node", Cell: func(t row) string { return t.Node }},
		{Title: "Taint", Cell: func(t row) string { return t.Taint }},
		{Title: "Age", Cell: func(t row) string {
			if t.TimeAdded.IsZero() {
				return "unknown"
			}
			return sentence.Age(t.TimeAdded.Time, list.At.Time)
		}},
		{Title: "Last write", Cell: func(t row) string {
			if t.LastWrite == nil {
				return "unknown"
			}
			return fmt.Sprintf("%s, %s ago", t.LastWrite.By, sentence.Between(t.LastWrite.At.Time, list.At.Time))
		}},
		{Title: "Tolerated by", Below: true, Cell: func(t row) string {
			return show.Numbers(
				show.Number{Of: t.Indefinite, What: "forever"}, show.Number{Of: t.ForAWhile, What: "for a while"},
				show.Number{Of: t.NotAtAll, What: "not at all"})
		}},
		{Title: "Time added", Wide: true, Cell: func(t row) string {
			if t.TimeAdded.IsZero() {
				return ""
			}
			return sentence.Absolute(t.TimeAdded.Time)
		}},
	}, list.Taints)
}
