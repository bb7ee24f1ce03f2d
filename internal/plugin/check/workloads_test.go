// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestAWorkloadThatToleratesACordonIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want is
	}{
		"by name":                 {pod("p", tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: "Exists"})), warningThat("come back to a cordoned node, because of toleration {key: node.kubernetes.io/unschedulable, operator: Exists}")},
		"with everything":         {pod("p", tolerating(everything)), warningThat("{operator: Exists}")},
		"NoExecute alone":         {pod("p", tolerating(corev1.Toleration{Operator: "Exists", Effect: "NoExecute"})), nothing},
		"a DaemonSet is meant to": {pod("p", ownedBy("DaemonSet", "d"), tolerating(everything)), nothing},
		"a bare pod is gone":      {pod("p", alone, tolerating(everything)), nothing},
	} {
		t.Run(name, func(t *testing.T) { test.want.compare(t, found(t, "tolerates-cordon", pods(test.pod))) })
	}
}

func TestATaintThatIsSetForAWhileAndStaysIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		taint string
		since time.Duration // before now; 0 if it is not recorded
		want  is
	}{
		"a cordon of two days":    {"node.kubernetes.io/unschedulable:NoSchedule", 48 * time.Hour, infoThat("It has had the taint node.kubernetes.io/unschedulable for at least 2d.")},
		"a cordon of an hour":     {"node.kubernetes.io/unschedulable:NoSchedule", time.Hour, nothing},
		"a cordon of unknown age": {"node.kubernetes.io/unschedulable:NoSchedule", 0, nothing},
		"of an autoscaler":        {"ToBeDeletedByClusterAutoscaler=1764000000:NoSchedule", 2 * time.Hour, infoThat("ToBeDeletedByClusterAutoscaler for at least 120m")},
		"a taint that is to stay": {"dedicated:NoSchedule", 48 * time.Hour, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			is := node("n", test.taint)
			if test.since > 0 {
				is.Spec.Taints[0].TimeAdded = new(metav1.NewTime(now.Add(-test.since)))
			}
			test.want.compare(t, found(t, "stale-taint", clusterWith(func(cluster *state.Cluster) { cluster.Nodes = []*corev1.Node{is} })))
		})
	}
}

func TestTwoManifestsOfOneNameAreBothChecked(t *testing.T) {
	manifest := func(source string, change func(*corev1.Pod)) state.WorkloadTemplate {
		return state.WorkloadTemplate{
			CheckedObject: cliv1alpha1.CheckedObject{Owner: cliv1alpha1.Owner{Kind: "Deployment", Name: "web"}, Namespace: "default"},
			Source:        source, Replicas: 2, Pod: pod("web", alone, change),
		}
	}
	cluster := &state.Cluster{Workloads: []state.WorkloadTemplate{manifest("prod/web.yaml", tolerating(everything)), manifest("staging/web.yaml", tolerating())}}
	findings := found(t, "unreachable-indefinitely", cluster)
	if len(findings) != 1 || findings[0].Source != "prod/web.yaml" {
		t.Errorf("found %+v, want one in prod/web.yaml", findings)
	}
	cluster.Workloads[1] = manifest("staging/web.yaml", tolerating(everything))
	if findings := found(t, "unreachable-indefinitely", cluster); len(findings) != 2 {
		t.Errorf("found %+v, want one for each manifest", findings)
	}
}
