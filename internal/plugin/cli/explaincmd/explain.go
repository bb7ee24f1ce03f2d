// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explaincmd is kubectl taintkeeper explain: it reads one pod and the objects around it, and prints why it
// stays or leaves.
package explaincmd

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/completion"
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// options are the options of kubectl taintkeeper explain.
type options struct {
	source source.Source
	output output.Printer
	wanted wanted
	all    bool // look in all namespaces
}

// New returns the command explain.
func New(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &options{source: source.New(env, config), output: output.NewPrinter(env)}
	cmd := &cobra.Command{
		Use:   "explain (POD | NAMESPACE/POD | WORKLOAD/NAME)",
		Short: "Say why a pod stays on its node, leaves it, or has none",
		Long: `Say whether and when taints make a pod leave its node, and why: which toleration applies to which taint, which
never counts, where the tolerations come from, how the due time is computed, and the smallest change that would alter
the answer. If there are EvictionPolicies, it says which of them select the pod, and what each one says. If the pod has
no node yet, it says which nodes refuse it.

` + command.RuleOfTheEvictor + `

If you name a workload, such as deployment/web, it explains the pod that leaves first.

In a cluster, it reads only the pod, its node, owner and namespace, the policies and their PodDisruptionBudgets. If
there are policies or the node has a NoExecute taint, it also reads what shows who evicts: Leases, ServiceAccounts,
events, and the pods of Taintkeeper and kube-controller-manager. If the pod has no node, it also reads all nodes.
If you name a workload, it reads all nodes and all pods of the namespace. In files (-f), it looks for the pod in all
namespaces unless -n names one.`,
		Example: `  # When does this pod leave, and why?
  kubectl taintkeeper explain cart-0 -n shop
  kubectl taintkeeper explain shop/cart-0

  # The same for the first pod of a Deployment to leave
  kubectl taintkeeper explain deployment/web -n shop

  # The same without a cluster
  kubectl taintkeeper explain pod/cart-0 -f cluster.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			if err := o.source.Validate(); err != nil {
				return err
			}
			if err := o.output.Validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddFlags(cmd)
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "Look in all namespaces.")
	cmd.ValidArgsFunction = completion.Pods(&o.source)
	return cmd
}

// complete reads which pod is named, and in which namespace.
func (o *options) complete(args []string) error {
	var err error
	if o.wanted, err = wantedOf(args); err != nil {
		return err
	}
	flag := *o.source.Config.Namespace
	switch {
	case o.all && flag != "":
		return command.ErrNamespaces
	case o.wanted.namespace == "":
		o.wanted.namespace = flag
	case o.all || flag != "" && flag != o.wanted.namespace:
		return command.Usagef("%s already names a namespace: remove --namespace and --all-namespaces", args[0])
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	subject, err := o.subject(ctx)
	if err != nil {
		return err
	}
	explanation := explain.Explain(subject)
	explanation.Notes = append(explanation.Notes, o.wanted.notes...)
	if printed, err := o.output.Object(explanation); printed {
		return err
	}
	return printAll(&o.output, explanation)
}

// subject returns the pod and everything that the explanation needs.
func (o *options) subject(ctx context.Context) (explain.Subject, error) {
	if o.source.Offline() {
		cluster, err := o.source.Read(ctx, source.Wants{Policies: true, Evictor: true})
		if err != nil {
			return explain.Subject{}, err
		}
		at := o.source.Now(cluster)
		pod, err := o.wanted.among(cluster, at)
		if err != nil {
			return explain.Subject{}, err
		}
		subject := subjectOf(cluster, pod)
		subject.At = at
		return subject, nil
	}
	namespace, reader, err := newSubjectReader(&o.source)
	if err != nil {
		return explain.Subject{}, err
	}
	if o.wanted.namespace == "" && !o.all {
		o.wanted.namespace = namespace
	}
	now := o.source.Env.Clock.Now()
	subject, err := reader.read(ctx, &o.wanted, now)
	subject.At = now
	return subject, err
}

// subjectOf returns a pod from files and everything that the explanation needs.
func subjectOf(cluster *state.Cluster, pod *corev1.Pod) explain.Subject {
	subject := explain.Subject{
		Pod: pod, Node: cluster.Node(pod.Spec.NodeName), Nodes: cluster.Nodes, Owner: cluster.Owner(pod),
		Policies: cluster.PoliciesOf(), Evictor: cluster.Evictor,
	}
	switch {
	case subject.Policies != nil:
		subject.Missing = cluster.Notes()
	case cluster.Idle != "" && subject.Node != nil && len(taints.NoExecute(subject.Node.Spec.Taints)) > 0:
		subject.Missing = []string{cluster.Idle}
	}
	isOfPod := func(namespace *corev1.Namespace) bool { return namespace.Name == pod.Namespace }
	if i := slices.IndexFunc(cluster.Namespaces, isOfPod); i >= 0 {
		subject.Namespace = cluster.Namespaces[i]
	}
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil {
		addTemplate(&subject, cluster, controller)
	}
	return subject
}

// addTemplate adds the template of the pod's owner. The topmost owner is named as its writer.
func addTemplate(subject *explain.Subject, cluster *state.Cluster, controller *metav1.OwnerReference) {
	template := cluster.Templates[controller.UID]
	if template == nil {
		subject.Missing = append(subject.Missing, fmt.Sprintf("The files do not contain the template of %s %s, so the origin of tolerations is inferred from their form.", controller.Kind, controller.Name))
		return
	}
	subject.Template = template
	if above := cluster.Templates[cluster.Controllers[controller.UID].UID]; above != nil {
		subject.Template = new(*template)
		subject.Template.Writers = above.Writers
	}
}
