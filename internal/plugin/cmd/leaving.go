// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

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
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// leavingOptions are the options of kubectl taintkeeper leaving.
type leavingOptions struct {
	source        source.Source
	output        show.Printer
	nodes         nodeSelection
	allNamespaces bool
	watch         bool
	since         time.Duration

	namespace string // empty means all namespaces
}

// newLeaving returns the command leaving.
func newLeaving(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &leavingOptions{source: source.New(env, config), output: show.NewPrinter(env)}
	cmd := &cobra.Command{
		Use:   "leaving",
		Short: "List the pods that must leave because of taints, soonest first",
		Long: `List the pods that must leave because of NoExecute taints and are still there, soonest first. It covers the current
namespace, the one given with -n, or all (-A). In files (-f), it covers all namespaces unless -n names one. A pod is
late when its due time has passed and no policy holds it. If EvictionPolicies keep due pods, a column says which policy,
why, and for how long.

With more than 30 rows, pods of one workload that leave together share a row; -o wide and --no-headers have a row for
each pod.

With --watch, each change is a line: a pod must leave, must leave at another time, is due now, is held by a policy, is
no longer held, is gone, or may stay.
With -o json, each change is an object of kind PendingChange. Policies are read again every five seconds.

With --since, it lists past evictions: which pods, from which node, because of which taint. It knows what events say;
the API server keeps them for an hour by default. Those of the built-in controller name neither node nor taint.`,
		Example: `  # Which pods of the whole cluster must leave, and when?
  kubectl taintkeeper leaving -A

  # The same for two nodes, with live changes
  kubectl taintkeeper leaving -A --node worker-1 --node worker-2 --watch

  # Which pods were evicted in the last 30 minutes, and why?
  kubectl taintkeeper leaving -A --since 30m`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := firstError(o.validate, o.complete)
			switch {
			case err != nil:
				return err
			case o.watch:
				return o.runWatch(cmd.Context())
			case o.since > 0:
				return o.runPast(cmd.Context())
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddFlags(cmd)
	cmd.Flags().StringArrayVar(&o.nodes.Names, "node", nil, "Only pods on this node. You can repeat this flag.")
	cmd.Flags().StringVarP(&o.nodes.Selector, "selector", "l", "", "Only pods on nodes with these labels: key=value, key!=value, key in (a,b), key.")
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Pods of all namespaces.")
	cmd.Flags().DurationVar(&o.since, "since", 0, "List past evictions of at most this age, such as 30m, instead of upcoming ones.")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "Keep running, and show what changes.")
	return cmd
}

func (o *leavingOptions) validate() error {
	switch {
	case o.since < 0:
		return command.Usagef("--since=%s: give a time that has passed, such as 30m", o.since)
	case o.since > 0 && o.watch:
		return command.Usagef("--since lists the past, and --watch what is to come: remove one of them")
	case o.since > 0 && o.nodes.Selector != "":
		return command.Usagef("--since takes --node, and no --selector, because the nodes of the past may not exist any more")
	case o.watch && o.source.Offline():
		return command.Usagef("--watch requires a cluster, because files do not change: remove --watch or -f")
	case o.allNamespaces && *o.source.Config.Namespace != "":
		return errNamespaces
	}
	o.nodes.All = len(o.nodes.Names) == 0 && o.nodes.Selector == ""
	return firstError(o.nodes.Validate, o.source.Validate, o.output.Validate)
}

// complete finds the namespace. Files have no current namespace.
func (o *leavingOptions) complete() (err error) {
	switch {
	case o.allNamespaces:
	case o.source.Offline():
		o.namespace = *o.source.Config.Namespace
	default:
		o.namespace, err = o.source.Namespace()
	}
	return err
}

func (o *leavingOptions) run(ctx context.Context) error {
	cluster, err := o.source.Read(ctx, o.wants())
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
	none := ""
	if len(list.Pods) == 0 && cluster.Knows(state.Nodes.Resource) { // otherwise a note says that this is not known
		none = o.none(ctx, cluster, nodes)
	}
	o.print(list, none)
	return nil
}

// none says that no pod must leave.
func (o *leavingOptions) none(ctx context.Context, cluster *state.Cluster, nodes []*corev1.Node) string {
	if o.namespace == "" {
		return "No pod needs to leave."
	}
	says := fmt.Sprintf("No pods in namespace %s need to leave", o.namespace)
	if elsewhere := o.elsewhere(ctx, cluster, nodes); elsewhere > 0 {
		says += fmt.Sprintf("; %d in other namespaces (-A)", elsewhere)
	}
	return says + "."
}

// elsewhere returns how many pods of other namespaces must leave, as far as the user may list them.
func (o leavingOptions) elsewhere(ctx context.Context, cluster *state.Cluster, nodes []*corev1.Node) int {
	o.namespace = metav1.NamespaceAll
	if !o.source.Offline() {
		var err error
		if cluster, err = o.source.Read(ctx, o.wants()); err != nil {
			return 0
		}
	}
	return len(o.pending(cluster, nodes).Pods)
}

// wants is what the list needs. Pods without a node cannot be pending, nor can those on other nodes if one is named.
func (o *leavingOptions) wants() source.Wants {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "")
	if len(o.nodes.Names) == 1 {
		bound = fields.OneTermEqualSelector("spec.nodeName", o.nodes.Names[0])
	}
	wants := source.Wants{Policies: true, Evictor: true, Namespace: o.namespace, Pods: bound}
	if o.nodes.All {
		wants.WithoutNodes = "this lists only the pods that were evicted and still exist"
	}
	return wants
}

