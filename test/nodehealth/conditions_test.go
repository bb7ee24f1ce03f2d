// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// The scenarios of upstream's TestTaintNodeByCondition (test/integration/scheduler/taint), and the way
// back. A node that is not ready is tainted NoExecute, too; every pod tolerates that for five minutes.
var conditions = []struct {
	name   string
	posted map[corev1.NodeConditionType]corev1.ConditionStatus
	cordon bool
	want   string
	keys   []string // of the NoSchedule taints
}{
	{
		"not-ready", map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionFalse}, false,
		notReady, []string{corev1.TaintNodeNotReady},
	},
	{"cordoned", nil, true, "unschedulable:NoSchedule", []string{corev1.TaintNodeUnschedulable}},
	{
		"memory", map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeMemoryPressure: corev1.ConditionTrue}, false,
		"memory-pressure:NoSchedule", []string{corev1.TaintNodeMemoryPressure},
	},
	{
		"disk", map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeDiskPressure: corev1.ConditionTrue}, false,
		"disk-pressure:NoSchedule", []string{corev1.TaintNodeDiskPressure},
	},
	{
		"pid", map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodePIDPressure: corev1.ConditionTrue}, false,
		"pid-pressure:NoSchedule", []string{corev1.TaintNodePIDPressure},
	},
	{
		"network", map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeNetworkUnavailable: corev1.ConditionTrue}, false,
		"network-unavailable:NoSchedule", []string{corev1.TaintNodeNetworkUnavailable},
	},
	{
		"network-and-not-ready", map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeReady: corev1.ConditionFalse, corev1.NodeNetworkUnavailable: corev1.ConditionTrue,
		}, false,
		"network-unavailable:NoSchedule " + notReady, []string{corev1.TaintNodeNetworkUnavailable, corev1.TaintNodeNotReady},
	},
	{
		"many", map[corev1.NodeConditionType]corev1.ConditionStatus{
			corev1.NodeMemoryPressure: corev1.ConditionTrue, corev1.NodePIDPressure: corev1.ConditionTrue,
		}, true,
		"memory-pressure:NoSchedule pid-pressure:NoSchedule unschedulable:NoSchedule",
		[]string{corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable},
	},
}

func TestEachConditionKeepsPodsAwayThatDoNotTolerateItForAsLongAsItHolds(t *testing.T) {
	s := newScene(t)
	nodes := map[string]*kubelet{}
	for _, tt := range conditions {
		nodes[tt.name] = s.node(t, tt.name, "a")
	}
	bystanders := s.zone(t, "b", 2)
	s.keep(t)
	for _, tt := range conditions {
		t.Run(tt.name, func(t *testing.T) {
			k := nodes[tt.name]
			k.posts(t, tt.posted)
			k.cordon(t, tt.cordon)
			s.becomes(t, k, sorted(tt.want))

			strict, tolerant := unbound(tt.name+"-strict", k), unbound(tt.name+"-tolerant", k, tt.keys...)
			create(t, strict, tolerant)
			isBound(t, tolerant)
			isHeldOff(t, strict)

			back := maps.Clone(healthy)
			back[corev1.NodeNetworkUnavailable] = corev1.ConditionFalse
			k.posts(t, back)
			k.cordon(t, false)
			s.becomes(t, k, untainted)
			isBound(t, strict)
		})
	}
	for _, k := range bystanders {
		s.wantStory(t, k)
	}
}

// sorted puts taints into alphabetical order.
func sorted(taints string) string {
	node := &corev1.Node{}
	for field := range strings.FieldsSeq(taints) {
		key, effect, _ := strings.Cut(field, ":")
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
	}
	return taintsOf(node)
}

// cordon sets whether the node is unschedulable.
func (k *kubelet) cordon(t *testing.T, cordoned bool) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordoned)
	_, err := admin.CoreV1().Nodes().Patch(t.Context(), k.node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	await.Must(t, err)
}

// unbound is a pod for the scheduler that may run on one node only and tolerates NoSchedule taints.
func unbound(name string, k *kubelet, keys ...string) *corev1.Pod {
	pod := newPod(name)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: k.node.Name}
	for _, key := range keys {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	return pod
}

func create(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		_, err := admin.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{})
		await.Must(t, err)
	}
}

func isBound(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	await.Eventually(t, "pod "+pod.Name+" is bound", func(ctx context.Context) error {
		found := look(ctx, t, pod)
		if found.Spec.NodeName == "" {
			return fmt.Errorf("it is not: %v", found.Status.Conditions)
		}
		return nil
	})
}

// isHeldOff waits until the scheduler has found that the node's taints keep a pod away.
func isHeldOff(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	await.Eventually(t, "pod "+pod.Name+" is unschedulable", func(ctx context.Context) error {
		found := look(ctx, t, pod)
		if found.Spec.NodeName != "" {
			t.Fatalf("pod %s was bound to node %s, whose taints it does not tolerate", pod.Name, found.Spec.NodeName)
		}
		why := podCondition(found, corev1.PodScheduled)
		// The scheduler has words of its own for a cordoned node.
		told := strings.Contains(why.Message, "had untolerated taint") || strings.Contains(why.Message, "were unschedulable")
		if why.Reason != corev1.PodReasonUnschedulable || !told {
			return fmt.Errorf("it is not: %v", why)
		}
		return nil
	})
}
