// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// obstacles finds out why pods that must leave are still there.
type obstacles struct {
	*tainting

	asked     int  // calls for events so far
	mute      bool // events may not be listed
	abandoned int  // pods that no controller has begun to evict
}

// mostEvents limits the pods for which events are read, because each needs a call.
const mostEvents = 100

// of says what keeps a pod.
func (o *obstacles) of(ctx context.Context, pod state.Leaving) string {
	now := o.now()
	switch {
	case pod.DeletionTimestamp != nil:
		return terminating(pod, now)
	case pod.Verdict.PendingAt(now):
		return fmt.Sprintf("is not due until %s, in %s: %s",
			output.Absolute(pod.Verdict.Due), output.Relative(now, pod.Verdict.Due), tolerated(pod))
	}
	due := overdue(pod.Verdict.Due, now)
	if why := v1alpha1.WhyItStays(pod.Pod); why != "" {
		return fmt.Sprintf("%s: %s", due, why)
	}
	if why := o.event(ctx, pod.Pod); why != "" {
		return fmt.Sprintf("%s: %s", due, why)
	}
	if isMarked(pod.Pod) {
		return fmt.Sprintf("%s, and is marked for eviction, but not deleted: an admission webhook or a policy may refuse the delete", due)
	}
	o.abandoned++
	return fmt.Sprintf("%s, but no controller has begun to evict it", due)
}

// overdue says how long ago an instant was.
func overdue(due, now time.Time) string {
	if ago := now.Sub(due).Round(time.Second); ago > 0 {
		return fmt.Sprintf("was due %s ago", duration.HumanDuration(ago))
	}
	return "is due now"
}

// terminating says what keeps a pod that was deleted. Its deletionTimestamp is the end of its grace period.
func terminating(pod state.Leaving, now time.Time) string {
	over := pod.DeletionTimestamp.Time
	held := ""
	if len(pod.Finalizers) > 0 {
		held = sentence.Agree(len(pod.Finalizers), "finalizer ", "finalizers ") + strings.Join(pod.Finalizers, ", ")
	}
	switch {
	case over.After(now) && held != "":
		return fmt.Sprintf("is terminating: its grace period ends in %s, and then deletion still waits for %s", output.Relative(now, over), held)
	case over.After(now):
		return fmt.Sprintf("is terminating: its grace period ends in %s", output.Relative(now, over))
	case held != "":
		return fmt.Sprintf("is terminating: deletion waits for a controller to remove %s", held)
	}
	return fmt.Sprintf("is terminating: its grace period ended %s ago, but the kubelet has not reported that the pod's containers have stopped%s", max(now.Sub(over), 0).Round(time.Second), notReady(pod.Node.Node))
}

// notReady says that a node is not ready. It is empty if the node is ready.
func notReady(node *corev1.Node) string {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return fmt.Sprintf(": condition Ready of the node is %s", condition.Status)
		}
	}
	return ""
}

func isMarked(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// event returns the newest warning about the eviction of a pod.
func (o *obstacles) event(ctx context.Context, pod *corev1.Pod) string {
	if o.asked++; o.mute || o.asked > mostEvents {
		return ""
	}
	list, err := o.reader.Clients.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.uid": string(pod.UID), "type": corev1.EventTypeWarning}.String(),
	})
	if err != nil {
		o.mute = o.mute || apierrors.IsForbidden(err)
		return ""
	}
	var newest *corev1.Event
	for i := range list.Items {
		event := &list.Items[i]
		if event.InvolvedObject.UID == pod.UID && event.Reason == v1alpha1.EventEvictionRefused &&
			(newest == nil || lastSeen(newest).Before(lastSeen(event))) {
			newest = event
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Message
}

func lastSeen(event *corev1.Event) time.Time {
	if event.LastTimestamp.IsZero() {
		return event.EventTime.Time
	}
	return event.LastTimestamp.Time
}

// notes returns what applies to all pods.
func (o *obstacles) notes(ctx context.Context) []error {
	var notes []error
	if o.abandoned > 0 {
		notes = append(notes, o.evictors(ctx))
	}
	if o.mute {
		notes = append(notes, errors.New("you may not list events, so refused evictions may not be reported"))
	}
	return notes
}
