// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// events writes events on pods, in the background. Unlike upstream's they carry the pod's UID, so that kubectl describe
// pod shows them, the node as their related object, and as their action which taint makes the pod due, and when.
type events struct {
	*apicall.Recorder

	clock  *timeline.Clock
	suffix string
}

func newEvents(mode Mode, client kubernetes.Interface, clock *timeline.Clock) *events {
	e := &events{Recorder: apicall.NewRecorder(v1alpha1.EventSourceOfEvictions, client), clock: clock}
	if mode == DryRun {
		e.suffix = v1alpha1.DryRunSuffix
	}
	return e
}

// evicts is the action of an event about an eviction. If the pod need not leave, it has neither taint nor instant.
func (e *events) evicts(v verdict.Verdict) v1alpha1.EventAction {
	if !v.Leaves {
		return v1alpha1.EventAction{}
	}
	return v1alpha1.EventAction{Due: e.clock.Shown(v.Due), Taint: taints.Format(v.Taint.Taint)}
}

func (e *events) of(pod *podcache.Pod, action v1alpha1.EventAction, kind, reason string) apicall.PodEvent {
	return apicall.PodEvent{
		Pod: reference(pod), Node: pod.Node, Action: action.String(), Type: kind, Reason: reason,
	}
}

func (e *events) marking(pod *podcache.Pod, v verdict.Verdict) {
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeNormal, v1alpha1.EventEviction),
		v1alpha1.MarkingText+"%s%s", pod.Key(), e.suffix)
}

// cancelled records that a pod stays that was due at an instant, or would have been.
func (e *events) cancelled(pod *podcache.Pod, due time.Time) {
	action := v1alpha1.EventAction{Cancels: true, Due: e.clock.Shown(due)}
	e.OfPod(e.of(pod, action, corev1.EventTypeNormal, v1alpha1.EventEviction),
		v1alpha1.CancellingText+"%s%s", pod.Key(), e.suffix)
}

// unmarked records that a pod was deleted without the condition DisruptionTarget.
func (e *events) unmarked(pod *podcache.Pod, v verdict.Verdict, err error) {
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeWarning, v1alpha1.EventUnmarkedEviction),
		"Deleted Pod %s without the condition DisruptionTarget, which could not be set: %v", pod.Key(), err)
}

// refused records that a due pod stays, and what refuses its eviction.
func (e *events) refused(pod *podcache.Pod, v verdict.Verdict, err error) {
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeWarning, v1alpha1.EventEvictionRefused),
		"Eviction of Pod %s is refused (%s), and tried again at least every %s: %v",
		pod.Key(), refuser(err), apicall.LastRefused, err)
}

// held records that a due pod stays because a policy objects.
func (e *events) held(pod *podcache.Pod, v verdict.Verdict, answer policy.Answer) {
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeNormal, v1alpha1.EventEvictionHeld),
		"Pod %s is due to leave, but stays: %s%s", pod.Key(), answer, e.suffix)
}

// keptAlive records that a due pod that stays got tolerations.
func (e *events) keptAlive(pod *podcache.Pod, v verdict.Verdict, lacked []corev1.Taint) {
	names := make([]string, len(lacked))
	for i := range lacked {
		names[i] = taints.Format(lacked[i])
	}
	e.OfPod(e.of(pod, e.evicts(v), corev1.EventTypeNormal, v1alpha1.EventKeptAlive),
		"Pod %s is due to leave, but stays: added a toleration of %s for 0 seconds, so that the Pod stays alive if its kubelet restarts",
		pod.Key(), strings.Join(names, " and "))
}

func reference(pod *podcache.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
