// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
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

// told returns how many events about pods were written, and how many pods the events about each node stand for.
func told(t *testing.T, client *fake.Clientset) (ofPods int, ofNodes map[string]int) {
	t.Helper()
	ofNodes = map[string]int{}
	for _, action := range client.Actions() {
		event := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
		if event.InvolvedObject.Kind == "Pod" {
			ofPods++
			continue
		}
		var number int
		_, err := fmt.Sscanf(event.Message, "%d", &number)
		says := sentence.Agree(number, "1 event about a Pod on this Node: ", fmt.Sprintf("%d events like this one, about Pods on this Node: ", number))
		if err != nil || !strings.HasPrefix(event.Message, says) {
			t.Errorf("an event about a node says %q", event.Message)
		}
		if event.Related == nil || event.Action != "Evict "+event.Related.Name {
			t.Errorf("an event about a node has action %q and is related to %v, want the last of its pods", event.Action, event.Related)
		}
		ofNodes[event.InvolvedObject.Name+" "+event.Reason] += number
	}
	return ofPods, ofNodes
}

// inAStorm runs play with a Recorder in virtual time.
func inAStorm(t *testing.T, play func(recorder *Recorder, client *fake.Clientset)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return true, action.(clienttesting.CreateAction).GetObject(), nil // and does not store it, which would take long
		})
		recorder := NewRecorder("test", client)
		ctx, stop := context.WithCancel(t.Context())
		go recorder.Run(ctx)
		synctest.Wait()
		play(recorder, client)
		stop()
		synctest.Wait()
	})
}

func marking(recorder *Recorder, node string, pods int) {
	for i := range pods {
		name := fmt.Sprintf("%s-%d", node, i)
		pod := &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: name, UID: types.UID(name)}
		recorder.OfPod(PodEvent{
			Pod: pod, Node: node, Action: "Evict " + name, Type: corev1.EventTypeNormal, Reason: "Marking",
		}, "Marking %s", name)
	}
}

func TestInAStormThePodsOfANodeAreCountedInOneEventAndNoneIsLost(t *testing.T) {
	inAStorm(t, func(recorder *Recorder, client *fake.Clientset) {
		marking(recorder, "a", 900)
		marking(recorder, "b", 900)
		marking(recorder, "c", 900)
		bubble.Pass(summarizeEvery + time.Second)
		synctest.Wait()
		ofPods, ofNodes := told(t, client)
		if ofPods != 1000 || ofNodes["b Marking"] != 800 || ofNodes["c Marking"] != 900 || len(ofNodes) != 2 {
			t.Errorf("%d pods have an event of their own, want 1000; the others are reported as %v", ofPods, ofNodes)
		}
	})
}

func TestAfterAStormPodsHaveEventsOfTheirOwnAgain(t *testing.T) {
	inAStorm(t, func(recorder *Recorder, client *fake.Clientset) {
		marking(recorder, "a", podEventsAtOnce+1)
		bubble.Pass(summarizeEvery + time.Second)
		client.ClearActions()
		marking(recorder, "b", 1)
		synctest.Wait()
		if ofPods, ofNodes := told(t, client); ofPods != 1 || len(ofNodes) != 0 {
			t.Errorf("%d events about pods and %v about nodes, want one about the pod", ofPods, ofNodes)
		}
	})
}

func TestWhatIsCountedIsReportedByReasonAndNoFasterThanEventsAreWritten(t *testing.T) {
	inAStorm(t, func(recorder *Recorder, client *fake.Clientset) {
		marking(recorder, "full", podEventsAtOnce)
		for i := range 250 {
			marking(recorder, fmt.Sprintf("n%d", i), 2)
		}
		pod := &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p", UID: "p"}
		recorder.OfPod(PodEvent{Pod: pod, Node: "n0", Action: "Evict p", Type: corev1.EventTypeWarning, Reason: "Refused"}, "Refused by %s", "somebody")
		bubble.Pass(summarizeEvery + time.Second)
		if _, ofNodes := told(t, client); len(ofNodes) > podEventsPerSecond*11 {
			t.Errorf("%d nodes were reported within 11 s", len(ofNodes))
		}
		bubble.Pass(time.Minute)
		_, ofNodes := told(t, client)
		if len(ofNodes) != 251 || ofNodes["n0 Refused"] != 1 || ofNodes["n0 Marking"] != 2 {
			t.Errorf("%d nodes and reasons were reported, want 251; for n0 %d and %d", len(ofNodes), ofNodes["n0 Marking"], ofNodes["n0 Refused"])
		}
	})
}
