// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explaincmd is kubectl taintkeeper explain: it reads one pod and what is around it, and prints why it stays or
// leaves.
package explaincmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/completion"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// options are those of kubectl taintkeeper explain.
type options struct {
	source source.Source
	output output.Printer
	pod    string
}

// New returns the command explain.
func New(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &options{source: source.New(env, config), output: output.NewPrinter(env)}
	cmd := &cobra.Command{
		Use:   "explain POD",
		Short: "Say why a pod stays on its node, leaves it, or gets none",
		Long: `Say of one pod whether and when taints make it leave its node, and why: which toleration counts against which
taint, which never counts, where the tolerations come from, what the due instant is made of, and the smallest change
that would alter the answer. If there are EvictionPolicies: which select it, and what each of them says. Of a pod that
has no node yet: which nodes refuse it.

Of a cluster only the pod, its node, its owner, its namespace and the policies are read; all nodes if it has none. With
files (-f), a pod is looked for in all namespaces unless -n names one.`,
		Example: `  # When does this pod leave, and why?
  kubectl taintkeeper explain cart-0 -n shop

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
	cmd.ValidArgsFunction = completion.Pods(&o.source)
	return cmd
}

// complete takes the name of a pod as kubectl does: NAME, pod/NAME, and behind the word pod.
func (o *options) complete(args []string) error {
	words := []string{"pod", "pods", "po"}
	if len(args) == 2 && slices.Contains(words, args[0]) {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		return command.Usagef("no pod is given: name one, as NAME or pod/NAME")
	case len(args) > 1:
		return command.Usagef("one pod is explained at a time: %d are given", len(args))
	}
	o.pod = args[0]
	kind, name, ok := strings.Cut(o.pod, "/")
	if !ok {
		return nil
	}
	if o.pod = name; !slices.Contains(words, kind) {
		return command.Usagef("%q is no pod: name one, as NAME or pod/NAME", args[0])
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	subject, err := o.subject(ctx)
	if err != nil {
		return err
	}
	explanation := plan.Explain(subject)
	if printed, err := o.output.Object(explanation); printed {
		return err
	}
	return printAll(&o.output, explanation)
}

// subject returns the pod and what there is to know around it.
func (o *options) subject(ctx context.Context) (plan.Subject, error) {
	if o.source.Offline() {
		cluster, err := o.source.Read(ctx, source.Wants{Policies: true})
		if err != nil {
			return plan.Subject{}, err
		}
		subject, err := subjectOf(cluster, *o.source.Config.Namespace, o.pod)
		subject.At = o.source.Now(cluster)
		return subject, err
	}
	namespace, reader, err := newSubjectReader(&o.source)
	if err != nil {
		return plan.Subject{}, err
	}
	subject, err := reader.read(ctx, namespace, o.pod)
	subject.At = o.source.Env.Clock.Now()
	return subject, err
}

// subjectOf finds a pod among files. An empty namespace stands for all of them.
func subjectOf(cluster *plan.Cluster, namespace, name string) (plan.Subject, error) {
	pod, err := podOf(cluster, namespace, name)
	if err != nil {
		return plan.Subject{}, err
	}
	subject := plan.Subject{
		Pod: pod, Node: cluster.Node(pod.Spec.NodeName), Nodes: cluster.Nodes, Owner: cluster.Owner(pod),
		Policies: cluster.PoliciesOf(),
	}
	if subject.Policies != nil {
		subject.Missing = slices.Clone(cluster.Missing)
	}
	isOfPod := func(namespace *corev1.Namespace) bool { return namespace.Name == pod.Namespace }
	if i := slices.IndexFunc(cluster.Namespaces, isOfPod); i >= 0 {
		subject.Namespace = cluster.Namespaces[i]
	}
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil {
		addTemplate(&subject, cluster, controller)
	}
	return subject, nil
}

// addTemplate adds the template of the pod's owner. Its writers are those of the owner above.
func addTemplate(subject *plan.Subject, cluster *plan.Cluster, controller *metav1.OwnerReference) {
	template := cluster.Templates[controller.UID]
	if template == nil {
		subject.Missing = append(subject.Missing, fmt.Sprintf("The files do not hold the template of %s %s, so the origin of tolerations is told by their form.", controller.Kind, controller.Name))
		return
	}
	subject.Template = template
	if above := cluster.Templates[cluster.Controllers[controller.UID].UID]; above != nil {
		subject.Template = new(*template)
		subject.Template.Writers = above.Writers
	}
}

func podOf(cluster *plan.Cluster, namespace, name string) (*corev1.Pod, error) {
	var found []*corev1.Pod
	var names []string
	for _, pod := range cluster.Pods {
		if namespace != "" && pod.Namespace != namespace {
			continue
		}
		names = append(names, pod.Name)
		if pod.Name == name {
			found = append(found, pod)
		}
	}
	switch len(found) {
	case 0:
		return nil, unknownPod(namespace, name, names)
	case 1:
		return found[0], nil
	}
	var namespaces []string
	for _, pod := range found {
		namespaces = append(namespaces, pod.Namespace)
	}
	return nil, fmt.Errorf("there is a pod %q in each of the namespaces %s: choose one with -n", name, sentence.Enumerate(namespaces))
}

func unknownPod(namespace, name string, names []string) error {
	where := "in the files"
	if namespace != "" {
		where = "in namespace " + namespace
	}
	return fmt.Errorf("there is no pod %q %s%s", name, where, command.DidYouMean(name, names))
}
