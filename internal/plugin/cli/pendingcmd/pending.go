// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pendingcmd is kubectl taintkeeper pending: the pods that have to leave, as a list, as lines while it changes,
// or as a screen that counts down.
package pendingcmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/selection"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

// options are those of kubectl taintkeeper pending.
type options struct {
	source        source.Source
	output        output.Printer
	nodes         selection.Nodes
	allNamespaces bool
	watch         bool

	namespace string // empty: all of them
}

// New returns the command pending.
func New(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &options{source: source.New(env, config), output: output.NewPrinter(env)}
	cmd := &cobra.Command{
		Use:   "pending",
		Short: "List the pods that have to leave because of taints, soonest first",
		Long: `List the pods that have to leave because of NoExecute taints and are still there, soonest first: those of the
current namespace, of -n, or of all (-A). With files (-f), those of all namespaces unless -n names one. A pod whose
instant is past is late. If an EvictionPolicy keeps pods that are due, a column says which, why, and for how long.

With --watch a terminal shows the countdown as it runs; q ends it. Where the output goes elsewhere, each change is a
line: a pod leaves, leaves at another instant, is due now, is held by a policy or not any more, is gone, or is cancelled
and stays; with -o json an object of kind PendingChange. Policies are read again every five seconds.`,
		Example: `  # Who has to leave in the whole cluster, and when?
  kubectl taintkeeper pending -A

  # The same of two nodes, as it happens
  kubectl taintkeeper pending -A --node worker-1 --node worker-2 --watch`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := o.complete(); err != nil {
				return err
			}
			if o.watch {
				return o.runWatch(cmd.Context())
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddFlags(cmd)
	cmd.Flags().StringArrayVar(&o.nodes.Names, "node", nil, "Only pods on this node; may be given several times.")
	cmd.Flags().StringVarP(&o.nodes.Selector, "selector", "l", "", "Only pods on nodes with these labels: key=value, key!=value, key in (a,b), key.")
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Pods of all namespaces.")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "Go on, and tell what changes.")
	return cmd
}

func (o *options) validate() error {
	if o.watch && o.source.Offline() {
		return command.Usagef("--watch needs a cluster, for files do not change: leave out --watch or -f")
	}
	if o.allNamespaces && *o.source.Config.Namespace != "" {
		return command.Usagef("namespaces are given twice: use --all-namespaces or --namespace")
	}
	if len(o.nodes.Names) == 0 && o.nodes.Selector == "" {
		o.nodes.All = true
	}
	if err := o.nodes.Validate(); err != nil {
		return err
	}
	if err := o.source.Validate(); err != nil {
		return err
	}
	return o.output.Validate()
}

// complete finds the namespace. Among files there is no current one.
func (o *options) complete() error {
	switch {
	case o.allNamespaces:
		return nil
	case o.source.Offline():
		o.namespace = *o.source.Config.Namespace
		return nil
	}
	var err error
	o.namespace, err = o.source.Namespace()
	return err
}

func (o *options) run(ctx context.Context) error {
	cluster, err := o.read(ctx)
	if err != nil {
		return err
	}
	nodes, err := o.nodes.OfAny(cluster)
	if err != nil {
		return err
	}
	list := o.pending(cluster, nodes)
	if printed, err := o.output.Object(list); printed {
		return err
	}
	return o.print(list)
}

func (o *options) pending(cluster *plan.Cluster, nodes []*corev1.Node) *cliv1alpha1.PendingList {
	now := o.source.Now(cluster)
	known := &plan.Countdowns{Owner: cluster.Owner, Policies: cluster.PoliciesOf()}
	for _, node := range nodes {
		known.SetNode(node, now)
	}
	for _, pod := range cluster.Pods {
		if o.namespace == "" || pod.Namespace == o.namespace {
			known.SetPod(pod, now)
		}
	}
	list := known.Pending(now)
	list.Notes = append(slices.Clone(cluster.Missing), list.Notes...)
	return list
}

// read returns the nodes, and no more pods than can be listed.
func (o *options) read(ctx context.Context) (*plan.Cluster, error) {
	if o.source.Offline() {
		return o.source.Read(ctx, source.Wants{Policies: true})
	}
	config, err := o.source.RESTConfig()
	if err != nil {
		return nil, err
	}
	api, err := source.Connect(config, output.NewProgress(o.source.Env))
	if err != nil {
		return nil, err
	}
	return o.readFrom(ctx, api)
}

func (o *options) readFrom(ctx context.Context, api *source.Reader) (*plan.Cluster, error) {
	defer api.Progress.End()
	err := source.List(ctx, api, "nodes", api.Clients.CoreV1().Nodes().List, source.Keep(&api.Cluster.Nodes, plan.SlimNode))
	if err != nil {
		return nil, err
	}
	list := func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		o.narrow(&options)
		return api.Clients.CoreV1().Pods(o.namespace).List(ctx, options)
	}
	err = source.List(ctx, api, "pods", list, source.Keep(&api.Cluster.Pods, plan.SlimPod))
	if err != nil {
		return nil, err
	}
	if err := api.Objections(ctx, o.namespace); err != nil || len(api.Cluster.Policies) == 0 {
		return api.Cluster, err
	}
	return api.Cluster, api.WarnOfHolds(ctx)
}

// narrow leaves out pods that cannot be pending: those without a node, and those on other nodes where one is named.
func (o *options) narrow(options *metav1.ListOptions) {
	selector := fields.OneTermNotEqualSelector("spec.nodeName", "")
	if len(o.nodes.Names) == 1 {
		selector = fields.OneTermEqualSelector("spec.nodeName", o.nodes.Names[0])
	}
	options.FieldSelector = selector.String()
}

// columnsFor are those of the table; cellsOf fills them. Which policies hold pods is a column if some select any.
func columnsFor(pods []cliv1alpha1.PendingPod) (columns []string, held bool) {
	columns = []string{"Namespace", "Pod", "Node", "Leaves", "At", "Taint", "Owner", "+Toleration", "+Priority"}
	held = slices.ContainsFunc(pods, func(pod cliv1alpha1.PendingPod) bool { return pod.Answer != nil })
	if held {
		columns = slices.Insert(columns, afterLeaves, "Held by")
	}
	return columns, held
}

const afterLeaves = 4

func cellsOf(pod *cliv1alpha1.PendingPod, now time.Time, leaves string, held bool) []any {
	cells := []any{
		pod.Namespace, pod.Name, pod.Node, leaves, output.Absolute(pod.Due.Time), pod.Taint,
		ownerOf(pod), tolerationOf(pod), strconv.Itoa(int(pod.Priority)),
	}
	if held {
		cells = slices.Insert(cells, afterLeaves, any(output.HeldBy(now, pod.Answer)))
	}
	return cells
}

func ownerOf(pod *cliv1alpha1.PendingPod) string {
	if pod.Owner == nil {
		return ""
	}
	return pod.Owner.Kind + "/" + pod.Owner.Name
}

func tolerationOf(pod *cliv1alpha1.PendingPod) string {
	if pod.Toleration == nil {
		return "none"
	}
	return output.Toleration(*pod.Toleration)
}

func (o *options) print(list *cliv1alpha1.PendingList) error {
	o.output.Notes(list.Notes)
	if o.output.Format == output.Name {
		for i := range list.Pods {
			o.output.Line("pod/%s", list.Pods[i].Name)
		}
		return nil
	}
	if len(list.Pods) == 0 {
		fmt.Fprintln(o.output.Env.ErrOut, "No pod has to leave.")
		return nil
	}
	columns, held := columnsFor(list.Pods)
	rows := make([][]any, 0, len(list.Pods))
	for i := range list.Pods {
		pod := &list.Pods[i]
		rows = append(rows, cellsOf(pod, list.At.Time, leaves(list.At.Time, pod), held))
	}
	return o.output.Table(columns, rows)
}

// leaves says how long it is until a pod is due, or how late it is. A pod that is held is not late.
func leaves(now time.Time, pod *cliv1alpha1.PendingPod) string {
	due := pod.Due.Time
	switch {
	case !due.Before(now) && pod.About:
		return output.About(now, due)
	case !due.Before(now):
		return output.Relative(now, due)
	case pod.Answer.Stays():
		return "due " + output.Span(due, now) + " ago"
	}
	return output.Span(due, now) + " late"
}
