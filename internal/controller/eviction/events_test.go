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
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestInAStormEveryKindOfEventIsCountedOnTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		events := newEvents(Evict, client)
		bubble.Run(t, "the recorder", func(ctx context.Context) error {
			events.Run(ctx)
			return nil
		})
		pod := &podcache.Pod{Namespace: "default", Name: "p", UID: "uid", Node: "n"}
		const withEventsOfTheirOwn = 1000
		for range withEventsOfTheirOwn {
			events.marking(pod)
		}
		events.cancelled(pod)
		events.unmarked(pod, errors.New("no"))
		events.refused(pod, errors.New("no"))
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
