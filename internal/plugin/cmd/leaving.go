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
	"k8s.io/utils/clock"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// leavingOptions are the options of kubectl taintkeeper leaving.
type leavingOptions struct {
	source        source.Source
	output        output.Printer
	nodes         nodeSelection
	allNamespaces bool
	watch         bool
	since         time.Duration

	namespace string // empty means all namespaces
}

// newLeaving returns the command leaving.
func newLeaving(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &leavingOptions{source: source.New(env, config), output: output.NewPrinter(env)}
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

With --since, it lists the evictions of the past: which pods, from which node, because of which taint. It knows what
events say; the API server keeps them for an hour by default, and the built-in's name neither node nor taint.`,
		Example: `  # Which pods of the whole cluster must leave, and when?
  kubectl taintkeeper leaving -A

  # The same for two nodes, with live changes
  kubectl taintkeeper leaving -A --node worker-1 --node worker-2 --watch

  # Which pods were evicted in the last 30 minutes, and why?
  kubectl taintkeeper leaving -A --since 30m`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := o.complete(); err != nil {
				return err
			}
			switch {
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
	cmd.Flags().DurationVar(&o.since, "since", 0, "List the evictions of the last time, such as 30m, in place of those to come.")
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
	}
	if o.watch && o.source.Offline() {
		return command.Usagef("--watch requires a cluster, because files do not change: remove --watch or -f")
	}
	if o.allNamespaces && *o.source.Config.Namespace != "" {
		return errNamespaces
	}
	if len(o.nodes.Names) == 0 && o.nodes.Selector == "" {
		o.nodes.All = true
	}
	return firstError(o.nodes.Validate, o.source.Validate, o.output.Validate)
}

// complete finds the namespace. Files have no current namespace.
func (o *leavingOptions) complete() error {
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

func (o *leavingOptions) run(ctx context.Context) error {
	cluster, err := o.read(ctx)
	if err != nil {
		return err
	}
	nodes, err := o.nodes.OfAny(cluster)
	if err != nil {
		return err
	}
	list := o.pending(cluster, nodes, o.namespace)
	if printed, err := o.output.Object(list); printed {
		return err
	}
	elsewhere := 0
	if len(list.Pods) == 0 && o.namespace != "" {
		elsewhere = o.elsewhere(ctx, cluster, nodes)
	}
	return o.print(list, elsewhere)
}

// elsewhere returns how many pods of other namespaces must leave. It returns 0 if the user may not list them.
func (o *leavingOptions) elsewhere(ctx context.Context, cluster *state.Cluster, nodes []*corev1.Node) int {
	if !o.source.Offline() {
		api, err := o.reader()
		if err != nil {
			return 0
		}
		defer api.Progress.End()
		if err := o.readPods(ctx, api, metav1.NamespaceAll); err != nil {
			return 0
		}
		cluster = api.Cluster
	}
	return len(o.pending(cluster, nodes, metav1.NamespaceAll).Pods)
}

func (o *leavingOptions) pending(
	cluster *state.Cluster, nodes []*corev1.Node, namespace string,
) *cliv1alpha1.PendingList {
	now := o.source.Now(cluster)
	pods := cluster.Pods
	if namespace != "" {
		elsewhere := func(pod *corev1.Pod) bool { return pod.Namespace != namespace }
		pods = slices.DeleteFunc(slices.Clone(pods), elsewhere)
	}
	pending := plan.Pending{Owner: cluster.Owner, Policies: cluster.PoliciesOf()}
	list := pending.In(state.LiveOf(cluster.Evictor, nodes, pods, now), now)
	list.Notes = slices.Concat(cluster.Notes(), list.Notes)
	return list
}

// read returns the nodes, and only the pods that the list needs.
func (o *leavingOptions) read(ctx context.Context) (*state.Cluster, error) {
	if o.source.Offline() {
		return o.source.Read(ctx, source.Wants{Policies: true, Evictor: true})
	}
	api, err := o.reader()
	if err != nil {
		return nil, err
	}
	return o.readFrom(ctx, api)
}

func (o *leavingOptions) reader() (*source.Reader, error) {
	config, err := o.source.RESTConfig()
	if err != nil {
		return nil, err
	}
	return source.Connect(config, output.NewProgress(o.source.Env))
}

func (o *leavingOptions) readFrom(ctx context.Context, api *source.Reader) (*state.Cluster, error) {
	defer api.Progress.End()
	if err := api.ListKind(ctx, state.Nodes, metav1.NamespaceAll); err != nil {
		return nil, err
	}
	if err := o.readPods(ctx, api, o.namespace); err != nil {
		return nil, err
	}
	if err := api.Objections(ctx, o.namespace); err != nil {
		return nil, err
	}
	return api.Cluster, api.FindEvictor(ctx)
}

// readPods leaves out pods that cannot be pending: those without a node, and those on other nodes if nodes are named.
func (o *leavingOptions) readPods(ctx context.Context, api *source.Reader, namespace string) error {
	selector := fields.OneTermNotEqualSelector("spec.nodeName", "")
	if len(o.nodes.Names) == 1 {
		selector = fields.OneTermEqualSelector("spec.nodeName", o.nodes.Names[0])
	}
	list := func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		options.FieldSelector = selector.String()
		return api.Clients.CoreV1().Pods(namespace).List(ctx, options)
	}
	return source.List(ctx, api, "pods", list, func(pod *corev1.Pod) { state.Pods.Add(api.Cluster, pod) })
}

