// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// newReplicaSet adds a ReplicaSet whose pods are bound to nodes, one to each, in their order.
func newReplicaSet(t *testing.T, name string, replicas int32, nodes ...string) {
	t.Helper()
	sets, pods := admin.AppsV1().ReplicaSets(metav1.NamespaceDefault), admin.CoreV1().Pods(metav1.NamespaceDefault)
	labels := map[string]string{"app": name}
	watching, err := pods.Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
	await.Must(t, err)
	var binding sync.WaitGroup
	binding.Go(func() {
		for event := range watching.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type != watch.Added || len(nodes) == 0 {
				continue
			}
			bind := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodes[0]},
			}
			nodes = nodes[1:]
			if err := pods.Bind(t.Context(), bind, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	_, err = sets.Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: localcluster.NewPod("", "").Spec},
		},
	}, metav1.CreateOptions{})
	await.Must(t, err)
	t.Cleanup(func() {
		watching.Stop()
		binding.Wait()
		background := metav1.DeletePropagationBackground
		await.Must(t, sets.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{PropagationPolicy: &background}))
	})
	await.Eventually(t, "all pods are ready", func(ctx context.Context) error {
		set, err := sets.Get(ctx, name, metav1.GetOptions{})
		if err == nil && set.Status.ReadyReplicas != replicas {
			err = fmt.Errorf("%d are", set.Status.ReadyReplicas)
		}
		return err
	})
}

func TestAZoneIsEmptiedOneNodeAfterTheOther(t *testing.T) {
	t.Parallel()
	first, second, other := newNode(t), newNode(t), newNode(t)
	newReplicaSet(t, "roll-"+first, 2, first, second, other, other)
	out, errOut, err := run(t, kubeconfig, "taint", first, second, "m:NoExecute", "--yes", "--max-unavailable=1", "--timeout=1m")
	await.Must(t, err)
	mustSay(t, out, "node/"+first+" tainted\nnode/"+second+" tainted\n")
	mustSay(t, errOut, "All pods that must leave have left.\n")

	list, err := admin.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{LabelSelector: "app=roll-" + first})
	await.Must(t, err)
	tainted := getNode(t, second).Spec.Taints[0].TimeAdded
	before, ready := 0, 0
	for _, pod := range list.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type != corev1.PodReady || condition.Status != corev1.ConditionTrue || pod.Spec.NodeName != other {
				continue
			}
			if ready++; !tainted.Before(&condition.LastTransitionTime) {
				before++
			}
		}
	}
	if ready != 2 || before == 0 {
		t.Errorf("%d pods are ready elsewhere, want 2; %d of them were when the second node was tainted, want at least 1", ready, before)
	}
}
