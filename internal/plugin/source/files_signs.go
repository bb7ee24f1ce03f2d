// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
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