// columnsFor returns the columns of the table, the most important first. If policies select some of the pods, one
// column names the policies that hold them.
func columnsFor(pods []cliv1alpha1.PendingPod) []string {
	rest := []string{output.ColumnNode, output.ColumnTaint, "+Owner", "+Toleration", "+Priority"}
	if !selected(pods) {
		return append([]string{output.ColumnLeaves, "At", output.ColumnPod}, rest...)
	}
	return append([]string{output.ColumnDue, "At", output.ColumnPod, columnHeldBy}, rest...)
}

const columnHeldBy = "Held by"

// selected reports whether policies select some of the pods.
func selected(pods []cliv1alpha1.PendingPod) bool {
	return slices.ContainsFunc(pods, func(pod cliv1alpha1.PendingPod) bool { return pod.Answer != nil })
}

// rowOf returns the row of a pod. The caller passes the text about when the pod leaves.
func rowOf(
	o *output.Printer, pod *cliv1alpha1.PendingPod, now time.Time, leaves string, columns []string,
) output.PodRow {
	held := output.HeldBy(now, pod.Answer)
	cells := []string{leaves, o.Instant(now, pod.Due.Time), ""}
	if slices.Contains(columns, columnHeldBy) {
		cells = append(cells, held)
	}
	return output.PodRow{
		Namespace: pod.Namespace, Name: pod.Name, Owner: pod.Owner, With: leaves + held,
		Cells: append(cells,
			pod.Node, pod.Taint, output.OwnerOf(pod.Owner), leavingTolerationOf(pod), strconv.Itoa(int(pod.Priority))),
	}
}

func leavingTolerationOf(pod *cliv1alpha1.PendingPod) string {
	if pod.Toleration == nil {
		return "none"
	}
	return output.Toleration(*pod.Toleration)
}

// none says that no pod is pending, and how many are in other namespaces.
func (o *leavingOptions) none(elsewhere int) string {
	if o.namespace == "" {
		return headline(nil, time.Time{})
	}
	line := fmt.Sprintf("No pods in namespace %s need to leave", o.namespace)
	if elsewhere > 0 {
		line += fmt.Sprintf("; %d in other namespaces (-A)", elsewhere)
	}
	return line + "."
}