// pending returns the pods of the namespace that must leave some nodes. Files have those of all namespaces.
func (o *leavingOptions) pending(cluster *state.Cluster, nodes []*corev1.Node) *cliv1alpha1.PendingList {
	now := o.source.Now(cluster)
	pods := slices.DeleteFunc(slices.Clone(cluster.Pods), func(pod *corev1.Pod) bool {
		return o.namespace != "" && pod.Namespace != o.namespace
	})
	pending := plan.Pending{Owner: cluster.Owner, Policies: cluster.PoliciesOf()}
	list := pending.In(state.LiveOf(cluster.Evictor, nodes, pods, now), now)
	list.Notes = slices.Concat(cluster.Notes(), list.Notes)
	return list
}

// print prints a list, or that it has none.
func (o *leavingOptions) print(list *cliv1alpha1.PendingList, none string) {
	now := list.At.Time
	rows, names := make([]*cliv1alpha1.PendingPod, 0, len(list.Pods)), []string(nil)
	for i := range list.Pods {
		rows = append(rows, &list.Pods[i])
		names = append(names, show.PodName(list.Pods[i].Namespace, list.Pods[i].Name))
	}
	if o.output.Format == show.Name {
		o.output.Names(list.Notes, names)
		return
	}
	o.output.Notes(list.Notes)
	switch {
	case len(rows) > 0:
		if !o.output.NoHeaders {
			answer := fmt.Sprintf("%s must leave: %s.", sentence.Counted(len(rows), "pod"), show.PodsToGo(plan.CountPending(list, nil), now))
			o.output.Line("%s", show.EvictedBy(list.EvictedBy, answer))
			o.output.Line("")
		}
		leaves := func(pod *cliv1alpha1.PendingPod) string { return leavesIn(now, pod) }
		show.Pods(&o.output, o.columns(list, leaves), rows, func(pod *cliv1alpha1.PendingPod) show.Pod {
			return show.Pod{
				Namespace: pod.Namespace, Name: pod.Name, Node: pod.Node, Owner: pod.Owner,
				With: leaves(pod) + show.HeldBy(now, pod.Answer),
			}
		})
	case none != "":
		fmt.Fprintln(o.output.Env.ErrOut, none)
	}
	o.printStuck(list)
}

// printStuck prints the pods that were evicted and still exist, at most ten unless all details are asked for.
func (o *leavingOptions) printStuck(list *cliv1alpha1.PendingList) {
	const most = 10
	if len(list.Stuck) == 0 {
		return
	}
	if len(list.Pods) > 0 {
		o.output.Line("")
	}
	o.output.Line("%s evicted and still %s (kubectl taintkeeper why POD says what helps):",
		sentence.Do(len(list.Stuck), "pod", "was", "were"), sentence.Agree(len(list.Stuck), "exists", "exist"))
	for i := range list.Stuck {
		pod := &list.Stuck[i]
		if i == most && o.output.Format != show.Wide {
			o.output.Line("  and %d more: -o wide", len(list.Stuck)-most)
			return
		}
		o.output.Line("  %s on node %s, terminating for %s: waits for %s",
			show.FullName(pod.Namespace, pod.Name), pod.Node, sentence.Between(pod.Since.Time, list.At.Time),
			state.Waits[pod.WaitsFor])
	}
}

// columns returns the columns of the table, the most important first.
func (o *leavingOptions) columns(
	list *cliv1alpha1.PendingList, leaves func(*cliv1alpha1.PendingPod) string,
) []show.Column[*cliv1alpha1.PendingPod] {
	type pod = cliv1alpha1.PendingPod
	title := "Leaves"
	if slices.ContainsFunc(list.Pods, func(pod pod) bool { return pod.Answer != nil }) {
		title = "Due"
	}
	now := list.At.Time
	return []show.Column[*pod]{
		{Title: title, Cell: leaves},
		{Title: "At", Cell: func(pod *pod) string { return o.output.Instant(now, &pod.Due) }},
		{Title: "Pod"},
		{Title: "Held by", Cell: func(pod *pod) string { return show.HeldBy(now, pod.Answer) }},
		{Title: "Node", Shared: true, Counts: "node", Cell: func(pod *pod) string { return pod.Node }},
		{Title: "Taint", Shared: true, Cell: func(pod *pod) string { return pod.Taint }},
		{Title: "Owner", Wide: true, Cell: func(pod *pod) string { return show.OwnerOf(pod.Owner) }},
		{Title: "Toleration", Wide: true, Cell: leavingTolerationOf},
		{Title: "Priority", Wide: true, Cell: func(pod *pod) string { return strconv.Itoa(int(pod.Priority)) }},
	}
}

