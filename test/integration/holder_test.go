// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// TestALeaseThatAStrangerHoldsIsReportedAndTakenWhenItIsDeleted plays a client that takes the Lease for an hour. The
// process's pod has the name of this machine.
func TestALeaseThatAStrangerHoldsIsReportedAndTakenWhenItIsDeleted(t *testing.T) {
	s := newScene(t)
	host, err := os.Hostname()
	await.Must(t, err)
	if len(validation.IsDNS1123Subdomain(host)) > 0 {
		t.Skipf("no pod can have the name of this machine, %s", host)
	}
	pods, leases := admin.CoreV1().Pods(metav1.NamespaceSystem), admin.CoordinationV1().Leases(metav1.NamespaceSystem)
	replica := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: host},
		Spec: corev1.PodSpec{
			NodeName: s.node(t, "of-the-replica"), Containers: []corev1.Container{{Name: "main", Image: "none"}},
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	}
	_, err = pods.Create(t.Context(), replica, metav1.CreateOptions{})
	await.Must(t, err)
	t.Cleanup(func() {
		atOnce := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		await.Must(t, pods.Delete(context.WithoutCancel(t.Context()), host, atOnce))
	})
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "taintkeeper"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("made-up_1"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now,
		},
	}
	_ = leases.Delete(t.Context(), lease.Name, metav1.DeleteOptions{}) // another test may have left one
	_, err = leases.Create(t.Context(), lease, metav1.CreateOptions{})
	await.Must(t, err)

	p := serve(t, userConfig,
		"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=500ms")
	becomes := func(metric string, want float64) {
		t.Helper()
		await.Eventually(t, fmt.Sprintf("%s is %v", metric, want), func(context.Context) error {
			if got := gauge(t, p, metric); got != want {
				return fmt.Errorf("it is %v", got)
			}
			return nil
		})
	}
	becomes("taintkeeper_lease_holder_unknown", 1)
	await.Eventually(t, "an event on the Lease", func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=LeaseHolderUnknown,involvedObject.name=taintkeeper,type=Warning",
		})
		if err == nil && len(events.Items) != 1 {
			err = fmt.Errorf("there are %d", len(events.Items))
		}
		return err
	})
	await.Must(t, leases.Delete(t.Context(), lease.Name, metav1.DeleteOptions{}))
	becomes("taintkeeper_leading", 1)
	becomes("taintkeeper_lease_holder_unknown", 0)
	p.terminate(t)
}
