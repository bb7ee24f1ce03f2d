// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

func besideBuiltIn(c *Config) { c.BuiltIn = &builtIn{} }

// markedByBuiltIn makes a pod one that kube-controller-manager has marked and not deleted.
func markedByBuiltIn(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: v1alpha1.TaintEvictionReason,
		Message: "Taint manager: deleting due to NoExecute taint",
	}}
}

// wantMark fails unless the pod's condition DisruptionTarget is as given.
func (w *world) wantMark(name string, status corev1.ConditionStatus, message string) {
	w.T.Helper()
	for _, condition := range w.Pod(name).Status.Conditions {
		if condition.Type != corev1.DisruptionTarget {
			continue
		}
		if condition.Status != status || condition.Message != message {
			w.T.Errorf("pod %s is marked %s %q, want %s %q", name, condition.Status, condition.Message, status, message)
		}
		return
	}
	w.T.Errorf("pod %s has no condition DisruptionTarget", name)
}

func TestTheBuiltInsMarkOfAPodThatStaysIsTakenOff(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("before", markedByBuiltIn)
		w.addPod("later")
		w.run(besideBuiltIn)
		w.Pass(sec)
		w.wantMark("before", corev1.ConditionFalse, v1alpha1.UnmarkMessage)
		w.ChangePod("later", markedByBuiltIn)
		w.Pass(sec)
		w.wantMark("later", corev1.ConditionFalse, v1alpha1.UnmarkMessage)
		w.wantDeletes(nil)
	})
}

func TestTheBuiltInsMarkOfAPodWhoseCountdownRunsIsTakenOffAndSetAgainByUs(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p", tolerating("k", 61), markedByBuiltIn)
		w.On("delete", "pods", "", func() error { return errors.New("not now") })
		w.run(besideBuiltIn)
		w.Pass(sec)
		w.wantMark("p", corev1.ConditionFalse, v1alpha1.UnmarkMessage)
		w.Pass(time.Minute)
		w.wantMark("p", corev1.ConditionTrue, v1alpha1.MarkMessage)
	})
}

func TestAPodThatTheBuiltInHasMarkedAndThatIsDueGetsOurMarkBeforeItIsDeleted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p", markedByBuiltIn)
		w.run(besideBuiltIn)
		w.Pass(sec)
		// A pod has one writer at a time. If the reclaimer is first, the eviction waits as for a lagging watch.
		if at := w.Did("delete p"); len(at) != 1 || at[0] > 500*ms {
			t.Errorf("deleted at %v, want once, at most 500 ms after it was due", at)
		}
		if patches := w.Did("patch p"); len(patches) == 0 {
			t.Error("deleted under the built-in's mark")
		}
	})
}

func TestWithoutTheBuiltInItsMarksAreLeftAlone(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", markedByBuiltIn)
		w.run()
		w.Pass(time.Minute)
		w.wantMark("p", corev1.ConditionTrue, "Taint manager: deleting due to NoExecute taint")
	})
}

// The built-in marks a pod again and the watch has not shown it: its version is not the one that we know.
func TestAMarkThatChangedMeanwhileIsRewrittenOnceItIsSeen(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p")
		fails := 2
		w.On("patch", "pods", "status", func() error {
			if fails--; fails >= 0 {
				return apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("changed"))
			}
			return nil
		})
		w.run(besideBuiltIn)
		w.ChangePod("p", markedByBuiltIn)
		w.Pass(time.Minute)
		w.wantMark("p", corev1.ConditionFalse, v1alpha1.UnmarkMessage)
		if got := len(w.Did("patch p")); got != 3 {
			t.Errorf("%d patches, want 3: two conflicts, and one that was accepted", got)
		}
	})
}
