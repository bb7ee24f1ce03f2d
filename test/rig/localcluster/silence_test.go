// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestASilentNodeRenewsNoLeaseAndKeepsItsTerminatingPodsUntilItIsBack(t *testing.T) {
	t.Parallel()
	cluster, err := Start(t.Context(), Config{Without: []Component{ControllerManager, Scheduler}, NodeLeaseSeconds: 4, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.AddNodes(t.Context(), NodeSpec{Name: "silent"}, NodeSpec{Name: "lively"}); err != nil {
		t.Fatal(err)
	}
	client := clientFor(t, cluster.AdminConfig())
	createPod(t, client, NewPod("pod", "silent"))
	waitRunning(t, client, "pod")

	if err := cluster.SilenceNodes(t.Context(), "silent"); err != nil {
		t.Fatal(err)
	}
	waitRenewals(t, client, "lively", 2) // a renewal of the other that was on its way has already come
	last := renewTime(t.Context(), t, client, "silent")
	if err := client.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitRenewals(t, client, "lively", 3)
	if renewed := renewTime(t.Context(), t, client, "silent"); !renewed.Equal(last) {
		t.Errorf("the silent node renewed its lease %s later", renewed.Sub(last))
	}
	pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "pod", metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp == nil {
		t.Errorf("the pod of the silent node does not keep terminating: %v", err)
	}

	if err := cluster.ResumeNodes(t.Context(), "silent"); err != nil {
		t.Fatal(err)
	}
	waitRenewals(t, client, "silent", 2)
	waitGone(t, client, "pod")
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
}

// waitRenewals waits until the Lease of a node has been renewed the given number of times.
func waitRenewals(t *testing.T, client kubernetes.Interface, node string, count int) {
	t.Helper()
	last := renewTime(t.Context(), t, client, node)
	for range count {
		eventually(t, func(ctx context.Context) error {
			renewed := renewTime(ctx, t, client, node)
			if renewed.Equal(last) {
				return errors.New("the lease of node " + node + " is not renewed")
			}
			last = renewed
			return nil
		})
	}
}

func renewTime(ctx context.Context, t *testing.T, client kubernetes.Interface, node string) time.Time {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease.Spec.RenewTime.Time
}
