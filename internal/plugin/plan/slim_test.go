// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

func TestWhatAPodHoldsIsKeptWhileItIsResized(t *testing.T) {
	cpu := func(value string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(value)}
	}
	for name, test := range map[string]struct {
		granted string
		kept    int
	}{
		"it holds what it asks for": {"1000m", 0},
		"it holds more":             {"2", 1},
	} {
		t.Run(name, func(t *testing.T) {
			slim := plan.SlimPod(&corev1.Pod{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: cpu("1")}}}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
					Name: "c", ContainerID: "x", AllocatedResources: cpu(test.granted), Resources: &corev1.ResourceRequirements{Requests: cpu(test.granted)},
				}}},
			})
			if got := len(slim.Status.ContainerStatuses); got != test.kept {
				t.Fatalf("%d statuses are kept, want %d", got, test.kept)
			}
			for _, status := range slim.Status.ContainerStatuses {
				if status.ContainerID != "" {
					t.Error("more than the resources is kept")
				}
			}
		})
	}
}
