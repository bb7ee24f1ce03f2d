// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// events writes events on pods, in the background. Unlike upstream's they carry the pod's UID, so
// that `kubectl describe pod` shows them.
type events struct {
	*apicall.Recorder

	suffix string
}

func newEvents(mode Mode, client kubernetes.Interface) *events {
	e := &events{Recorder: apicall.NewRecorder(v1alpha1.EventSourceOfEvictions, client)}
	if mode == DryRun {
		e.suffix = v1alpha1.DryRunSuffix
	}
	return e
}

func (e *events) marking(pod *podcache.Pod) {
	e.OfPod(reference(pod), pod.Node, corev1.EventTypeNormal, v1alpha1.EventEviction,
		v1alpha1.MarkingText+"%s%s", pod.Key(), e.suffix)
}

func (e *events) cancelled(pod *podcache.Pod) {
	e.OfPod(reference(pod), pod.Node, corev1.EventTypeNormal, v1alpha1.EventEviction,
		v1alpha1.CancellingText+"%s%s", pod.Key(), e.suffix)
}

// unmarked records that a pod was deleted without the condition DisruptionTarget.
func (e *events) unmarked(pod *podcache.Pod, err error) {
	e.OfPod(reference(pod), pod.Node, corev1.EventTypeWarning, v1alpha1.EventUnmarkedEviction,
		"Deleted Pod %s without the condition DisruptionTarget, which could not be set: %v", pod.Key(), err)
}

// refused records that a due pod stays, and what refuses its eviction.
func (e *events) refused(pod *podcache.Pod, err error) {
	e.OfPod(reference(pod), pod.Node, corev1.EventTypeWarning, v1alpha1.EventEvictionRefused,
		"Eviction of Pod %s is refused (%s), and tried again at least every %s: %v", pod.Key(), refuser(err), apicall.LastRefused, err)
}

// held records that a due pod stays because a policy objects.
func (e *events) held(pod *podcache.Pod, answer policy.Answer) {
	e.OfPod(reference(pod), pod.Node, corev1.EventTypeNormal, v1alpha1.EventEvictionHeld,
		"Pod %s is due to leave, but stays: %s%s", pod.Key(), answer, e.suffix)
}

func reference(pod *podcache.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
