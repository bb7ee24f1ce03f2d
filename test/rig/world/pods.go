// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AddPod creates a pod in namespace "default", bound to a node.
func (w *World) AddPod(name, node string, change ...func(*corev1.Pod)) {
	w.T.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Generation: 7,
			CreationTimestamp: metav1.NewTime(time.Now().Truncate(time.Second)),
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
	for _, apply := range change {
		apply(pod)
	}
	w.Must(w.Client.CoreV1().Pods(pod.Namespace).Create(w.T.Context(), pod, metav1.CreateOptions{}))
	synctest.Wait()
}

// Tolerating makes a pod tolerate NoExecute taints of a key for some seconds.
func Tolerating(key string, seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
}

// Pod returns a pod as the API server has stored it.
func (w *World) Pod(name string) *corev1.Pod {
	w.T.Helper()
	pod, err := w.Client.CoreV1().Pods("default").Get(w.T.Context(), name, metav1.GetOptions{})
	w.Must(nil, err)
	return pod
}

// ChangePod updates a pod, and lets what can happen happen.
func (w *World) ChangePod(name string, change func(*corev1.Pod)) {
	w.T.Helper()
	pod := w.Pod(name)
	change(pod)
	w.Must(w.Client.CoreV1().Pods("default").Update(w.T.Context(), pod, metav1.UpdateOptions{}))
	synctest.Wait()
}

// DeletePod deletes a pod at once, without a grace period.
func (w *World) DeletePod(namespace, name string) {
	w.T.Helper()
	w.Must(nil, w.Client.CoreV1().Pods(namespace).Delete(w.T.Context(), name, metav1.DeleteOptions{}))
	synctest.Wait()
}
