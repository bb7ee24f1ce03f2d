// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// Kinds that show something about controllers.
var (
	leaseKind         = schema.GroupKind{Group: coordinationv1.GroupName, Kind: "Lease"}
	evictionClockKind = schema.GroupKind{Kind: "ServiceAccount"}
	eventKind         = schema.GroupKind{Kind: "Event"}
	// holderKind is the admission policy that an EvictionPolicy with ifDown: Hold needs.
	holderKind = schema.GroupKind{Group: admissionv1.GroupName, Kind: "ValidatingAdmissionPolicy"}
)

// addSign takes an object that shows something about controllers. The newest renewal shows when the files were written.
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
		c.leases = append(c.leases, lease)
		c.cluster.AddRenewal(lease)
	case evictionClockKind:
		account := &corev1.ServiceAccount{}
		if err := convert(object.Object, account); err != nil {
			return err
		}
		at, err := time.Parse(time.RFC3339, account.Annotations[v1alpha1.EvictionClockAnnotation])
		if err == nil && account.Name == v1alpha1.EvictionClock {
			signs.Heard(at)
		}
		signs.AddEvictionClock(account)
		signs.EvictionClocksKnown = true
	case eventKind:
		event := &corev1.Event{}
		if err := convert(object.Object, event); err != nil {
			return err
		}
		signs.AddEvent(event)
		signs.AddFailure(event)
		signs.FailuresKnown = true
	case holderKind:
		holder := &admissionv1.ValidatingAdmissionPolicy{}
		if err := convert(object.Object, holder); err != nil {
			return err
		}
		signs.AddHolder(holder)
		signs.HoldersKnown = true
	}
	return nil
}

// addWorkload records the pod template of a workload, if it is wanted and the object has one.
func (c *collector) addWorkload(object *unstructured.Unstructured) error {
	kind, ok := Workloads[object.GroupVersionKind().GroupKind()]
	if !ok || !c.wants.Templates {
		return nil
	}
	template, found, err := unstructured.NestedMap(object.Object, kind.template...)
	if err != nil {
		return fmt.Errorf("its pod template cannot be read: %w", err)
	}
	if !found {
		return nil
	}
	if err := checkSeconds(object, kind.In("spec")...); err != nil {
		return fmt.Errorf("its pod template cannot be read: %w", err)
	}
	pod := &corev1.Pod{}
	if err := convert(template, pod); err != nil {
		return fmt.Errorf("its pod template cannot be read: %w", err)
	}
	pod.Namespace, pod.Name = namespaceOf(object), object.GetName()
	replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil || !found {
		replicas = 1
	}
	c.cluster.Workloads = append(c.cluster.Workloads, state.WorkloadTemplate{
		Owner:    cliv1alpha1.Owner{Kind: object.GetKind(), Name: object.GetName()},
		Replicas: int(replicas),
		Pod:      state.SlimPod(pod),
	})
	return nil
}

// namespaceOf returns the namespace of an object, or the one it would get: manifests of workloads need not name one.
func namespaceOf(object *unstructured.Unstructured) string {
	namespace := object.GetNamespace()
	if _, ok := Workloads[object.GroupVersionKind().GroupKind()]; ok && namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

// trace records which file contains an object, so that findings can point to it.
func (c *collector) trace(source string, object *unstructured.Unstructured) {
	if !c.wants.Templates || source == stdin {
		return
	}
	if c.cluster.Sources == nil {
		c.cluster.Sources = map[cliv1alpha1.CheckedObject]string{}
	}
	c.cluster.Sources[checked(object)] = filepath.ToSlash(source)
}

// checked returns the name of an object in a check.
func checked(object *unstructured.Unstructured) cliv1alpha1.CheckedObject {
	return cliv1alpha1.CheckedObject{
		Owner: cliv1alpha1.Owner{Kind: object.GetKind(), Name: object.GetName()}, Namespace: namespaceOf(object),
	}
}

// hear finds out from nodes and events when the files were written at the earliest.
func (c *collector) hear() {
	signs := &c.cluster.Signs
	reads := who.Reads(c.cluster)
	for _, lease := range c.leases {
		signs.LeasesKnown = signs.LeasesKnown || lease.Namespace != corev1.NamespaceNodeLease // others are about nodes
		if reads(lease) {
			signs.AddLease(lease)
		}
	}
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
	signs.Heard(c.cluster.At)
	if !c.wants.Templates || len(c.cluster.Nodes) == 0 {
		return
	}
	c.note(!signs.LeasesKnown, "The files contain no Leases: add the output of 'kubectl get leases,serviceaccounts,events -A -o yaml', which shows who evicts.")
	c.note(signs.LeasesKnown, "The files show controllers as of "+output.Absolute(signs.At)+".")
}