func (o *leavingOptions) print(list *cliv1alpha1.PendingList, elsewhere int) error {
	o.output.Notes(list.Notes)
	if o.output.Format == output.Name {
		for i := range list.Pods {
			o.output.Line("%s", output.PodName(list.Pods[i].Namespace, list.Pods[i].Name))
		}
		return nil
	}
	now := list.At.Time
	if len(list.Pods) == 0 {
		fmt.Fprintln(o.output.Env.ErrOut, o.none(elsewhere))
		o.printStuck(list)
		return nil
	}
	columns := columnsFor(list.Pods)
	rows := make([]output.PodRow, 0, len(list.Pods))
	for i := range list.Pods {
		pod := &list.Pods[i]
		rows = append(rows, rowOf(&o.output, pod, now, leaves(now, pod), columns))
	}
	answer := output.Answer(list.EvictedBy, headline(list.Pods, now))
	if !o.output.NoHeaders {
		o.output.Line("%s", answer)
		o.output.Line("")
	}
	if err := o.output.Pods(answer, columns, rows); err != nil {
		return err
	}
	o.printStuck(list)
	return nil
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
		if i == most && o.output.Format != output.Wide {
			o.output.Line("  and %d more: -o wide", len(list.Stuck)-most)
			return
		}
		o.output.Line("  %s on node %s, terminating for %s: waits for %s",
			output.FullName(pod.Namespace, pod.Name), pod.Node, output.Span(pod.Since.Time, list.At.Time), waitWords[pod.WaitsFor])
	}
}

// waitWords name what terminating pods wait for.
var waitWords = map[cliv1alpha1.TerminationWait]string{
	cliv1alpha1.WaitsForContainers:        "its containers",
	cliv1alpha1.WaitsForKubelet:           "its kubelet, which is alive",
	cliv1alpha1.WaitsForSilentKubelet:     "its kubelet, which is silent",
	cliv1alpha1.WaitsForFinalizers:        "its finalizers",
	cliv1alpha1.WaitsForGarbageCollection: "pod garbage collection",
}

// headline counts the pending pods.
func headline(pods []cliv1alpha1.PendingPod, now time.Time) string {
	due, held := 0, 0
	for i := range pods {
		if !pods[i].Due.After(now) {
			due++
			if pods[i].Answer.Stays() {
				held++
			}
		}
	}
	still := "due and still there"
	if held > 0 {
		still += fmt.Sprintf(" (%d held)", held)
	}
	all := sentence.Counted(len(pods), "pod")
	switch {
	case len(pods) == 0:
		return "No pod needs to leave."
	case due == len(pods):
		return fmt.Sprintf("%s %s.", sentence.Are(due, "pod"), still)
	case due == 0:
		return fmt.Sprintf("%s must leave, %s %s.",
			all, sentence.Agree(len(pods), "in", "the next in"), countdown(now, pods[0].Due.Time))
	}
	return fmt.Sprintf("%s must leave: %d %s, the next in %s.", all, due, still, countdown(now, pods[due].Due.Time))
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
		return output.Span(due, now) + " ago"
	}
	return output.Span(due, now) + " late"
}

// countdown says to the second how long it is until a future instant: 3d4h, 1h2m3s, 2m3s or 3s. It rounds up.
func countdown(now, due time.Time) string {
	const day = 24 * time.Hour
	left := (due.Sub(now) + time.Second - 1).Truncate(time.Second)
	if left < day {
		return left.String()
	}
	return fmt.Sprintf("%dd%dh", left/day, left%day/time.Hour)
}

// troubleEvery is how often a broken watch is noted while it stays broken.
const troubleEvery = time.Minute

// breaks notes broken watches, at most once per kind and troubleEvery.
type breaks struct {
	clock clock.PassiveClock
	note  func(sentence string)
	noted map[string]time.Time // by kind
}

func newBreaks(clock clock.PassiveClock, note func(sentence string)) *breaks {
	return &breaks{clock: clock, note: note, noted: map[string]time.Time{}}
}

// tell notes that the watch of a kind is broken, and why.
func (b *breaks) tell(kind string, err error) {
	if now := b.clock.Now(); now.Sub(b.noted[kind]) >= troubleEvery {
		b.noted[kind] = now
		b.note(fmt.Sprintf("The watch of %s broke (%v). Until it is restarted, you see the last known state.", kind, err))
	}
}
