// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// signs reads what tells who evicts and taints. What may not be read is said, and not known then.
func (r *apiReader) signs(ctx context.Context) error {
	for _, read := range []func(context.Context) error{r.leases, r.clocks, r.evictions} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leases reads the two Leases, wherever they are, or at least where they are expected.
func (r *apiReader) leases(ctx context.Context) error {
	var refused error
	for _, name := range []string{plan.Taintkeeper, plan.ControllerManager} {
		err := r.lease(ctx, name, r.cluster.Signs.AddLease)
		if err != nil && !isUnreadable(err) {
			return err
		}
		refused = cmp.Or(refused, err)
	}
	r.cluster.Signs.LeasesKnown = refused == nil
	return r.without(refused, "what they tell of the controllers is not known")
}

// lease reads the Leases of a controller.
func (r *apiReader) lease(ctx context.Context, controller string, each func(*coordinationv1.Lease)) error {
	coordination := r.clients.CoordinationV1()
	get := func(ctx context.Context, namespace string) (*coordinationv1.Lease, error) {
		return coordination.Leases(namespace).Get(ctx, controller, metav1.GetOptions{})
	}
	homes := r.homes
	if controller != plan.Taintkeeper {
		homes = func(context.Context) []string { return []string{metav1.NamespaceSystem} }
	}
	return named(ctx, r, "leases", controller, coordination.Leases(metav1.NamespaceAll).List, homes, get, each)
}

// homes returns the namespaces that Taintkeeper's Lease and clock may be in: those that the bindings of its admission
// policy name, or else that of Kubernetes. A release that is gone can have left its binding.
func (r *apiReader) homes(ctx context.Context) []string {
	admission := r.clients.AdmissionregistrationV1()
	bindings, err := admission.ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return []string{metav1.NamespaceSystem}
	}
	var homes []string
	for i := range bindings.Items {
		if param := bindings.Items[i].Spec.ParamRef; param != nil && param.Name == plan.EvictionClock {
			homes = append(homes, param.Namespace)
		}
	}
	if len(homes) == 0 {
		return []string{metav1.NamespaceSystem}
	}
	return homes
}

func (r *apiReader) clocks(ctx context.Context) error {
	core := r.clients.CoreV1()
	get := func(ctx context.Context, namespace string) (*corev1.ServiceAccount, error) {
		return core.ServiceAccounts(namespace).Get(ctx, plan.EvictionClock, metav1.GetOptions{})
	}
	all := core.ServiceAccounts(metav1.NamespaceAll)
	err := named(ctx, r, "serviceaccounts", plan.EvictionClock, all.List, r.homes, get, r.cluster.Signs.AddClock)
	r.cluster.Signs.ClocksKnown = err == nil
	return r.without(err, "the eviction clock of Taintkeeper is not known")
}

func (r *apiReader) evictions(ctx context.Context) error {
	ofEvictions := fields.OneTermEqualSelector("reason", plan.EvictionReason)
	all := r.clients.CoreV1().Events(metav1.NamespaceAll)
	err := listSome(ctx, r, "events", ofEvictions, all.List, r.cluster.Signs.AddEvent)
	return r.without(err, "it is not known from them who has evicted")
}

// named reads the objects of a name in all namespaces. Where they may not be listed, it gets those in the namespaces
// where they are expected.
func named[L runtime.Object, T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, r *apiReader, kind, name string,
	list func(context.Context, metav1.ListOptions) (L, error),
	homes func(context.Context) []string,
	get func(ctx context.Context, namespace string) (P, error), each func(P)) error {
	ofName := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	err := listSome(ctx, r, kind, ofName, list, func(object *T) { each(object) })
	if _, denied := errors.AsType[deniedError](err); !denied {
		return err
	}
	found, known := false, true
	for _, namespace := range homes(ctx) {
		object, getErr := get(ctx, namespace)
		if getErr == nil {
			each(object)
			found = true
		} else if !apierrors.IsNotFound(getErr) {
			known = false
		}
	}
	if found && known {
		return nil
	}
	return err // there may be others
}

// Kinds that tell of controllers.
var (
	leaseKind = schema.GroupKind{Group: coordinationv1.GroupName, Kind: "Lease"}
	clockKind = schema.GroupKind{Kind: "ServiceAccount"}
	eventKind = schema.GroupKind{Kind: "Event"}
)

