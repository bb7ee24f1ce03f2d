// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package statetest

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// BuiltInEvicts adds the signs that kube-controller-manager evicts at an instant, and Taintkeeper does not: a leader
// that has led since another instant, and the event of an eviction.
func BuiltInEvicts(cluster *state.Cluster, since, at time.Time) *state.Cluster {
	cluster.Signs.LeasesKnown = true
	cluster.Signs.AddLease(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: builtin.Program},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("a_1"), AcquireTime: new(metav1.NewMicroTime(since)), RenewTime: new(metav1.NewMicroTime(at)),
		},
	})
	cluster.Signs.AddEvent(&corev1.Event{
		Reason: v1alpha1.EventEviction, Message: v1alpha1.MarkingText + "a/b",
		LastTimestamp: metav1.NewTime(at.Add(-time.Minute)),
	})
	cluster.Evictor = who.Ask(cluster, at).Evictor(len(cluster.Policies))
	return cluster
}
