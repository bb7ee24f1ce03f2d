// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statetest builds the nodes and pods that tests of the plugin ask about.
package statetest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/taints"
)

var (
	// Now is when tests ask.
	Now = time.Date(2026, time.November, 22, 9, 0, 0, 250e6, time.UTC)
	// HourAgo is an hour before Now, to the second.
	HourAgo = metav1.NewTime(Now.Truncate(time.Second).Add(-time.Hour))
)

// Node returns a node with taints that were added an hour ago.
func Node(name string, specs ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	for _, spec := range specs {
		taint, err := taints.Parse(spec)
		if err != nil {
			panic(err)
		}
		taint.TimeAdded = &HourAgo
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return node
}

// Pod returns a pod on node "n" that was bound an hour ago.
func Pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: HourAgo},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range change {
		change(pod)
	}
	return pod
}

// Tolerating lets a pod tolerate the taints with a key, for some seconds or indefinitely.
func Tolerating(key string, seconds ...int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		toleration := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
		if len(seconds) > 0 {
			toleration.TolerationSeconds = &seconds[0]
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
	}
}

// OwnedBy gives a pod a controller.
func OwnedBy(kind, name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
	}
}

// On binds a pod to a node.
func On(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = name }
}

// Static makes a pod the mirror pod of a static pod.
func Static(pod *corev1.Pod) {
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
}
