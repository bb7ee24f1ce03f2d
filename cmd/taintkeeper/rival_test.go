// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

func managerPod(command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kcm", Labels: map[string]string{"component": "kube-controller-manager"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Command: command}}},
	}
}

func writtenNode(manager, fields string, at time.Time) *corev1.Node {
	written := metav1.NewTime(at)
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: manager, Time: &written, FieldsV1: metav1.NewFieldsV1(fields),
	}}}}
}

func TestTheBuiltInNodeLifecycleControllerIsSeen(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	const taints, conditions, annotations = `{"f:spec":{"f:taints":{}}}`, `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}`, `{"f:metadata":{"f:annotations":{}}}`
	for name, test := range map[string]struct {
		object runtime.Object
		want   string // in the sentence; "": it is not seen
	}{
		"its pod has the defaults":              {managerPod("kube-controller-manager", "--leader-elect=true"), "pod kube-system/kcm"},
		"its pod names other controllers":       {managerPod("/usr/local/bin/kube-controller-manager", "--controllers=*,bootstrapsigner"), "pod kube-system/kcm"},
		"its pod has switched it off":           {managerPod("kube-controller-manager", "--controllers=*,-node-lifecycle-controller"), ""},
		"its pod has switched the old name off": {managerPod("kube-controller-manager", "--controllers=*,-nodelifecycle"), ""},
		"its pod runs nothing but another":      {managerPod("kube-controller-manager", "--controllers=deployment"), ""},
		"it wrote taints a minute ago":          {writtenNode("kube-controller-manager", taints, now.Add(-time.Minute)), "node n at 2026-03-01T11:59:00Z"},
		"it wrote conditions a minute ago":      {writtenNode("kube-controller-manager", conditions, now.Add(-time.Minute)), "node n"},
		"it wrote taints an hour ago":           {writtenNode("kube-controller-manager", taints, now.Add(-time.Hour)), ""},
		"another of its controllers wrote":      {writtenNode("kube-controller-manager", annotations, now.Add(-time.Minute)), ""},
		"somebody else wrote taints":            {writtenNode("kubectl-taint", taints, now.Add(-time.Minute)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rival(t.Context(), fake.NewClientset(test.object), now)
			if err != nil {
				t.Fatal(err)
			}
			if (got != "") != (test.want != "") || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q in it", got, test.want)
			}
		})
	}
}
