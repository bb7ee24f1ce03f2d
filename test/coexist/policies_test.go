// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// held creates a policy that holds the pods of the scene.
func (s *scene) held(t *testing.T, ifDown v1alpha1.IfDown) {
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

func TestAHeldPodStaysBesideTheBuiltInAndIfDownSaysWhatBecomesOfItThen(t *testing.T) {
	for ifDown, stays := range map[v1alpha1.IfDown]bool{v1alpha1.IfDownEvict: false, v1alpha1.IfDownHold: true} {
		t.Run(string(ifDown), func(t *testing.T) {
			s := newScene(t)
			s.held(t, ifDown)
			keeper := s.keeper(t, "taintkeeper-"+string(ifDown))
			pod := s.pod(t, "held", 1)
			s.taint(t)
			for end := time.Now().Add(90 * time.Second); time.Now().Before(end); {
				await.Until(t, time.Now().Add(5*time.Second))
				await.Must(t, s.checkClock(t.Context(), func(age time.Duration) bool { return age < validFor/2 }))
			}
			s.wantThere(t, pod)

			await.Must(t, keeper.Kill())
			await.Until(t, time.Now().Add(validFor+5*time.Second))
			s.changeTaints(t, func(taints []corev1.Taint) []corev1.Taint {
				return append(taints, corev1.Taint{Key: s.key() + "-again", Effect: corev1.TaintEffectNoExecute})
			})
			if !stays {
				s.leavesBy(t, pod, byBuiltIn)
				return
			}
			await.Eventually(t, "the built-in is refused", func(context.Context) error {
				if len(s.calls(t, of(pod), byBuiltIn, forbidden)) == 0 {
					return errors.New("it was not")
				}
				return nil
			})
			s.wantThere(t, pod)
		})
	}
}
