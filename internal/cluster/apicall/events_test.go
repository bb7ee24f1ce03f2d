// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// synctest's bubble makes the test fail if a goroutine of the Recorder is left after it was told to end.
func TestARecorderWritesEventsUntilItIsToldToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		recorder := NewRecorder("node-controller", client)
		ctx, stop := context.WithCancel(t.Context())
		node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}
		recorder.Eventf(node, corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", "n")
		go recorder.Run(ctx) // what was recorded before counts, too
		synctest.Wait()
		stop()
		synctest.Wait()
		recorder.Event(node, corev1.EventTypeNormal, "TooLate", "")
		synctest.Wait()
		actions := client.Actions()
		if len(actions) != 1 {
			t.Fatalf("%d calls, want one for the event from before the end", len(actions))
		}
		got := actions[0].(clienttesting.CreateAction).GetObject().(*corev1.Event)
		if got.Source.Component != "node-controller" || got.InvolvedObject.UID != "u" || got.Reason != "NodeNotReady" ||
			got.Message != "Node n status is now: NodeNotReady" {
			t.Errorf("wrote %+v", got)
		}
	})
}

// An event that repeats costs no more calls than without the two fields.
func TestEventsOfPodsCarryTheirActionAndTheirNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		recorder := NewRecorder("test", client)
		ctx, stop := context.WithCancel(t.Context())
		go recorder.Run(ctx)
		pod := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "p", UID: "u"}
		record := func(action, text string) {
			recorder.OfPod(PodEvent{
				Pod: pod, Node: "n", Action: action, Type: corev1.EventTypeNormal, Reason: "Marking",
			}, "%s", text)
			synctest.Wait()
		}
		record("Evict 1", "Marking")
		record("Evict 2", "Marking")
		list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("events %v (%v), want one", list.Items, err)
		}
		got := list.Items[0]
		if got.Count != 2 || got.Action != "Evict 2" || got.Related == nil ||
			*got.Related != (corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n"}) || got.Annotations != nil {
			t.Errorf("the event is %+v, want the action of the last of two, the node, and no annotations", got)
		}
		stop()
		synctest.Wait()
		if calls := len(client.Actions()); calls != 3 {
			t.Errorf("%d calls, want a create, a patch and this test's list", calls)
		}
	})
}
