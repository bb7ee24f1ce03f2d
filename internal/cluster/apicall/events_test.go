// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
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
