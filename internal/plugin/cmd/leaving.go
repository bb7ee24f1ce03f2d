// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/clock"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
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
	cmd.Flags().DurationVar(&o.since, "since", 0, "List the evictions of the last time, such as 30m, instead of the coming ones.")
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
	cluster, err := o.source.Read(ctx, o.wants(o.namespace))
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
	o.print(list, elsewhere)
	return nil
}

// elsewhere returns how many pods of other namespaces must leave. It returns 0 if the user may not list them.
func (o *leavingOptions) elsewhere(ctx context.Context, cluster *state.Cluster, nodes []*corev1.Node) int {
	if !o.source.Offline() {
		var err error
		if cluster, err = o.source.Read(ctx, o.wants(metav1.NamespaceAll)); err != nil {
			return 0
		}
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

// wants is what the list needs. Pods without a node cannot be pending, nor can those on other nodes if one is named.
func (o *leavingOptions) wants(namespace string) source.Wants {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "")
	if len(o.nodes.Names) == 1 {
		bound = fields.OneTermEqualSelector("spec.nodeName", o.nodes.Names[0])
	}
	return source.Wants{
		Policies: true, Evictor: true, Namespace: namespace, Pods: bound,
		WithoutNodes: "this lists only the pods that were evicted and still exist",
	}
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
