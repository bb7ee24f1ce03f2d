// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// subjectReader reads only one pod and what its explanation needs from an API server.
type subjectReader struct {
	api *source.Reader
}

// newSubjectReader returns a reader, and the namespace that kubectl would use.
func newSubjectReader(s *source.Source) (string, *subjectReader, error) {
	config, err := s.RESTConfig()
	if err != nil {
		return "", nil, err
	}
	namespace, err := s.Namespace()
	if err != nil {
		return "", nil, err
	}
	api, err := source.Connect(config, output.NewProgress(s.Env))
	if err != nil {
		return "", nil, err
	}
	return namespace, &subjectReader{api: api}, nil
}

func (r *subjectReader) read(ctx context.Context, w *wanted, now time.Time) (explain.Subject, error) {
	defer r.api.Progress.End()
	subject := explain.Subject{}
	var err error
	if subject.Pod, err = r.pod(ctx, w, now); err != nil {
		return subject, err
	}
	for _, read := range []func(context.Context, *explain.Subject) error{r.node, r.namespace, r.owner, r.policies} {
		if err := read(ctx, &subject); err != nil {
			return subject, err
		}
	}
	subject.Missing = r.api.Cluster.Notes()
	return subject, nil
}

// pod returns the wanted pod. It reads others only if name and namespace do not identify it.
func (r *subjectReader) pod(ctx context.Context, w *wanted, now time.Time) (*corev1.Pod, error) {
	pods := r.api.Clients.CoreV1().Pods(w.namespace)
	among := &state.Cluster{}
	if w.kind == kindPod && w.namespace != "" {
		pod, err := pods.Get(ctx, w.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return w.among(among, now)
		}
		return pod, source.Failed(ctx, r.api.Server, "get", "pods", err)
	}
	list := func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		if w.kind == kindPod {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String()
		}
		return pods.List(ctx, options)
	}
	err := source.List(ctx, r.api, "pods", list, func(pod *corev1.Pod) {
		if w.is(among, pod) {
			among.Pods = append(among.Pods, pod)
		}
	})
	if err != nil {
		return nil, err
	}
	if w.kind != kindPod {
		err := r.api.ListKind(ctx, state.Nodes, metav1.NamespaceAll)
		among.Nodes = r.api.Cluster.Nodes
		if err = r.without(err, "the pod that leaves first is not known"); err != nil {
			return nil, err
		}
	}
	return w.among(among, now)
}

// node reads the pod's node, or all nodes if it has none.
func (r *subjectReader) node(ctx context.Context, subject *explain.Subject) error {
	name := subject.Pod.Spec.NodeName
	if name == "" {
		if len(r.api.Cluster.Nodes) == 0 { // they have not been read to find the pod
			if err := r.api.ListKind(ctx, state.Nodes, metav1.NamespaceAll); err != nil {
				return err
			}
		}
		subject.Nodes = r.api.Cluster.Nodes
		return nil
	}
	node, err := r.api.Clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		subject.NodeGone = true
		return nil
	case err != nil:
		return r.without(source.Failed(ctx, r.api.Server, "get", "nodes", err), "the taints of the pod's node are not known")
	}
	subject.Node = node
	return nil
}

func (r *subjectReader) namespace(ctx context.Context, subject *explain.Subject) error {
	namespace, err := r.api.Clients.CoreV1().Namespaces().Get(ctx, subject.Pod.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return r.without(source.Failed(ctx, r.api.Server, "get", "namespaces", err), "default tolerations of the namespace are not known")
	}
	subject.Namespace = namespace
	return nil
}

// policies reads the policies and, if there are any, the budgets in the pod's namespace. If there are some, or a taint
// can make the pod leave, it also finds out who evicts.
func (r *subjectReader) policies(ctx context.Context, subject *explain.Subject) error {
	if subject.Node == nil {
		return nil
	}
	if subject.Namespace != nil {
		r.api.Cluster.Namespaces = append(r.api.Cluster.Namespaces, subject.Namespace)
	}
	if err := r.api.Policies(ctx); err != nil {
		return err
	}
	switch {
	case len(r.api.Cluster.Policies) > 0:
		if err := r.api.Budgets(ctx, subject.Pod.Namespace); err != nil {
			return err
		}
	case len(taints.NoExecute(subject.Node.Spec.Taints)) == 0:
		return nil
	}
	err := r.api.FindEvictor(ctx)
	subject.Evictor, subject.Policies = r.api.Cluster.Evictor, r.api.Cluster.PoliciesOf()
	return err
}

// owner reads the template from which the pod was created, and the owner of its owner, which wrote the template.
func (r *subjectReader) owner(ctx context.Context, subject *explain.Subject) error {
	if err := r.climb(ctx, subject); err != nil {
		return err
	}
	subject.Owner = r.api.Cluster.Owner(subject.Pod)
	return nil
}

func (r *subjectReader) climb(ctx context.Context, subject *explain.Subject) error {
	controller := metav1.GetControllerOfNoCopy(subject.Pod)
	owner, err := r.workload(ctx, subject.Pod.Namespace, controller)
	if owner == nil {
		return err
	}
	if subject.Template, err = state.TemplateOf(owner); err != nil {
		return err
	}
	above := metav1.GetControllerOfNoCopy(owner)
	if above == nil {
		return nil
	}
	r.api.Cluster.Controllers[controller.UID] = *above
	object, err := r.workload(ctx, subject.Pod.Namespace, above)
	if object == nil {
		return err
	}
	kind := source.Workloads[object.GroupVersionKind().GroupKind()]
	subject.Template.Writers = state.WritersOf(object.GetManagedFields(), kind.In("spec", "tolerations")...)
	return nil
}

// workload reads an owner. It returns nil if the template of its kind is not known, or if the owner is gone or may not
// be read.
func (r *subjectReader) workload(ctx context.Context, namespace string,
	owner *metav1.OwnerReference) (*unstructured.Unstructured, error) {
	if owner == nil {
		return nil, nil
	}
	kind, ok := source.Workloads[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()]
	if !ok {
		return nil, nil
	}
	object, err := r.api.Dynamic.Resource(kind.Resource).Namespace(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && object.GetUID() != owner.UID:
		return nil, nil
	case err != nil:
		err = source.Failed(ctx, r.api.Server, "get", kind.Resource.Resource, err)
		return nil, r.without(err, "the origin of tolerations is inferred from their form")
	}
	return object, nil
}

// without continues without an object that may not be read, and notes what that means.
func (r *subjectReader) without(err error, follows string) error {
	var denied source.DeniedError
	if !errors.As(err, &denied) {
		return err
	}
	unknown := state.Unknown{Resource: denied.Kind, Says: denied.Means(follows)}
	r.api.Cluster.Unknown = append(r.api.Cluster.Unknown, unknown)
	return nil
}
