// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func TestImagesAreFoundByAHashOfTheirNames(t *testing.T) {
	for name, test := range map[string]struct{ pod, node string }{
		"with a tag":              {"registry.example/web:1.0", "registry.example/web:1.0"},
		"without a tag":           {"registry.example:5000/web", "registry.example:5000/web:latest"},
		"by its digest":           {"registry.example/web@sha256:0a1b", "registry.example/web@sha256:0a1b"},
		"that are hashes already": {"image:0123456789abcdef", "image:0123456789abcdef"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := state.SlimPod(state.SlimPod(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: test.pod}}}}))
			images := state.SlimImages([]corev1.ContainerImage{{Names: []string{"registry.example/other:1", test.node}, SizeBytes: 7}})
			cluster := &state.Cluster{
				Nodes: []*corev1.Node{{Status: corev1.NodeStatus{Images: images}}}, Pods: []*corev1.Pod{pod},
			}
			cluster.KeepUsedImages()
			image := pod.Spec.Containers[0].Image
			if kept := cluster.Nodes[0].Status.Images; len(kept) != 1 || !slices.Equal(kept[0].Names, []string{image}) || kept[0].SizeBytes != 7 {
				t.Errorf("the node has %v, and the pod runs %s", kept, image)
			}
			if strings.Contains(image, "registry") {
				t.Errorf("the name %s is kept", image)
			}
		})
	}
}

func TestImagesThatNoPodUsesAreDropped(t *testing.T) {
	images := state.SlimImages([]corev1.ContainerImage{{Names: []string{"registry.example/web:1.0"}, SizeBytes: 7}})
	cluster := &state.Cluster{Nodes: []*corev1.Node{{Status: corev1.NodeStatus{Images: images}}}}
	if cluster.KeepUsedImages(); len(cluster.Nodes[0].Status.Images) > 0 {
		t.Errorf("the node has %v", cluster.Nodes[0].Status.Images)
	}
}