// addSign takes an object that tells of controllers. The newest renewal tells when the files were written.
func (c *collector) addSign(object *unstructured.Unstructured) error {
	signs := &c.cluster.Signs
	switch object.GroupVersionKind().GroupKind() {
	case leaseKind:
		lease := &coordinationv1.Lease{}
		if err := convert(object.Object, lease); err != nil {
			return err
		}
		if lease.Spec.RenewTime != nil {
			signs.Heard(lease.Spec.RenewTime.Time)
		}
		signs.AddLease(lease)
		signs.LeasesKnown = true
	case clockKind:
		account := &corev1.ServiceAccount{}
		if err := convert(object.Object, account); err != nil {
			return err
		}
		at, err := time.Parse(time.RFC3339, account.Annotations[plan.EvictionClockAnnotation])
		if err == nil && account.Name == plan.EvictionClock {
			signs.Heard(at)
		}
		signs.AddClock(account)
		signs.ClocksKnown = true
	case eventKind:
		event := &corev1.Event{}
		if err := convert(object.Object, event); err != nil {
			return err
		}
		signs.AddEvent(event)
	}
	return nil
}

// addWorkload takes the pod template of a workload, if it is wanted and the object has one.
func (c *collector) addWorkload(object *unstructured.Unstructured) error {
	kind, ok := workloadKinds[object.GroupVersionKind().GroupKind()]
	if !ok || !c.wants.templates {
		return nil
	}
	template, found, err := unstructured.NestedMap(object.Object, kind.template...)
	if err != nil {
		return fmt.Errorf("read its pod template: %w", err)
	}
	if !found {
		return nil
	}
	if err := checkSeconds(object, kind.in("spec")...); err != nil {
		return fmt.Errorf("read its pod template: %w", err)
	}
	pod := &corev1.Pod{}
	if err := convert(template, pod); err != nil {
		return fmt.Errorf("read its pod template: %w", err)
	}
	pod.Namespace, pod.Name = namespaceOf(object), object.GetName()
	replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil || !found {
		replicas = 1
	}
	c.cluster.Workloads = append(c.cluster.Workloads, plan.WorkloadTemplate{
		Owner:    cliv1alpha1.Owner{Kind: object.GetKind(), Name: object.GetName()},
		Replicas: int(replicas),
		Pod:      plan.SlimPod(pod),
	})
	return nil
}

// namespaceOf returns the namespace that an object is in, or gets: manifests of workloads need not have one.
func namespaceOf(object *unstructured.Unstructured) string {
	namespace := object.GetNamespace()
	if _, ok := workloadKinds[object.GroupVersionKind().GroupKind()]; ok && namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

// trace notes which file an object is from, for those who want to point at it.
func (c *collector) trace(source string, object *unstructured.Unstructured) {
	if !c.wants.templates || source == stdin {
		return
	}
	if c.cluster.Sources == nil {
		c.cluster.Sources = map[cliv1alpha1.CheckedObject]string{}
	}
	c.cluster.Sources[cliv1alpha1.CheckedObject{
		Owner: cliv1alpha1.Owner{Kind: object.GetKind(), Name: object.GetName()}, Namespace: namespaceOf(object),
	}] = filepath.ToSlash(source)
}

// hear takes from nodes and events when the files were written, at the earliest.
func (c *collector) hear() {
	signs := &c.cluster.Signs
	for _, trace := range signs.Evictions {
		signs.Heard(trace.Last)
	}
	for _, node := range c.cluster.Nodes {
		for i := range node.Status.Conditions {
			signs.Heard(node.Status.Conditions[i].LastHeartbeatTime.Time)
		}
		for _, entry := range node.ManagedFields {
			if entry.Time != nil {
				signs.Heard(entry.Time.Time)
			}
		}
	}
	if !c.wants.templates || len(c.cluster.Nodes) == 0 {
		return
	}
	c.note(!signs.LeasesKnown, "The files hold no Lease: 'kubectl get leases,serviceaccounts,events -A -o yaml' writes what tells who evicts.")
	c.note(signs.LeasesKnown, "The files tell of controllers as of "+output.Absolute(signs.At)+".")
}
