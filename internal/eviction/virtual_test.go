// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		secs := int64(30)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "nu"}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d", UID: "pu", CreationTimestamp: metav1.NewTime(start)}, Spec: corev1.PodSpec{NodeName: "n", Tolerations: []corev1.Toleration{{Key: "k", Operator: "Exists", TolerationSeconds: &secs}}}}
		client := fake.NewClientset(node, pod)
		e, err := New(Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		time.Sleep(time.Second)
		node = node.DeepCopy()
		node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
		client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		time.Sleep(40 * time.Second)
		for _, a := range client.Actions() {
			t.Logf("%s %s/%s %s", a.GetVerb(), a.GetResource().Resource, a.GetSubresource(), time.Since(start))
		}
		n, _ := client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		t.Log(n.Spec.Taints)
		cancel()
		t.Log(<-done)
		t.Log("virtual", time.Since(start))
	})
}
