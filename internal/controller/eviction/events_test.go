// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/verdict"
)

func TestInAStormEveryKindOfEventIsCountedOnTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		events := newEvents(Evict, client, &timeline.Clock{})
		bubble.Run(t, "the recorder", func(ctx context.Context) error {
			events.Run(ctx)
			return nil
		})
		pod := &podcache.Pod{Namespace: "default", Name: "p", UID: "uid", Node: "n"}
		var v verdict.Verdict
		const withEventsOfTheirOwn = 1000
		for range withEventsOfTheirOwn {
			events.marking(pod, v)
		}
		events.cancelled(pod, v.Due)
		events.unmarked(pod, v, errors.New("no"))
		events.refused(pod, v, errors.New("no"))
		bubble.Pass(time.Minute)
		got := map[string]string{}
		for _, action := range client.Actions() {
			create, ok := action.(clienttesting.CreateAction)
			if !ok {
				continue // the event is there, and its count changes
			}
			event := create.GetObject().(*corev1.Event)
			if object := event.InvolvedObject; object.Kind == "Node" && object.Name == "n" {
				got[event.Reason] = event.Type
			}
		}
		want := map[string]string{
			"TaintManagerEviction": "Normal", "DisruptionTargetNotSet": "Warning", "EvictionRefused": "Warning",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events of the node (-want +got):\n%s", diff)
		}
	})
}

func TestEventsOfAnEvictionCarryTheNodeAndTheTaintWithItsDueInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		events := newEvents(Evict, client, &timeline.Clock{})
		bubble.Run(t, "the recorder", func(ctx context.Context) error {
			events.Run(ctx)
			return nil
		})
		pod := &podcache.Pod{Namespace: "default", Name: "p", UID: "uid", Node: "n"}
		due := time.Now().Add(-time.Minute)
		v := verdict.Verdict{Reason: verdict.Reason{
			Leaves: true, Due: due, Taint: verdict.Taint{Taint: corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}},
		}}
		for _, record := range []func(){
			func() { events.marking(pod, v) },
			func() { events.refused(pod, v, errors.New("no")) },
			func() { events.held(pod, v, policy.Answer{}) },
			func() { events.unmarked(pod, v, errors.New("no")) },
			func() { events.cancelled(pod, due) },
		} {
			record()
			bubble.Pass(time.Second) // client-go names an event after the instant
		}
		list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 5 {
			t.Fatalf("%d events (%v), want 5", len(list.Items), err)
		}
		for i := range list.Items {
			event := &list.Items[i]
			want := v1alpha1.EventAction{Due: due, Taint: "k=v:NoExecute"}
			if v1alpha1.IsCancellingText(event.Message) {
				want = v1alpha1.EventAction{Cancels: true, Due: due}
			}
			if event.Action != want.String() || event.Related == nil || event.Related.Kind != "Node" || event.Related.Name != "n" {
				t.Errorf("event %q has action %q and is related to %v; want %q and node n", event.Message, event.Action, event.Related, want)
			}
		}
	})
}
