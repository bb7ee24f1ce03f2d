// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// counts counts the calls of a verb on pods from now on.
func (w *asking) counts(verb string) *atomic.Int32 {
	var calls atomic.Int32
	w.Client.PrependReactor(verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		calls.Add(1)
		return false, nil, nil
	})
	return &calls
}

func (w *asking) wantCalls(what string, calls *atomic.Int32, want int32) {
	w.T.Helper()
	if got := calls.Load(); got != want {
		w.T.Errorf("after %s there were %d %s of pods, want %d", w.Now(), got, what, want)
	}
}

// selectBy changes which pods a budget of namespace default selects.
func (w *asking) selectBy(name, app string) {
	w.T.Helper()
	is, err := w.Client.PolicyV1().PodDisruptionBudgets("default").Get(w.T.Context(), name, metav1.GetOptions{})
	w.Must(nil, err)
	is.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	w.Must(w.Client.PolicyV1().PodDisruptionBudgets("default").Update(w.T.Context(), is, metav1.UpdateOptions{}))
	synctest.Wait()
}

// addKeys creates a budget that selects by label keys of its own.
func (w *asking) addKeys(namespace, name string, keys int) {
	w.T.Helper()
	selector := map[string]string{}
	for i := range keys {
		selector[fmt.Sprintf("%s.example/key%d", name, i)] = "x"
	}
	w.Must(w.Client.PolicyV1().PodDisruptionBudgets(namespace).Create(w.T.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}},
	}, metav1.CreateOptions{}))
	synctest.Wait()
}

func TestBudgetsWithNewLabelKeysListNoPodsAndMakeNoOtherNamespaceWait(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addNamespace("tenant", nil)
		w.addBudget("web", "web", 100)
		w.addWeb(4)
		w.run()
		w.Until(10 * sec)
		w.On("list", "pods", "", func() error { return errRefused }) // a large list takes long
		lists := w.counts("list")
		for i := range 20 {
			w.addKeys("tenant", fmt.Sprint("b", i), 3)
			w.Pass(sec / 10)
		}
		w.Taint("n", "k:NoExecute")
		w.addKeys("tenant", "late", 3)
		w.Pass(2 * sec)
		w.wantCalls("lists", lists, 0)
		w.wantAsked(4, 8)
		w.wantGone("web0", "web1", "web2", "web3")
	})
}

// wantGone checks that pods of namespace default are gone, without a list of pods.
func (w *asking) wantGone(names ...string) {
	w.T.Helper()
	for _, name := range names {
		if _, err := w.API.Get(corev1.SchemeGroupVersion.WithResource("pods"), "default", name); err == nil {
			w.T.Errorf("after %s pod %s is still there", w.Now(), name)
		}
	}
}

func TestABudgetWithManyLabelKeysCostsNoMemoryAPod(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 0)
		w.addWeb(5)
		w.run()
		w.addKeys("default", "big", 60000)
		w.Taint("n", "k:NoExecute")
		w.Pass(10 * sec)
		if keys := w.follower.labels.wanted; len(keys) > 0 {
			t.Errorf("records of all pods keep the labels of %d keys", len(keys))
		}
		if got := len(w.follower.facts.in["default"].pods); got != 5 {
			t.Errorf("the labels of %d pods are known, want those of the 5 due ones", got)
		}
	})
}

func TestALabelChangeOfADuePodMovesItToTheOtherBudget(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 0)
		w.addBudget("api", "api", 5)
		w.addWeb(2)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(10 * sec)
		w.wantThere(2)
		w.ChangePod("web1", labeled("app", "api"))
		w.Pass(2 * sec)
		w.wantThere(1)
		w.wantAsked(1, 1)
		w.ChangePod("web0", labeled("app", "none"))
		w.Pass(2 * sec)
		w.wantThere(0)
		w.wantAsked(2, 2)
	})
}

func TestABudgetThatSelectsOtherPodsIsMatchedWithoutAnotherRead(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 0)
		w.addWeb(3)
		w.run()
		w.Until(10 * sec)
		gets := w.counts("get")
		w.Taint("n", "k:NoExecute")
		w.Pass(10 * sec)
		w.wantCalls("reads", gets, 2*3) // again when it has got a toleration
		w.addBudget("second", "web", 5)
		w.Pass(2 * sec)
		w.wantCondition("ask", v1alpha1.ConditionHolding, "SeveralBudgets", "")
		w.wantCalls("reads", gets, 2*3)
		w.selectBy("web", "api")
		w.Pass(2 * sec)
		w.wantThere(0)
		w.wantAsked(3, 3)
	})
}

func TestReadsFollowWhatIsDue(t *testing.T) {
	playAsking(t, func(w *asking) {
		paused := evicts(0)
		paused.Paused = new("looking at it")
		paused.Action = v1alpha1.ActionHold
		paused.NodeSelector = matching("zone", "m")
		w.ChangeNode("m", func(node *corev1.Node) { node.Labels["zone"] = "m" })
		w.add("ask", evicts(0))
		w.add("pause", paused)
		w.addBudget("web", "web", 0)
		w.addWeb(3)
		w.AddPod("later", "n", labeled("app", "web"), ready4ever, scene.Tolerating("k", 600))
		w.AddPod("held", "m", labeled("app", "web"), ready4ever)
		w.run()
		gets := w.counts("get")
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Taint("m", "k:NoExecute")
		w.Pass(4 * time.Minute)
		w.wantCalls("reads", gets, 2*3)
		w.wantNumbers("ask", 5, 4, 3)
		w.wantNumbers("pause", 1, 1, 1)
		for range 10 { // at most one read a second
			w.ChangePod("web0", func(pod *corev1.Pod) { pod.Annotations = map[string]string{"now": time.Now().String()} })
			w.Pass(sec / 10)
		}
		gets.Store(0)
		w.Pass(2 * sec)
		if got := gets.Load(); got > 2 {
			t.Errorf("a pod that changed was read %d times in 2 s", got)
		}
		gets.Store(0)
		w.Taint("n", "k-")
		w.Pass(10 * sec)
		w.wantCalls("reads", gets, 0)
		if left := len(w.follower.facts.in); left != 0 {
			t.Errorf("the labels of pods in %d namespaces are known although no pod is asked about", left)
		}
	})
}