func leavingTolerationOf(pod *cliv1alpha1.PendingPod) string {
	if pod.Toleration == nil {
		return "none"
	}
	return show.Toleration(*pod.Toleration)
}

// leavesIn says how long it is until a pod is due, or how late it is. A pod that is held is not late.
func leavesIn(now time.Time, pod *cliv1alpha1.PendingPod) string {
	due := pod.Due.Time
	switch {
	case !due.Before(now) && pod.About:
		return sentence.Roughly(now, due)
	case !due.Before(now):
		return sentence.Relative(now, due)
	case pod.Answer.Stays():
		return sentence.Between(due, now) + " ago"
	}
	return sentence.Between(due, now) + " late"
}

// runPast lists the evictions of the past.
func (o *leavingOptions) runPast(ctx context.Context) error {
	all, now, err := o.past(ctx)
	if err != nil {
		return err
	}
	since := now.Add(-o.since)
	list := &cliv1alpha1.EvictionList{
		TypeMeta: cliv1alpha1.Type("EvictionList"), At: metav1.NewMicroTime(now), Since: metav1.NewMicroTime(since),
		Evictions: slices.DeleteFunc(state.Past(all, since, o.namespace), func(e cliv1alpha1.Eviction) bool {
			return !o.nodes.All && !slices.Contains(o.nodes.Names, e.Node)
		}),
	}
	if printed, err := o.output.Object(list); printed {
		return err
	}
	o.printPast(list)
	return nil
}

// past reads what events say of evictions, and returns when it did.
func (o *leavingOptions) past(ctx context.Context) ([]cliv1alpha1.Eviction, time.Time, error) {
	if o.source.Offline() {
		cluster, err := o.source.Read(ctx, source.Wants{Evictor: true})
		if err != nil {
			return nil, time.Time{}, err
		}
		return cluster.Signs.Past, o.source.Now(cluster), nil
	}
	api, err := o.source.Connect()
	if err != nil {
		return nil, time.Time{}, err
	}
	defer api.Progress.End()
	err = api.Past(ctx, o.namespace, "")
	return api.Cluster.Signs.Past, o.source.Env.Clock.Now(), err
}

func (o *leavingOptions) printPast(list *cliv1alpha1.EvictionList) {
	type row = *cliv1alpha1.Eviction
	pods, rows := 0, make([]row, 0, len(list.Evictions))
	for i := range list.Evictions {
		e := &list.Evictions[i]
		rows = append(rows, e)
		if !e.Cancelled {
			pods += e.Pods
		}
		if o.output.Format == show.Name && e.Name != "" {
			o.output.Line("%s", show.PodName(e.Namespace, e.Name))
		}
	}
	if o.output.Format == show.Name {
		return
	}
	if !o.output.NoHeaders {
		o.output.Line("%s evicted in the last %s, according to events, which the API server keeps for an hour by default.",
			sentence.Do(pods, "pod", "was", "were"), sentence.Duration(o.since))
	}
	if len(rows) == 0 {
		return
	}
	if !o.output.NoHeaders {
		o.output.Line("")
	}
	show.Table(&o.output, []show.Column[row]{
		{Title: "When", Cell: func(e row) string { return sentence.Between(e.At.Time, list.At.Time) + " ago" }},
		{Title: "Pod", Cell: func(e row) string {
			if e.Name == "" {
				return fmt.Sprintf("(%s)", sentence.Counted(e.Pods, "pod"))
			}
			return show.FullName(e.Namespace, e.Name)
		}},
		{Title: "What", Cell: func(e row) string {
			if e.Cancelled {
				return "cancelled"
			}
			return "evicted"
		}},
		{Title: "Node", Cell: func(e row) string { return e.Node }},
		{Title: "Taint", Cell: func(e row) string { return e.Taint }},
		{Title: "By", Cell: func(e row) string { return evictorName(e.By) }},
		{Title: "At", Wide: true, Cell: func(e row) string { return o.output.Instant(list.At.Time, &e.At) }},
		{Title: "Due", Wide: true, Cell: func(e row) string { return o.output.Instant(list.At.Time, e.Due) }},
	}, rows)
}

// evictorName names who wrote the event of an eviction.
func evictorName(by cliv1alpha1.Who) string {
	if by == cliv1alpha1.WhoTaintkeeper {
		return "Taintkeeper"
	}
	return builtin.Program
}

// evicted returns the newest of some evictions that made the pod leave, or nil.
func (w *wanted) evicted(past []cliv1alpha1.Eviction) *cliv1alpha1.Eviction {
	for _, e := range slices.Backward(state.Past(past, time.Time{}, w.namespace)) {
		if !e.Cancelled && e.Name == w.name {
			return &e
		}
	}
	return nil
}
