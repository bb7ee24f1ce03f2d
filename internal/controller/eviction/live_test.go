// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// A node is tens of kilobytes, most of them images, and up to three versions of each node are remembered for up to 20
// s.
func TestOfALiveNodeIsRememberedWhatIsNeeded(t *testing.T) {
	owned := metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`)
	byUpdate := metav1.ManagedFieldsEntry{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: owned}
	byApply := metav1.ManagedFieldsEntry{Manager: "gitops", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: owned}
	node := func(managed ...metav1.ManagedFieldsEntry) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7", ManagedFields: managed},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}, {Key: "s", Effect: corev1.TaintEffectNoSchedule}}},
		}
	}
	full := node(byUpdate, byApply)
	full.Labels, full.Annotations, full.Spec.PodCIDR = map[string]string{"a": "b"}, map[string]string{"c": "d"}, "10.0.0.0/24"
	full.Status.Images = []corev1.ContainerImage{{Names: []string{"image"}}}
	if diff := cmp.Diff(node(byApply), remembered(full)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// liveNodesOf are 100 nodes, "n0" and so on, which are read through hooks.
func liveNodesOf(t *testing.T, before bubble.Hook) *liveNodes {
	t.Helper()
	client := fake.NewSimpleClientset()
	for i := range 100 {
		if err := client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	return newLiveNodes(api{client: &bubble.Slow{Clientset: client, Before: before}}, &timeline.Clock{})
}

func TestAReadThatEndsLateDoesNotTakeThePlaceOfANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		live := liveNodesOf(t, func(ctx context.Context, _ bubble.Request) error {
			if calls.Add(1) == 1 {
				return bubble.Takes(ctx, 4*stuckAfter)
			}
			return nil
		})
		late := make(chan error)
		go func() {
			_, err := live.node(t.Context(), "n0", time.Time{})
			late <- err
		}()
		<-time.After(2 * stuckAfter)
		newer, err := live.node(t.Context(), "n0", time.Time{})
		if lateErr := <-late; err != nil || lateErr != nil {
			t.Error(err, lateErr)
		}
		if got := live.reads["n0"].newest.started; !got.Equal(newer.started) {
			t.Errorf("a read that began %v before another takes its place", newer.started.Sub(got))
		}
	})
}

func TestLiveNodesAreForgottenWhenTheySayNothingAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := liveNodesOf(t, nil)
		for i := range 100 {
			if _, err := live.node(t.Context(), fmt.Sprint("n", i), time.Now()); err != nil {
				t.Fatal(err)
			}
			bubble.Pass(sec)
		}
		if got, most := len(live.reads), int(2*passedFor/sec)+1; got > most {
			t.Errorf("%d nodes are remembered, want those of the last 20 s at most", got)
		}
	})
}
