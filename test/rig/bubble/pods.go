// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"slices"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
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

// RestartKubelet starts the kubelet of a node, which ends those of its pods that have no toleration for a NoExecute
// taint of the node, as the real one does (k8s.io/kubernetes/pkg/kubelet/lifecycle/predicate.go). It returns their
// names.
func (w *World) RestartKubelet(node string) (ended []string) {
	w.T.Helper()
	all, err := w.Client.CoreV1().Pods(metav1.NamespaceAll).List(w.T.Context(), metav1.ListOptions{})
	w.Must(nil, err)
	for i := range all.Items {
		pod := &all.Items[i]
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if pod.Spec.NodeName != node || mirror || finished || pod.DeletionTimestamp != nil || w.admits(node, pod) {
			continue
		}
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "TaintToleration"
		w.Must(w.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(w.T.Context(), pod, metav1.UpdateOptions{}))
		ended = append(ended, pod.Name)
	}
	synctest.Wait()
	return ended
}

func (w *World) admits(node string, pod *corev1.Pod) bool {
	w.T.Helper()
	return !slices.ContainsFunc(w.Node(node).Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoExecute && (oracle.Rule{}).First(pod.Spec.Tolerations, taint) == nil
	})
}
