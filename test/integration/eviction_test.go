// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func TestATaintThatNoPodToleratesEvictsAtOnce(t *testing.T) {
	resident(t)
	s := newScene(t)
	node, other := s.node(t, "tainted"), s.node(t, "other")
	const grace = 17
	leaving := s.pod(t, "leaving", node, func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(grace)) })
	tolerant := s.pod(t, "tolerant", node, func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "gone", Operator: corev1.TolerationOpExists}}
	})
	elsewhere := s.pod(t, "elsewhere", other)

	came := taint(t, node, rig.NoExecute("gone"))
	deleted := leaves(t, leaving, promised(t, leaving, tainting{rig.NoExecute("gone"), came}))

	t.Run("the condition is there before the delete, letter for letter", func(t *testing.T) {
		marks := audit.All(t, auditlog.StatusPatches, auditlog.Accepted, auditlog.Of(leaving.UID))
		if len(marks) != 1 || marks[0].Answered.After(deleted.Received) {
			t.Errorf("patches of the status %v, want one before %v", marks, deleted)
		}
		checkCondition(t, leaving)
	})
	t.Run("the pod keeps its own grace period", func(t *testing.T) {
		found, err := admin.CoreV1().Pods(s.Namespace).Get(t.Context(), leaving.Name, metav1.GetOptions{})
		await.Must(t, err)
		if found.DeletionTimestamp == nil || *found.DeletionGracePeriodSeconds != grace {
			t.Errorf("deletionTimestamp %v, deletionGracePeriodSeconds %v; want %d", found.DeletionTimestamp, found.DeletionGracePeriodSeconds, grace)
		}
	})
	t.Run("the event is upstream's, and is about this pod", func(t *testing.T) {
		event := theEvent(t, leaving, "Marking for deletion Pod "+s.Namespace+"/leaving")
		about := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: "leaving", UID: leaving.UID}
		if event.InvolvedObject != about {
			t.Errorf("it is about %+v, want %+v", event.InvolvedObject, about)
		}
	})
	t.Run("one read of the node and two calls per pod are enough", func(t *testing.T) {
		if calls := audit.All(t, changesOfPods, auditlog.In(s.Namespace)); len(calls) != 2 {
			t.Errorf("calls %v, want a patch and a delete", calls)
		}
	})
	t.Run("a pod that tolerates it, or is elsewhere, is left alone", func(t *testing.T) {
		stays(t, tolerant)
		stays(t, elsewhere)
	})
}

// checkCondition checks the condition that the last version of a pod had before it was terminating.
func checkCondition(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	before := lastBeforeLeaving(t, pod)
	at := slices.IndexFunc(before.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if at < 0 {
		t.Fatalf("the pod was terminating before it had the condition: %v", before.Status.Conditions)
	}
	found := before.Status.Conditions[at]
	if time.Since(found.LastTransitionTime.Time) > await.Limit {
		t.Errorf("lastTransitionTime %v", found.LastTransitionTime)
	}
	found.LastTransitionTime = metav1.Time{}
	want := corev1.PodCondition{
		Type: "DisruptionTarget", Status: "True", Reason: "DeletionByTaintManager",
		Message:            "Taintkeeper: deleting due to NoExecute taint",
		ObservedGeneration: before.Generation,
	}
	if found != want || before.Generation == 0 {
		t.Errorf("condition %+v, want %+v", found, want)
	}
}

func lastBeforeLeaving(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	await.Eventually(t, "the watch shows that the pod leaves", func(context.Context) error {
		if _, left := recorded.Left(pod.UID); !left {
			return errors.New("it does not")
		}
		return nil
	})
	var last *corev1.Pod
	for _, s := range recorded.Of(pod.UID).Sightings {
		if s.Pod.DeletionTimestamp == nil {
			last = s.Pod
		}
	}
	return last
}

// theEvent waits for the event with a message on a pod, and checks that it is a normal one of the
// kind and source that upstream's are.
func theEvent(t *testing.T, pod *corev1.Pod, message string) *corev1.Event {
	t.Helper()
	var found []*corev1.Event
	await.Eventually(t, "there is an event "+message, func(context.Context) error {
		found = eventsLike(pod, message)
		if len(found) == 0 {
			return fmt.Errorf("there are %v", recorded.eventsOn(pod.UID))
		}
		return nil
	})
	event := found[0]
	if len(found) > 1 || event.Count != 1 {
		t.Errorf("event %q: %d of them, count %d; want one", message, len(found), event.Count)
	}
	if event.Type != "Normal" || event.Reason != "TaintManagerEviction" || event.Source.Component != "taint-eviction-controller" || event.Namespace != pod.Namespace {
		t.Errorf("event %+v", event)
	}
	return event
}

func eventsLike(pod *corev1.Pod, message string) []*corev1.Event {
	return slices.DeleteFunc(recorded.eventsOn(pod.UID), func(event *corev1.Event) bool { return event.Message != message })
}

// The wait of a test that wants to see nothing happen, after which a pod would long have left.
const quiet = 3 * time.Second

func TestNoDeleteIsAnsweredWithAnythingElseThanExpected(t *testing.T) {
	resident(t)
	s := newScene(t)
	node := s.livelyNode(t, "tainted")
	pods := s.pods(t, 20, node, rig.Tolerating("gone", 1))
	came := taint(t, node, rig.NoExecute("gone"))
	for _, pod := range pods {
		leaves(t, pod, promised(t, pod, tainting{rig.NoExecute("gone"), came}))
		gone(t, pod)
	}
	for _, c := range audit.All(t, changesOfPods, auditlog.In(s.Namespace)) {
		if c.Code != http.StatusOK {
			t.Errorf("without anybody's interference: %v", c)
		}
	}
}
