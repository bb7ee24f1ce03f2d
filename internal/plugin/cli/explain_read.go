// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// subjectReader reads one pod and what there is to know around it from an API server, and nothing else of the cluster.
type subjectReader struct {
	api       *apiReader
	workloads dynamic.Interface
}

// newSubjectReader returns a reader, and the namespace in which kubectl would look.
func newSubjectReader(s *source) (string, *subjectReader, error) {
	config, err := s.restConfig()
	if err != nil {
		return "", nil, err
	}
	namespace, err := s.namespace()
	if err != nil {
		return "", nil, err
	}
	config = forReading(config)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", nil, fmt.Errorf("make a client: %w", err)
	}
	workloads, err := dynamic.NewForConfig(config)
	if err != nil {
		return "", nil, fmt.Errorf("make a client: %w", err)
	}
	api := newAPIReader(config.Host, clients, output.NewProgress(s.env))
	return namespace, &subjectReader{api: api, workloads: workloads}, nil
}

// newAPIReader returns a reader of single kinds.
func newAPIReader(server string, clients kubernetes.Interface, progress *output.Progress) *apiReader {
	return &apiReader{
		server: server, clients: clients, progress: progress,
		cluster: &plan.Cluster{Controllers: map[types.UID]metav1.OwnerReference{}},
	}
}

func (r *subjectReader) read(ctx context.Context, namespace, name string) (plan.Subject, error) {
	defer r.api.progress.End()
	subject := plan.Subject{}
	var err error
	if subject.Pod, err = r.pod(ctx, namespace, name); err != nil {
		return subject, err
	}
	for _, read := range []func(context.Context, *plan.Subject) error{r.node, r.namespace, r.owner} {
		if err := read(ctx, &subject); err != nil {
			return subject, err
		}
	}
	subject.Missing = r.api.cluster.Missing
	return subject, nil
}

func (r *subjectReader) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := r.api.clients.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return pod, failed(ctx, r.api.server, "get", "pods", err)
	}
	var names []string
	err = listAll(ctx, r.api, "pods", r.api.clients.CoreV1().Pods(namespace).List, func(pod *corev1.Pod) {
		names = append(names, pod.Name)
	})
	var denied deniedError
	if err != nil && !errors.As(err, &denied) {
		return nil, err
	}
	return nil, unknownPod(namespace, name, names)
}

// node reads the pod's node, or all nodes if it has none.
func (r *subjectReader) node(ctx context.Context, subject *plan.Subject) error {
	name := subject.Pod.Spec.NodeName
	if name == "" {
		return listAll(ctx, r.api, "nodes", r.api.clients.CoreV1().Nodes().List, keep(&subject.Nodes, plan.SlimNode))
	}
	node, err := r.api.clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		subject.NodeGone = true
		return nil
	case err != nil:
		return r.without(failed(ctx, r.api.server, "get", "nodes", err), "the taints of the pod's node are not known")
	}
	subject.Node = node
	return nil
}

func (r *subjectReader) namespace(ctx context.Context, subject *plan.Subject) error {
	namespace, err := r.api.clients.CoreV1().Namespaces().Get(ctx, subject.Pod.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return r.without(failed(ctx, r.api.server, "get", "namespaces", err), "whether the namespace has default tolerations is not known")
	}
	subject.Namespace = namespace
	return nil
}

// owner reads the template that the pod was made from, and whoever is above its owner: he wrote it.
func (r *subjectReader) owner(ctx context.Context, subject *plan.Subject) error {
	if err := r.climb(ctx, subject); err != nil {
		return err
	}
	subject.Owner = r.api.cluster.Owner(subject.Pod)
	return nil
}

func (r *subjectReader) climb(ctx context.Context, subject *plan.Subject) error {
	controller := metav1.GetControllerOfNoCopy(subject.Pod)
	owner, err := r.workload(ctx, subject.Pod.Namespace, controller)
	if owner == nil {
		return err
	}
	if subject.Template, err = plan.TemplateOf(owner); err != nil {
		return err
	}
	above := metav1.GetControllerOfNoCopy(owner)
	if above == nil {
		return nil
	}
	r.api.cluster.Controllers[controller.UID] = *above
	object, err := r.workload(ctx, subject.Pod.Namespace, above)
	if object == nil {
		return err
	}
	kind := workloadKinds[object.GroupVersionKind().GroupKind()]
	subject.Template.Writers = plan.WritersOf(object.GetManagedFields(), kind.in("spec", "tolerations")...)
	return nil
}

// workload reads an owner; nil if it is of a kind whose template is not known, if it is gone, or may not be read.
func (r *subjectReader) workload(ctx context.Context, namespace string,
	owner *metav1.OwnerReference) (*unstructured.Unstructured, error) {
	if owner == nil {
		return nil, nil
	}
	kind, ok := workloadKinds[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()]
	if !ok {
		return nil, nil
	}
	object, err := r.workloads.Resource(kind.resource).Namespace(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && object.GetUID() != owner.UID:
		return nil, nil
	case err != nil:
		err = failed(ctx, r.api.server, "get", kind.resource.Resource, err)
		return nil, r.without(err, "the origin of tolerations is told by their form")
	}
	return object, nil
}

// without goes on without what may not be read, and says what follows.
func (r *subjectReader) without(err error, follows string) error {
	var denied deniedError
	if !errors.As(err, &denied) {
		return err
	}
	r.api.cluster.Missing = append(r.api.cluster.Missing, fmt.Sprintf("You may not get %s, so %s.", denied.kind, follows))
	return nil
}