func TestReadsRespectTheRateLimit(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 0)
		w.addWeb(6)
		w.limiter = rate.NewLimiter(1, 1)
		w.run()
		w.Until(10 * sec)
		gets := w.counts("get")
		w.Taint("n", "k:NoExecute")
		w.Pass(5 * sec / 2)
		w.wantCalls("reads", gets, 3)
		w.Pass(20 * sec)
		w.wantCalls("reads", gets, 2*6)
	})
}

func TestANamespaceWithoutBudgetsCostsNoReads(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addNamespace("tenant", nil)
		w.addKeys("tenant", "other", 1)
		w.addWeb(3)
		w.run()
		w.Until(10 * sec)
		gets := w.counts("get")
		w.Taint("n", "k:NoExecute")
		w.Pass(2 * sec)
		w.wantThere(0)
		w.wantCalls("reads", gets, 3) // one before each call of the Eviction API
	})
}

func TestAFailedReadIsRetriedAndDeletesNothing(t *testing.T) {
	playAsking(t, func(w *asking) {
		var fails atomic.Bool
		var calls atomic.Int32
		fails.Store(true)
		w.On("get", "pods", "", func() error {
			if !fails.Load() {
				return nil
			}
			calls.Add(1)
			return errRefused
		})
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 5)
		w.addWeb(3)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(2 * time.Minute)
		w.wantThere(3)
		w.wantAsked(0, 0)
		w.wantCount("delete web", 0)
		w.wantCount("keep web", 3) // after a minute
		w.wantCount("event web", 3)
		w.wantCondition("ask", v1alpha1.ConditionHolding, "PodUnread", "")
		if got := calls.Load(); got < 4 || got > 20 {
			t.Errorf("in 2 minutes it read %d times, want a few", got)
		}
		fails.Store(false)
		w.Pass(40 * sec)
		w.wantThere(0)
		w.wantAsked(3, 6)
	})
}

func TestNoStatusSaysThatPodsAreUnreadForAMoment(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 0)
		w.addWeb(3)
		w.core = &bubble.Slow{Clientset: w.Client, Before: func(ctx context.Context, _ bubble.Request) error {
			return bubble.Takes(ctx, sec/5)
		}}
		w.run()
		w.Until(20 * sec)
		w.Taint("n", "k:NoExecute")
		for range 10 {
			w.Pass(sec / 10)
			if c := meta.FindStatusCondition(w.status("ask").Conditions, v1alpha1.ConditionHolding); c.Reason == "PodUnread" {
				t.Errorf("after %s the policy says: %s", w.Now(), c.Message)
			}
		}
		w.Pass(2 * sec)
		w.wantCondition("ask", v1alpha1.ConditionHolding, "Budget", "")
	})
}

func TestReadsThatHangInANamespaceMakeNoOtherWait(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addNamespace("hangs", nil)
		w.addKeys("hangs", "some", 1)
		w.addBudget("web", "web", 20)
		for i := range 20 {
			w.AddPod(fmt.Sprint("hangs", i), "n", ready4ever, func(pod *corev1.Pod) { pod.Namespace = "hangs" })
		}
		w.addWeb(10)
		w.core = &bubble.Slow{Clientset: w.Client, Before: func(ctx context.Context, q bubble.Request) error {
			if strings.HasPrefix(q.Name, "hangs") {
				return bubble.Takes(ctx, 10*sec)
			}
			return nil
		}}
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(5 * sec)
		w.wantThere(0)
	})
}

func TestABreakerNeitherTripsNorLetsAnyPodGoWhilePodsAreUnread(t *testing.T) {
	for name, test := range map[string]struct {
		allowed int32
		tripped bool
	}{
		"a budget that keeps them":        {0, false},
		"a budget that lets too many go":  {10, true},
		"a budget that lets only some go": {2, false},
	} {
		t.Run(name, func(t *testing.T) {
			playAsking(t, func(w *asking) {
				brake := evicts(0)
				brake.Breaker = &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(2), Settle: &metav1.Duration{}}
				w.add("brake", brake)
				w.addBudget("web", "web", test.allowed)
				w.addWeb(5)
				var reads atomic.Int32
				w.core = &bubble.Slow{Clientset: w.Client, Before: func(ctx context.Context, _ bubble.Request) error {
					reads.Add(1)
					if got := w.asked.Load(); got > 0 && reads.Load() < 5 {
						t.Errorf("it asked about %d pods before all were read", got)
					}
					return bubble.Takes(ctx, sec)
				}}
				w.run()
				w.Until(10 * sec)
				w.Taint("n", "k:NoExecute")
				w.Pass(20 * sec)
				trips := len(w.Did("event web0 EvictionHeld: Pod default/web0 is due to leave, but stays: EvictionPolicy brake has tripped"))
				if (trips > 0) != test.tripped {
					t.Errorf("it tripped %d times, want %t", trips, test.tripped)
				}
				w.wantThere(5 - map[bool]int{false: int(test.allowed)}[test.tripped])
			})
		})
	}
}
