// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func forNoTime(key, value string) corev1.Toleration {
	return corev1.Toleration{
		Key: key, Operator: corev1.TolerationOpEqual, Value: value, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(0)),
	}
}

// wantTolerations fails unless pod p has exactly these tolerations.
func (w *world) wantTolerations(want ...corev1.Toleration) {
	w.T.Helper()
	if got := w.Pod("p").Spec.Tolerations; !apiequality.Semantic.DeepEqual(got, want) {
		w.T.Errorf("pod p tolerates %v, want %v", got, want)
	}
}

// wantRejected restarts the kubelets of both nodes.
func (w *world) wantRejected(want ...string) {
	w.T.Helper()
	if got := slices.Sorted(slices.Values(slices.Concat(w.RestartKubelet("n"), w.RestartKubelet("m")))); !slices.Equal(got, want) {
		w.T.Errorf("the kubelets end %v, want %v", got, want)
	}
}

func TestAHeldPodSurvivesARestartOfItsKubelet(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(0))
		w.AddPod("p", "n", scene.Tolerating("b", 10))
		w.run()
		w.Taint("n", "a=1:NoExecute", "b:NoExecute", "c:NoSchedule", "d:NoExecute")
		w.Pass(sec)
		w.wantRejected()
		b := w.Pod("p").Spec.Tolerations[0]
		w.wantTolerations(b, forNoTime("a", "1"), forNoTime("d", ""))
		w.wantCount("keep p", 1)
		w.wantCount("event p TolerationAdded: Pod default/p is due to leave, but stays: added a toleration of a=1:NoExecute and d:NoExecute for 0 seconds", 1)
		w.Until(40 * sec)
		w.remove("stay")
		w.Pass(sec)
		w.wantLeft(map[string]time.Duration{"p": 40 * sec})
	})
}

func TestATolerationOfOursPostponesNoLaterEviction(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(0))
		w.AddPod("p", "n")
		w.run()
		w.Taint("n", "k=1:NoExecute")
		w.Pass(sec)
		w.Taint("n", "k-")
		w.Until(10 * sec)
		w.wantTolerations(forNoTime("k", "1")) // it may stay
		w.Taint("n", "k=1:NoExecute")
		w.Pass(sec)
		w.Taint("n", "k=2:NoExecute")
		w.Pass(sec)
		w.wantTolerations(forNoTime("k", "1"), forNoTime("k", "2"))
		w.wantCount("keep p", 2)
		w.wantRejected()
		w.Taint("n", "k-")
		w.remove("stay")
		w.Until(20 * sec)
		w.wantLeft(nil)
		w.Taint("n", "k=2:NoExecute")
		w.Pass(sec)
		w.wantLeft(map[string]time.Duration{"p": 20 * sec})
	})
}

func TestOnlyPodsThatMustBeKeptAliveGetAToleration(t *testing.T) {
	play(t, func(w *world) {
		spec := hold(0)
		spec.PodSelector = matching("app", "db")
		w.add("stay", spec)
		db := func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "db"} }
		w.AddPod("leaves", "n")
		w.AddPod("tolerates", "n", db, scene.Indefinitely("k"))
		w.AddPod("counts", "n", db, scene.Tolerating("k", 10)) // what matches for a while is enough for a kubelet
		w.AddPod("elsewhere", "m", db)
		w.AddPod("mirror", "n", db, func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		})
		w.AddPod("finished", "n", db, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
		w.AddPod("ends", "n", db, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) })
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Pass(time.Minute)
		w.wantLeft(map[string]time.Duration{"leaves": 0})
		w.wantCount("keep", 0)
		w.wantRejected()
	})
}

func TestADryRunKeepsNoPodAlive(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(0))
		w.AddPod("p", "n")
		w.run(func(c *eviction.Config) { c.Mode = eviction.DryRun })
		w.Taint("n", "k:NoExecute")
		w.Pass(time.Minute)
		w.wantCount("keep", 0)
		w.wantRejected("p")
	})
}

func TestPodsThatAreDueFirstAreKeptAliveFirstAndNotAllAtOnce(t *testing.T) {
	play(t, func(w *world) {
		w.add("stay", hold(0))
		for i := range 100 {
			w.AddPod(fmt.Sprintf("later-%d", i), "m")
		}
		for i := range 100 {
			w.AddPod(fmt.Sprintf("first-%d", i), "n")
		}
		for node, since := range map[string]time.Duration{"n": 0, "m": 10 * sec} {
			w.SetTaints(node, corev1.Taint{
				Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(w.Start.Add(since))),
			})
		}
		w.Until(20 * sec)
		w.run()
		w.Pass(10 * sec)
		kept := w.Book.Calls()
		kept = slices.DeleteFunc(kept, func(call bubble.Call) bool { return !strings.HasPrefix(call.What, "keep ") })
		if len(kept) != 200 {
			t.Fatalf("%d pods are kept alive, want 200", len(kept))
		}
		for i, call := range kept {
			if first := strings.HasPrefix(call.What, "keep first"); first != (i < 100) && (i >= 10 && i < 100 || i >= 110) {
				t.Errorf("number %d is %q", i, call.What)
			}
		}
		for i := 51; i < 200; i++ {
			if passed := kept[i].At - kept[i-51].At; passed < sec {
				t.Errorf("51 PATCHes in %v, want at most 50 in a second", passed)
			}
		}
		w.wantRejected()
	})
}

func TestAPodThatCannotBeKeptAliveIsHeldAndTriedAgain(t *testing.T) {
	for name, refusal := range map[string]error{
		"a webhook refuses":  apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("admission webhook \"no.test\" denied the request")),
		"nobody answers":     errors.New("connection refused"),
		"another changes it": apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("the object has been modified")),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.add("stay", hold(0))
				w.AddPod("p", "n")
				var passes atomic.Bool
				w.On("patch", "pods", "", func() error {
					if passes.Load() {
						return nil
					}
					return refusal
				})
				w.run()
				w.Taint("n", "k:NoExecute")
				w.Until(3 * sec)
				passes.Store(true)
				w.wantLeft(nil)
				w.wantTolerations()
				w.Pass(10 * sec)
				w.wantTolerations(forNoTime("k", ""))
				w.remove("stay")
				w.Pass(sec)
				w.wantLeft(map[string]time.Duration{"p": 13 * sec})
			})
		})
	}
}
