// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

func TestWhetherTaintkeeperRuns(t *testing.T) {
	at := time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)
	lease := func(name, holder string, ago time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(at.Add(-ago))),
			},
		}
	}
	pod := func(flags ...string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
		pod.Spec.Containers = []corev1.Container{{Name: "taintkeeper", Args: flags}}
		return SlimPod(pod)
	}
	notReady := pod("--leader-elect=false")
	notReady.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	clock := func(ago time.Duration) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			v1alpha1.EvictionClockAnnotation: at.Add(-ago).Format(time.RFC3339),
		}}}
	}
	const exception = ", so EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force."
	for name, test := range map[string]struct {
		lease   *coordinationv1.Lease
		clock   *corev1.ServiceAccount
		pods    []*corev1.Pod
		unknown bool
		mode    cliv1alpha1.Mode
		says    string
	}{
		"a leader renews its Lease":       {lease: lease("taintkeeper", "a_1", time.Second), mode: cliv1alpha1.ModeEnforce},
		"its clock is 20 s behind":        {lease: lease("taintkeeper", "a_1", 20*time.Second), mode: cliv1alpha1.ModeEnforce},
		"it was last renewed a while ago": {lease: lease("taintkeeper", "a_1", time.Minute), says: "Taintkeeper is not running (Lease kube-system/taintkeeper was last renewed 60s ago)" + exception},
		"nobody holds it":                 {lease: lease("taintkeeper", "", time.Second), says: "Taintkeeper is not running (no replica holds Lease kube-system/taintkeeper)" + exception},
		"there is no Lease":               {says: "Taintkeeper is not running, or runs without leader election" + exception},
		"Leases are not known":            {unknown: true, says: "It is not known whether Taintkeeper is running. If it is not, EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force."},
		"the Lease has another name": {
			lease: lease("mine", "a_1", time.Second), pods: []*corev1.Pod{pod("--leader-elect-resource-name=mine")}, mode: cliv1alpha1.ModeEnforce,
		},
		"it elects no leader":                  {pods: []*corev1.Pod{pod("--leader-elect=false")}, mode: cliv1alpha1.ModeEnforce},
		"it elects no leader and is not ready": {pods: []*corev1.Pod{notReady}, says: "Taintkeeper is not running, or runs without leader election" + exception},
		"it renews the eviction clock":         {clock: clock(time.Second), unknown: true, mode: cliv1alpha1.ModeEnforce},
		"the eviction clock is stale":          {clock: clock(time.Minute), says: "Taintkeeper is not running, or runs without leader election" + exception},
		"shadow mode":                          {pods: []*corev1.Pod{pod("--shadow")}, mode: cliv1alpha1.ModeShadow, says: "Taintkeeper runs in shadow mode" + exception},
		"a dry run":                            {pods: []*corev1.Pod{pod("--dry-run")}, mode: cliv1alpha1.ModeDryRun, says: "Taintkeeper runs in dry-run mode" + exception},
		"rules alone": {
			lease: lease("taintkeeper", "pod_1", time.Second), pods: []*corev1.Pod{pod("--controllers=node-taint-rule")},
			mode: cliv1alpha1.ModeEnforce, says: "Taintkeeper runs without the eviction controller" + exception,
		},
		"evictions are switched off before they are switched on": {
			lease: lease("taintkeeper", "pod_1", time.Second), pods: []*corev1.Pod{pod("--controllers=-eviction,eviction,node-taint-rule")},
			mode: cliv1alpha1.ModeEnforce, says: "Taintkeeper runs without the eviction controller" + exception,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &Cluster{Pods: test.pods, Signs: Signs{LeasesKnown: !test.unknown}}
			if test.lease != nil {
				cluster.Signs.AddLease(test.lease)
			}
			if test.clock != nil {
				cluster.Signs.EvictionClocks = append(cluster.Signs.EvictionClocks, test.clock)
			}
			running := cluster.Running(at)
			if running.Mode != test.mode {
				t.Errorf("the mode is %q, want %q", running.Mode, test.mode)
			}
			if says := running.NoHolds(at); says != test.says {
				t.Errorf("about policies it says %q, want %q", says, test.says)
			}
		})
	}
}
