// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
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
	synctest.Test(t, func(t *testing.T) {
		owned := metav1.NewFieldsV1(`{"f:spec":{"f:taints":{}}}`)
		full := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: "n", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
				ManagedFields: []metav1.ManagedFieldsEntry{
					{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: owned},
					{Manager: "gitops", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: owned},
				},
			},
			Spec:   corev1.NodeSpec{PodCIDR: "10.0.0.0/24", Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}, {Key: "s", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"image"}}}},
		}
		want := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7", ManagedFields: full.ManagedFields[1:]},
			Spec:       corev1.NodeSpec{Taints: full.Spec.Taints},
		}
		live := newLiveNodes(api{client: fake.NewSimpleClientset(full)}, &timeline.Clock{})
		read, err := live.node(t.Context(), "n", time.Time{})
		if diff := cmp.Diff(want, read.node); err != nil || diff != "" {
			t.Errorf("(-want +got, error %v):\n%s", err, diff)
		}
	})
}

func TestAReadThatEndsLateDoesNotTakeThePlaceOfANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		client := &bubble.Slow{
			Clientset: fake.NewSimpleClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
			Before: func(ctx context.Context, _ bubble.Request) error {
				if calls.Add(1) == 1 {
					return bubble.Takes(ctx, 4*stuckAfter)
				}
				return nil
			},
		}
		live := newLiveNodes(api{client: client}, &timeline.Clock{})
		late := make(chan error)
		go func() {
			_, err := live.node(t.Context(), "n", time.Time{})
			late <- err
		}()
		<-time.After(2 * stuckAfter)
		newer, err := live.node(t.Context(), "n", time.Time{})
		if err := errors.Join(err, <-late); err != nil {
			t.Error(err)
		}
		if got := live.reads["n"].newest.started; !got.Equal(newer.started) {
			t.Errorf("a read that began %v before another takes its place", newer.started.Sub(got))
		}
	})
}

func TestLiveNodesAreForgottenWhenTheySayNothingAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleClientset()
		live := newLiveNodes(api{client: client}, &timeline.Clock{})
		for i := range 100 {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
			if err := client.Tracker().Add(node); err != nil {
				t.Fatal(err)
			}
			if _, err := live.node(t.Context(), node.Name, time.Now()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(sec) //nolint:forbidigo // virtual time in a synctest bubble
		}
		if got, most := len(live.reads), int(2*passedFor/sec)+1; got > most {
			t.Errorf("%d nodes are remembered, want those of the last 20 s at most", got)
		}
	})
}
