// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// whyOptions are the options of kubectl taintkeeper why.
type whyOptions struct {
	source source.Source
	output show.Printer
	wanted wanted
	all    bool // look in all namespaces
}

// newWhy returns the command why.
func newWhy(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &whyOptions{source: source.New(env, config), output: show.NewPrinter(env)}
	cmd := &cobra.Command{
		Use:   "why (POD | NAMESPACE/POD | WORKLOAD/NAME)",
		Short: "Say why a pod stays on its node, leaves it, or has none",
		Long: `Say whether and when taints make a pod leave its node, and why: which toleration applies to which taint, which
never counts, where the tolerations come from, how the due time is computed, and the smallest change that would alter
the answer. If there are EvictionPolicies, it says which of them select the pod, and what each one says. If the pod has
no node yet, it says which nodes refuse it.

` + ruleOfTheEvictor + `

If you name a workload, such as deployment/web, the answer explains the pod that leaves first. For a pod that is gone,
it says what its eviction event says, for as long as the API server keeps events: an hour by default.

In files (-f), it looks for the pod in all namespaces unless -n names one.`,
		Example: `  # When does this pod leave, and why?
  kubectl taintkeeper why cart-0 -n shop
  kubectl taintkeeper why shop/cart-0

  # The same for the first pod of a Deployment to leave
  kubectl taintkeeper why deployment/web -n shop

  # The same without a cluster
  kubectl taintkeeper why pod/cart-0 -f cluster.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			if err := firstError(o.source.Validate, o.output.Validate); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddFlags(cmd)
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "Look in all namespaces.")
	cmd.ValidArgsFunction = completePods(&o.source)
	return cmd
}

// complete reads which pod is named, and in which namespace.
func (o *whyOptions) complete(args []string) error {
	var err error
	if o.wanted, err = wantedOf(args); err != nil {
		return err
	}
	flag := *o.source.Config.Namespace
	switch {
	case o.all && flag != "":
		return errNamespaces
	case o.wanted.namespace == "":
		o.wanted.namespace = flag
	case o.all || flag != "" && flag != o.wanted.namespace:
		return command.Usagef("%s already names a namespace: remove --namespace and --all-namespaces", args[0])
	}
	return nil
}

// run explains the pod, or says what events say if it is gone.
func (o *whyOptions) run(ctx context.Context) error {
	subject, cluster, err := o.subject(ctx)
	var explanation *cliv1alpha1.Explanation
	switch {
	case err == nil:
		explanation = explain.Explain(subject)
		explanation.Notes = append(explanation.Notes, o.wanted.notes...)
	case errors.Is(err, errNoPod):
		evicted := o.wanted.evicted(cluster.Signs.Past)
		if evicted == nil {
			return err
		}
		explanation = explain.Gone(*evicted, subject.At)
	default:
		return err
	}
	if printed, err := o.output.Object(explanation); printed {
		return err
	}
	(&explainer{&o.output, explanation}).print()
	return nil
}

// subject returns the pod with everything that the explanation needs, and what was read. If the pod does not exist, the
// evictions of the past have been read.
func (o *whyOptions) subject(ctx context.Context) (explain.Subject, *state.Cluster, error) {
	if o.source.Offline() {
		cluster, err := o.source.Read(ctx, source.Wants{Policies: true, Evictor: true})
		if err != nil {
			return explain.Subject{}, nil, err
		}
		at := o.source.Now(cluster)
		pod, err := o.wanted.among(cluster, at)
		if err != nil {
			return explain.Subject{At: at}, cluster, err
		}
		return subjectOf(cluster, pod, at), cluster, nil
	}
	reader, err := o.source.Connect()
	if err != nil {
		return explain.Subject{}, nil, err
	}
	defer reader.Progress.End()
	if o.wanted.namespace == "" && !o.all {
		if o.wanted.namespace, err = o.source.Namespace(); err != nil {
			return explain.Subject{}, nil, err
		}
	}
	subject, err := subjectReader{reader}.read(ctx, &o.wanted, o.source.Env.Clock.Now())
	if errors.Is(err, errNoPod) {
		// If events cannot be read, that the pod does not exist is what counts.
		_ = reader.Past(ctx, o.wanted.namespace, o.wanted.name)
	}
	return subject, reader.Cluster, err
}

// subjectOf returns a pod of a cluster and everything that the explanation needs.
func subjectOf(cluster *state.Cluster, pod *corev1.Pod, at time.Time) explain.Subject {
	subject := explain.Subject{
		Pod: pod, Node: cluster.Node(pod.Spec.NodeName), Owner: cluster.Owner(pod), At: at,
		Policies: cluster.PoliciesOf(), Evictor: cluster.Evictor,
	}
	if pod.Spec.NodeName == "" {
		subject.Nodes = cluster.Nodes
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
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return subject
	}
	template, above := cluster.Templates[controller.UID], cluster.Templates[cluster.Controllers[controller.UID].UID]
	subject.Template, subject.Newest = template, cmp.Or(above, template)
	switch {
	case template == nil:
		subject.Missing = append(subject.Missing, fmt.Sprintf("The files do not contain the template of %s %s, so the origin of tolerations is inferred from their form.", controller.Kind, controller.Name))
	case above != nil: // who has written the template wrote that of the topmost owner
		subject.Template = new(*template)
		subject.Template.Writers = above.Writers
	}
	return subject
}

// wanted is the pod to explain, given by its name or by its workload.
type wanted struct {
	kind, name string
	namespace  string   // empty means all namespaces
	notes      []string // which of several pods it is
}

const kindPod = "Pod"

// errNoPod begins the error of a pod that does not exist.
var errNoPod = errors.New("there is no pod")

// kinds are the workloads whose pods can be explained, under the names that kubectl accepts.
var kinds = map[string]string{
	"pod": kindPod, "pods": kindPod, "po": kindPod,
	"deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment",
	"replicaset": "ReplicaSet", "replicasets": "ReplicaSet", "rs": "ReplicaSet",
	"statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
	"daemonset": "DaemonSet", "daemonsets": "DaemonSet", "ds": "DaemonSet",
	"job": "Job", "jobs": "Job",
	"replicationcontroller": "ReplicationController", "replicationcontrollers": "ReplicationController",
	"rc": "ReplicationController",
}

// wantedOf accepts NAME, KIND/NAME and KIND NAME, as kubectl does, and NAMESPACE/NAME, as tables show it.
func wantedOf(args []string) (wanted, error) {
	const advice = "name one, as POD, NAMESPACE/POD or WORKLOAD/NAME"
	if len(args) == 2 && kinds[args[0]] != "" {
		args = []string{args[0] + "/" + args[1]}
	}
	switch {
	case len(args) == 0:
		return wanted{}, command.Usagef("no pod is given: %s", advice)
	case len(args) > 1:
		return wanted{}, command.Usagef("why takes one pod, not %d", len(args))
	}
	first, name, ok := strings.Cut(args[0], "/")
	switch {
	case !ok:
		return wanted{kind: kindPod, name: first}, nil
	case kinds[first] != "":
		return wanted{kind: kinds[first], name: name}, nil
	case slices.Contains(nodeWords, first):
		return wanted{}, command.Usagef("%q does not name a pod: %s", args[0], advice)
	}
	return wanted{kind: kindPod, namespace: first, name: name}, nil
}

// among finds the pod in a cluster: of a workload, the one that leaves first.
func (w *wanted) among(cluster *state.Cluster, now time.Time) (*corev1.Pod, error) {
	var found []*corev1.Pod
	var namespaces []string
	for _, pod := range cluster.Pods {
		if (w.namespace == "" || pod.Namespace == w.namespace) && w.is(cluster, pod) {
			found, namespaces = append(found, pod), append(namespaces, pod.Namespace)
		}
	}
	where := " in namespace " + w.namespace
	if w.namespace == "" {
		where = " in any namespace"
	}
	slices.Sort(namespaces)
	switch namespaces = slices.Compact(namespaces); {
	case len(found) == 0 && w.kind != kindPod:
		return nil, fmt.Errorf("%s %s has no pods%s", w.kind, w.name, where)
	case len(found) == 0:
		return nil, fmt.Errorf("%w %q%s", errNoPod, w.name, where)
	case len(namespaces) > 1:
		return nil, fmt.Errorf("there is a %s %q in each of the namespaces %s: choose one with -n",
			strings.ToLower(w.kind), w.name, sentence.Enumerate(namespaces))
	case len(found) > 1:
		return w.soonest(cluster, found, now), nil
	}
	return found[0], nil
}

// is reports whether a pod has the wanted name, or belongs to the wanted workload.
func (w *wanted) is(cluster *state.Cluster, pod *corev1.Pod) bool {
	if w.kind == kindPod {
		return pod.Name == w.name
	}
	owner, controller := cluster.Owner(pod), metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == w.kind && owner.Name == w.name ||
		controller != nil && controller.Kind == w.kind && controller.Name == w.name
}

// soonest returns the pod of a workload that leaves first, and notes which others exist.
func (w *wanted) soonest(cluster *state.Cluster, pods []*corev1.Pod, now time.Time) *corev1.Pod {
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	first, does := pods[0], sentence.Agree(len(pods)-1, "neither of which leaves", "none of which leaves")
	pending := plan.Pending{}.In(state.LiveOf(cluster.Evictor, cluster.Nodes, pods, now), now).Pods
	if len(pending) > 0 {
		does = "and this one leaves first"
		first = pods[slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == pending[0].UID })]
	}
	var others []string
	for _, pod := range pods {
		if pod != first {
			others = append(others, pod.Name)
		}
	}
	w.notes = append(w.notes, fmt.Sprintf("%s %s has %d pods, %s. %s: %s.",
		w.kind, show.FullName(first.Namespace, w.name), len(pods), does,
		sentence.Agree(len(others), "The other", "The others"), sentence.Some(others)))
	return first
}

// subjectReader reads only one pod and what its explanation needs from an API server.
type subjectReader struct{ *source.Reader }

func (r subjectReader) read(ctx context.Context, w *wanted, now time.Time) (explain.Subject, error) {
	pod, err := r.pod(ctx, w, now)
	if err != nil {
		return explain.Subject{At: now}, err
	}
	gone, err := r.node(ctx, pod)
	if err == nil {
		err = firstError(
			func() error { return r.namespace(ctx, pod) },
			func() error { return r.owners(ctx, pod) },
			func() error { return r.policies(ctx, pod) },
		)
	}
	if err != nil {
		return explain.Subject{}, err
	}
	subject := subjectOf(r.Cluster, pod, now)
	subject.NodeGone, subject.Missing = gone, r.Cluster.Notes()
	return subject, nil
}

// pod returns the wanted pod. It reads others only if name and namespace do not identify it.
func (r subjectReader) pod(ctx context.Context, w *wanted, now time.Time) (*corev1.Pod, error) {
	pods := r.Clients.CoreV1().Pods(w.namespace)
	among := &state.Cluster{}
	if w.kind == kindPod && w.namespace != "" {
		pod, err := pods.Get(ctx, w.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return w.among(among, now)
		}
		return pod, source.Failed(ctx, r.Server, "get", "pods", err)
	}
	list := func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		if w.kind == kindPod {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String()
		}
		return pods.List(ctx, options)
	}
	err := source.List(ctx, r.Reader, "pods", list, func(pod *corev1.Pod) {
		if w.is(among, pod) {
			among.Pods = append(among.Pods, pod)
		}
	})
	if err == nil && w.kind != kindPod {
		err = r.Without(r.ListKind(ctx, state.Nodes, metav1.NamespaceAll), "the pod that leaves first is not known")
		among.Nodes = r.Cluster.Nodes
	}
	if err != nil {
		return nil, err
	}
	return w.among(among, now)
}

// without continues without an object that is gone or may not be read, and says what the latter means.
func (r subjectReader) without(ctx context.Context, resource string, err error, follows string) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return r.Without(source.Failed(ctx, r.Server, "get", resource, err), follows)
}

// node reads the pod's node, or all nodes if it has none. It reports whether the node no longer exists.
func (r subjectReader) node(ctx context.Context, pod *corev1.Pod) (gone bool, err error) {
	if pod.Spec.NodeName == "" {
		if len(r.Cluster.Nodes) > 0 { // they have been read to find the pod
			return false, nil
		}
		return false, r.ListKind(ctx, state.Nodes, metav1.NamespaceAll)
	}
	node, err := r.Clients.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if r.Cluster.Nodes = nil; err == nil {
		r.Cluster.Nodes = []*corev1.Node{node}
	}
	return apierrors.IsNotFound(err), r.without(ctx, "nodes", err, "the taints of the pod's node are not known")
}

func (r subjectReader) namespace(ctx context.Context, pod *corev1.Pod) error {
	namespace, err := r.Clients.CoreV1().Namespaces().Get(ctx, pod.Namespace, metav1.GetOptions{})
	if err == nil {
		r.Cluster.Namespaces = append(r.Cluster.Namespaces, namespace)
	}
	return r.without(ctx, "namespaces", err, "default tolerations of the namespace are not known")
}

// policies reads the policies and, if there are any, the budgets in the pod's namespace. If there are some, or a taint
// can make the pod leave, it also finds out who evicts.
func (r subjectReader) policies(ctx context.Context, pod *corev1.Pod) error {
	node := r.Cluster.Node(pod.Spec.NodeName)
	if node == nil {
		return nil
	}
	if err := r.Policies(ctx); err != nil {
		return err
	}
	switch {
	case len(r.Cluster.Policies) > 0:
		if err := r.Budgets(ctx, pod.Namespace); err != nil {
			return err
		}
	case len(taints.NoExecute(node.Spec.Taints)) == 0:
		return nil
	}
	return r.FindEvictor(ctx)
}

// owners reads the template from which the pod was created, and the owner of its owner, which wrote the template. It
// stops at kinds whose templates are not known, and at owners that are gone.
func (r subjectReader) owners(ctx context.Context, pod *corev1.Pod) error {
	r.Cluster.Templates = map[types.UID]*state.Template{}
	owner := metav1.GetControllerOfNoCopy(pod)
	for range 2 {
		if owner == nil {
			return nil
		}
		kind, known := source.Workloads[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()]
		if !known {
			return nil
		}
		object, err := r.Dynamic.Resource(kind.Resource).Namespace(pod.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
		if err != nil || object.GetUID() != owner.UID {
			return r.without(ctx, kind.Resource.Resource, err, "the origin of tolerations is inferred from their form")
		}
		template, err := state.TemplateOf(object)
		if err != nil {
			return err
		}
		template.Writers = state.WritersOf(object.GetManagedFields(), kind.In("spec", "tolerations")...)
		r.Cluster.Templates[owner.UID] = template
		above := metav1.GetControllerOfNoCopy(object)
		if above != nil {
			r.Cluster.Controllers[owner.UID] = *above
		}
		owner = above
	}
	return nil
}
