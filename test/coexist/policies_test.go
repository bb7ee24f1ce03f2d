// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// held creates a policy that holds the pods of the scene.
func (s *scene) held(t *testing.T, ifDown v1alpha1.IfDown) *v1alpha1.EvictionPolicy {
	t.Helper()
	policy := &v1alpha1.EvictionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace},
		Spec: v1alpha1.EvictionPolicySpec{
			Action: v1alpha1.ActionHold, IfDown: ifDown,
			NamespaceSelector: &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{
				corev1.LabelMetadataName: v1alpha1.LabelValue(s.Namespace),
			}},
		},
	}
	await.Must(t, custom.Create(t.Context(), policy))
	t.Cleanup(func() { await.Must(t, custom.Delete(context.WithoutCancel(t.Context()), policy)) })
	return policy
}

// wantThere checks that a pod is there and was never marked by us.
func (s *scene) wantThere(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	is, err := admin.CoreV1().Pods(s.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	await.Must(t, err)
	if is.UID != pod.UID || is.DeletionTimestamp != nil {
		t.Errorf("pod %s has left", pod.Name)
	}
	if ours(markOf(is).Message) && markOf(is).Status == corev1.ConditionTrue {
		t.Errorf("pod %s is marked: %v", pod.Name, markOf(is))
	}
}

// TestAHeldPodStaysNextToTheBuiltInAndIfDownSaysWhatHappensToItThen holds a pod for more than a minute, after which a
// process that cannot keep its eviction clock ends.
func TestAHeldPodStaysNextToTheBuiltInAndIfDownSaysWhatHappensToItThen(t *testing.T) {
	leaves, stays := newScene(t), newScene(t)
	leaves.held(t, v1alpha1.IfDownEvict)
	stays.held(t, v1alpha1.IfDownHold)
	keeper := leaves.keeper(t, "taintkeeper")
	gone, kept := leaves.pod(t, "held", 1), stays.pod(t, "held", 1)
	await.Until(t, time.Now().Add(3*time.Second)) // the backlog of the storm may not concern the pods
	leaves.taint(t)
	stays.taint(t)
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); {
		await.Until(t, time.Now().Add(5*time.Second))
		await.Must(t, leaves.checkClock(t.Context(), func(age time.Duration) bool { return age < validFor/2 }))
	}
	leaves.wantThere(t, gone)
	stays.wantThere(t, kept)
	if keeper.PID() == 0 {
		t.Error("Taintkeeper has ended")
	}

	await.Must(t, keeper.Kill())
	await.Until(t, time.Now().Add(validFor+5*time.Second))
	for _, s := range []*scene{leaves, stays} {
		s.changeTaints(t, func(taints []corev1.Taint) []corev1.Taint {
			return append(taints, corev1.Taint{Key: s.key() + "-again", Effect: corev1.TaintEffectNoExecute})
		})
	}
	leaves.leavesBy(t, gone, byBuiltIn)
	await.Eventually(t, "the built-in is refused", func(context.Context) error {
		if len(stays.calls(t, of(kept), byBuiltIn, forbidden)) == 0 {
			return errors.New("it was not")
		}
		return nil
	})
	stays.wantThere(t, kept)
}

func TestACleanShutdownDoesNotTouchNodesWhosePodsAreHeld(t *testing.T) {
	s := newScene(t)
	policy := s.held(t, v1alpha1.IfDownEvict)
	keeper := s.keeper(t, "taintkeeper")
	pod := s.pod(t, "held", 0)
	s.taint(t)
	await.Eventually(t, "the pod is held", func(ctx context.Context) error {
		err := custom.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		if err == nil && policy.Status.Held != 1 {
			err = fmt.Errorf("the status is %+v", policy.Status)
		}
		return err
	})
	s.triedByBuiltIn(t, pod)
	stopped := time.Now()
	await.Must(t, keeper.Stop())
	if err := s.checkClock(t.Context(), func(time.Duration) bool { return true }); err == nil {
		t.Error("the clock is still there")
	}
	await.Until(t, time.Now().Add(5*time.Second)) // the built-in would already have tried again
	s.wantThere(t, pod)
	for _, c := range audit.All(t, byUs, auditlog.Since(stopped), auditlog.Named(s.node)) {
		if c.Verb != "get" {
			t.Errorf("it changes the node: %v", c)
		}
	}
}
