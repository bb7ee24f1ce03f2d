// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// subjectReader reads only one pod and what its explanation needs from an API server.
type subjectReader struct{ *source.Reader }

func (r subjectReader) read(ctx context.Context, w *wanted, now time.Time) (explain.Subject, error) {
	defer r.Progress.End()
	pod, err := r.pod(ctx, w, now)
	if err != nil {
		return explain.Subject{}, err
	}
	gone, err := r.node(ctx, pod)
	if err != nil {
		return explain.Subject{}, err
	}
	for _, read := range []func(context.Context, *corev1.Pod) error{r.namespace, r.owners, r.policies} {
		if err := read(ctx, pod); err != nil {
			return explain.Subject{}, err
		}
	}
	subject := subjectOf(r.Cluster, pod)
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
	if err != nil {
		return nil, err
	}
	if w.kind != kindPod {
		err := r.ListKind(ctx, state.Nodes, metav1.NamespaceAll)
		among.Nodes = r.Cluster.Nodes
		if err = r.Without(err, "the pod that leaves first is not known"); err != nil {
			return nil, err
		}
	}
	return w.among(among, now)
}

// node reads the pod's node, or all nodes if it has none. It reports whether the node no longer exists.
func (r subjectReader) node(ctx context.Context, pod *corev1.Pod) (gone bool, err error) {
	cluster, name := r.Cluster, pod.Spec.NodeName
	if name == "" {
		if len(cluster.Nodes) > 0 { // they have been read to find the pod
			return false, nil
		}
		return false, r.ListKind(ctx, state.Nodes, metav1.NamespaceAll)
	}
	node, err := r.Clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	cluster.Nodes = nil
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		err = source.Failed(ctx, r.Server, "get", "nodes", err)
		return false, r.Without(err, "the taints of the pod's node are not known")
	}
	cluster.Nodes = []*corev1.Node{node}
	return false, nil
}

func (r subjectReader) namespace(ctx context.Context, pod *corev1.Pod) error {
	namespace, err := r.Clients.CoreV1().Namespaces().Get(ctx, pod.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return r.Without(source.Failed(ctx, r.Server, "get", "namespaces", err), "default tolerations of the namespace are not known")
	}
	r.Cluster.Namespaces = append(r.Cluster.Namespaces, namespace)
	return nil
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

// owners reads the template from which the pod was created, and the owner of its owner, which wrote the template.
func (r subjectReader) owners(ctx context.Context, pod *corev1.Pod) error {
	cluster, controller := r.Cluster, metav1.GetControllerOfNoCopy(pod)
	cluster.Templates = map[types.UID]*state.Template{}
	for range 2 {
		owner, err := r.workload(ctx, pod.Namespace, controller)
		if owner == nil {
			return err
		}
		template, err := state.TemplateOf(owner)
		if err != nil {
			return err
		}
		kind := source.Workloads[owner.GroupVersionKind().GroupKind()]
		template.Writers = state.WritersOf(owner.GetManagedFields(), kind.In("spec", "tolerations")...)
		cluster.Templates[controller.UID] = template
		above := metav1.GetControllerOfNoCopy(owner)
		if above == nil {
			return nil
		}
		cluster.Controllers[controller.UID] = *above
		controller = above
	}
	return nil
}

// workload reads an owner. It returns nil if the template of its kind is not known, or if the owner is gone or may not
// be read.
func (r subjectReader) workload(ctx context.Context, namespace string,
	owner *metav1.OwnerReference) (*unstructured.Unstructured, error) {
	if owner == nil {
		return nil, nil
	}
	kind, ok := source.Workloads[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()]
	if !ok {
		return nil, nil
	}
	object, err := r.Dynamic.Resource(kind.Resource).Namespace(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && object.GetUID() != owner.UID:
		return nil, nil
	case err != nil:
		err = source.Failed(ctx, r.Server, "get", kind.Resource.Resource, err)
		return nil, r.Without(err, "the origin of tolerations is inferred from their form")
	}
	return object, nil
}
