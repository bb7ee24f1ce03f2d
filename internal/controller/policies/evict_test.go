// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// asking is a world with an Eviction API.
type asking struct {
	*world

	forbidden atomic.Bool // asks are forbidden
	asked     atomic.Int32
	stale     atomic.Int32 // asked about another UID
	calls     sync.Mutex   // one after the other, as those about one budget are
}

// playAsking runs a test in a world with a policy that asks, and pods that are ready.
func playAsking(t *testing.T, test func(w *asking)) {
	t.Helper()
	play(t, func(in *world) {
		w := &asking{world: in}
		w.Client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authorizationv1.SelfSubjectAccessReview{
				Status: authorizationv1.SubjectAccessReviewStatus{Allowed: !w.forbidden.Load()},
			}, nil
		})
		w.Client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetSubresource() != "eviction" {
				return false, nil, nil
			}
			eviction := action.(clienttesting.CreateActionImpl).Object.(*policyv1.Eviction)
			return true, nil, w.evict(eviction)
		})
		test(w)
	})
}

// evict is the Eviction API, as far as policies depend on it (k8s.io/kubernetes/pkg/registry/core/pod/storage).
func (w *asking) evict(eviction *policyv1.Eviction) error {
	w.asked.Add(1)
	w.calls.Lock()
	defer w.calls.Unlock()
	object, err := w.API.Get(corev1.SchemeGroupVersion.WithResource("pods"), eviction.Namespace, eviction.Name)
	if err != nil {
		return err
	}
	pod := object.(*corev1.Pod)
	if err := w.passes(pod); err != nil {
		return err
	}
	if is := eviction.DeleteOptions.Preconditions.UID; is == nil || *is != pod.UID {
		w.stale.Add(1)
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, fmt.Errorf("the UID in the precondition does not match"))
	}
	return w.API.Delete(corev1.SchemeGroupVersion.WithResource("pods"), pod.Namespace, pod.Name)
}

// passes deducts the eviction of a pod from its budget. It does not know which pod the client meant.
func (w *asking) passes(pod *corev1.Pod) error {
	switch pod.Status.Phase {
	case corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed:
		return nil
	}
	of, err := w.budgetsOf(pod)
	switch {
	case err != nil || len(of) == 0:
		return err
	case len(of) > 1:
		return apierrors.NewInternalError(fmt.Errorf("this pod has more than one PodDisruptionBudget"))
	}
	switch status := &of[0].Status; {
	case !isTrue(pod, corev1.PodReady) && of[0].Spec.UnhealthyPodEvictionPolicy != nil:
		return nil
	case !isTrue(pod, corev1.PodReady) && status.CurrentHealthy >= status.DesiredHealthy && status.DesiredHealthy > 0:
		return nil
	case status.ObservedGeneration < of[0].Generation:
		return apierrors.NewTooManyRequests("The disruption budget is still being processed by the server.", 10)
	case status.DisruptionsAllowed == 0:
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	default:
		status.DisruptionsAllowed--
		return w.API.Update(budgetsResource, &of[0], of[0].Namespace)
	}
}

// budgetsOf returns the stored budgets of a pod.
func (w *asking) budgetsOf(pod *corev1.Pod) (of []policyv1.PodDisruptionBudget, err error) {
	all, err := w.API.List(budgetsResource, policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), pod.Namespace)
	if err != nil {
		return nil, err
	}
	for _, is := range all.(*policyv1.PodDisruptionBudgetList).Items {
		if selector, _ := metav1.LabelSelectorAsSelector(is.Spec.Selector); selector.Matches(labels.Set(pod.Labels)) {
			of = append(of, is)
		}
	}
	return of, nil
}

func isTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

var budgetsResource = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")

// addBudget creates a budget for pods with a label, which allows the given number of disruptions.
func (w *asking) addBudget(name, app string, allowed int32) {
	w.T.Helper()
	w.Must(w.Client.PolicyV1().PodDisruptionBudgets("default").Create(w.T.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}, metav1.CreateOptions{}))
	synctest.Wait()
}

// allow changes what budget web allows.
func (w *asking) allow(allowed int32) {
	w.T.Helper()
	is, err := w.Client.PolicyV1().PodDisruptionBudgets("default").Get(w.T.Context(), "web", metav1.GetOptions{})
	w.Must(nil, err)
	is.Status.DisruptionsAllowed = allowed
	w.Must(w.Client.PolicyV1().PodDisruptionBudgets("default").Update(w.T.Context(), is, metav1.UpdateOptions{}))
	synctest.Wait()
}

// isReady makes a pod one that became ready or not ready some time ago.
func isReady(status corev1.ConditionStatus, since time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-since)),
		}}
	}
}

var ready4ever = isReady(corev1.ConditionTrue, time.Hour)

func (w *asking) addWeb(pods int) {
	w.T.Helper()
	for i := range pods {
		w.AddPod(fmt.Sprintf("web%d", i), "n", labeled("app", "web"), ready4ever)
	}
}

// wantThere checks how many pods there are in namespace default.
func (w *asking) wantThere(pods int) {
	w.T.Helper()
	all, err := w.Client.CoreV1().Pods("default").List(w.T.Context(), metav1.ListOptions{})
	w.Must(nil, err)
	if len(all.Items) != pods {
		w.T.Errorf("after %s %d pods are there, want %d", w.Now(), len(all.Items), pods)
	}
}

func (w *asking) wantAsked(least, most int32) {
	w.T.Helper()
	if got := w.asked.Load(); got < least || got > most {
		w.T.Errorf("after %s the Eviction API was asked %d times, want %d to %d", w.Now(), got, least, most)
	}
	if stale := w.stale.Load(); stale != 0 {
		w.T.Errorf("the Eviction API was asked %d times about a pod that was replaced", stale)
	}
}

func evicts(deadline time.Duration) v1alpha1.EvictionPolicySpec {
	spec := hold(deadline)
	spec.Action = v1alpha1.ActionEvict
	return spec
}

func TestAPodWithoutABudgetIsAskedAboutOnce(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addWeb(3)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(2 * sec)
		w.wantThere(0)
		w.wantAsked(3, 3)
		w.wantCount("patch web", 0)
		w.wantCount("delete web", 0)
	})
}

func TestABudgetThatAllowsOneAtATimeIsRespected(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 1)
		w.addWeb(3)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		for left := 2; left >= 0; left-- {
			w.Pass(20 * sec)
			w.wantThere(left)
			w.allow(1)
		}
		w.Pass(2 * sec)
		w.wantThere(0)
		w.wantAsked(3, 6) // the watch of the budget may be behind
	})
}

func TestABudgetThatAllowsNothingCostsHardlyAnyCalls(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 0)
		w.addWeb(50)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(4 * time.Minute)
		w.wantThere(50)
		w.wantAsked(0, 3)
		w.wantNumbers("ask", 50, 50, 50)
		w.wantCondition("ask", v1alpha1.ConditionHolding, "Budget", "")
		w.wantCount("event web7 EvictionHeld: Pod default/web7 is due to leave, but stays: EvictionPolicy ask asks the Eviction API, and a PodDisruptionBudget allows no disruption: default/web", 1)
		w.allow(50)
		w.Pass(5 * sec)
		w.wantThere(0)
	})
}

func TestTwoBudgetsOnAPodCostNoCalls(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(10*time.Minute))
		w.addBudget("one", "web", 5)
		w.addBudget("two", "web", 5)
		w.addWeb(2)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(5 * time.Minute)
		w.wantThere(2)
		w.wantAsked(0, 0)
		w.wantCondition("ask", v1alpha1.ConditionHolding, "SeveralBudgets", "")
		w.Pass(6 * time.Minute)
		w.wantLeft(map[string]time.Duration{"web0": 10*time.Minute + 10*sec, "web1": 10*time.Minute + 10*sec})
	})
}

func TestAPodThatHasNotBeenReadyIsDeletedUnlessThePolicyAsks(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		always := evicts(time.Minute)
		always.Unready = v1alpha1.UnreadyAsk
		always.PodSelector = matching("app", "quorum")
		w.add("always", always)
		w.addBudget("web", "web", 0)
		w.addBudget("quorum", "quorum", 0)
		w.AddPod("old", "n", labeled("app", "web"), isReady(corev1.ConditionFalse, time.Minute))
		w.AddPod("new", "n", labeled("app", "web"), isReady(corev1.ConditionFalse, -9*sec))
		w.AddPod("quorum", "n", labeled("app", "quorum"), isReady(corev1.ConditionFalse, time.Minute))
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Until(9 * time.Minute)
		w.wantLeft(map[string]time.Duration{"old": 10 * sec, "new": 40 * sec, "quorum": 70 * sec})
		w.wantAsked(0, 1)
	})
}

func TestANamespaceWhoseAsksHangLeavesRoomForOthers(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		for i := range 6 {
			namespace := fmt.Sprint("hangs", i)
			w.addNamespace(namespace, nil)
			for j := range 60 {
				w.AddPod(fmt.Sprintf("%s-%d", namespace, j), "n", ready4ever, func(pod *corev1.Pod) { pod.Namespace = namespace })
			}
		}
		for i := range 60 {
			w.AddPod(fmt.Sprint("web", i), "m", ready4ever)
		}
		w.run(func(c *eviction.Config) {
			hang := func(ctx context.Context, q bubble.Request) error {
				if q.Verb == "evict" && strings.HasPrefix(q.Name, "hangs") {
					return bubble.Takes(ctx, 10*sec)
				}
				return nil
			}
			c.Client, c.EventClient = &bubble.Slow{Clientset: w.Client, Before: hang}, w.Client
		})
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(2 * sec)
		w.Taint("m", "k:NoExecute")
		w.Pass(20 * sec)
		w.wantThere(0)
	})
}

func TestANodeThatIsNotReadyCostsItsPodsTheirBudgetOnlyAfterAWhile(t *testing.T) {
	playAsking(t, func(w *asking) {
		turns := func(status corev1.ConditionStatus) {
			w.ChangeNode("n", func(node *corev1.Node) {
				node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now()}}
			})
		}
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 0)
		w.addWeb(3)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * sec)
		turns(corev1.ConditionFalse)
		w.Pass(sec)
		turns(corev1.ConditionTrue)
		w.Until(2 * time.Minute)
		w.wantThere(3)
		turns(corev1.ConditionFalse)
		w.Pass(20 * sec)
		turns(corev1.ConditionUnknown) // which does not start again
		w.Pass(time.Minute)
		w.wantLeft(left(150*sec, "web0", "web1", "web2"))
	})
}

func TestUnreadyPodsThatTheEvictionAPILetsGoNeedNoPlaceInTheirBudget(t *testing.T) {
	always := policyv1.AlwaysAllow
	unready := isReady(corev1.ConditionFalse, time.Minute)
	for name, test := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		later  bool // the budget changes while the pods wait
		pod    func(*corev1.Pod)
	}{
		"a budget with enough healthy pods": {change: func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DesiredHealthy = 2, 2 }, pod: unready},
		"a budget that has them later":      {change: func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DesiredHealthy = 2, 2 }, pod: unready, later: true},
		"a budget that always allows it":    {change: func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = &always }, pod: unready},
		"pods that are pending": {change: func(*policyv1.PodDisruptionBudget) {}, pod: func(pod *corev1.Pod) {
			unready(pod)
			pod.Status.Phase = corev1.PodPending
		}},
	} {
		t.Run(name, func(t *testing.T) {
			playAsking(t, func(w *asking) {
				spec := evicts(0)
				spec.Unready = v1alpha1.UnreadyAsk
				w.add("polite", spec)
				for i := range 4 {
					w.AddPod(fmt.Sprint("web", i), "n", labeled("app", "web"), test.pod)
				}
				w.addBudget("web", "web", 0)
				change := func() {
					is, err := w.Client.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), "web", metav1.GetOptions{})
					w.Must(nil, err)
					test.change(is)
					w.Must(w.Client.PolicyV1().PodDisruptionBudgets("default").Update(t.Context(), is, metav1.UpdateOptions{}))
				}
				if !test.later {
					change()
				}
				w.run()
				w.Until(10 * sec)
				w.Taint("n", "k:NoExecute")
				w.Pass(10 * sec)
				if test.later {
					w.wantThere(4)
					change()
				}
				w.Pass(2 * sec)
				w.wantThere(0)
				w.wantAsked(4, 4)
			})
		})
	}
}

func TestWithoutTheBudgetsPodsStayUntilTheDeadline(t *testing.T) {
	playUnableToAsk(t, "BudgetsUnread", func(w *asking) {
		w.On("list", "poddisruptionbudgets", "", func() error { return errRefused })
	})
}

func TestWithoutTheRightToAskPodsStayUntilTheDeadline(t *testing.T) {
	playUnableToAsk(t, "NotPermitted", func(w *asking) { w.forbidden.Store(true) })
}

// playUnableToAsk plays a cluster in which Taintkeeper cannot ask about a pod, and wants the pod to stay until the
// policy's deadline, for the given reason.
func playUnableToAsk(t *testing.T, reason string, prevent func(w *asking)) {
	t.Helper()
	playAsking(t, func(w *asking) {
		prevent(w)
		w.add("ask", evicts(time.Minute))
		w.addWeb(1)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(30 * sec)
		w.wantCondition("ask", v1alpha1.ConditionHolding, reason, "")
		w.Pass(time.Minute)
		w.wantLeft(map[string]time.Duration{"web0": 70 * sec})
		w.wantAsked(0, 0)
	})
}

func TestAPodThatIsReplacedWhileItWaitsIsNotAskedAbout(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 0)
		w.addWeb(1)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(10 * sec)
		w.API.Watches("pods").Hold()
		time.AfterFunc(5*sec, w.API.Watches("pods").Expire)
		w.DeletePod("default", "web0")
		w.AddPod("web0", "m", labeled("app", "web"), ready4ever, func(pod *corev1.Pod) { pod.UID = types.UID("another") })
		w.allow(1)
		w.Pass(time.Minute)
		w.wantThere(1)
		w.wantAsked(0, 0)
	})
}

func TestTheDeadlineEndsTheAskingWhileABudgetAllows(t *testing.T) {
	playAsking(t, func(w *asking) {
		spec := evicts(30 * sec)
		w.add("ask", spec)
		w.addBudget("web", "web", 0)
		w.AddPod("web0", "n", labeled("app", "web"), ready4ever, scene.Tolerating("k", 5))
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Until(2 * time.Minute)
		w.wantLeft(map[string]time.Duration{"web0": 45 * sec})
		w.wantCount("patch web0", 1)
	})
}

func TestAnEvictionAPIThatFailsIsAskedMoreAndMoreRarely(t *testing.T) {
	const pods = 12
	for _, failure := range []error{
		apierrors.NewInternalError(errors.New("etcdserver: no leader")),
		apierrors.NewTooManyRequests("too many requests", 0),
		errors.New("connection refused"),
	} {
		playAsking(t, func(w *asking) {
			var fails atomic.Bool
			var calls atomic.Int32
			fails.Store(true)
			w.On("create", "pods", "eviction", func() error {
				if !fails.Load() {
					return nil
				}
				calls.Add(1)
				return failure
			})
			w.add("ask", evicts(0))
			w.addBudget("web", "web", pods)
			for i := range pods {
				w.AddPod(fmt.Sprint("web", i), []string{"n", "m"}[i%2], labeled("app", "web"), ready4ever)
			}
			w.run()
			w.Until(10 * sec)
			w.Taint("n", "k:NoExecute")
			w.Taint("m", "k:NoExecute")
			w.Pass(5 * time.Minute)
			if got := calls.Load(); got > pods*30 {
				t.Errorf("%v: the Eviction API was asked %d times", failure, got)
			}
			fails.Store(false)
			w.Pass(2 * time.Minute)
			w.wantThere(0)
			w.wantAsked(pods, pods)
		})
	}
}

func TestAPodThatOneTaintLetsGoIsAskedAboutIfThatTaintIsGone(t *testing.T) {
	playAsking(t, func(w *asking) {
		spec := evicts(0)
		spec.Taints = []v1alpha1.EvictionPolicyTaint{{Key: "y"}}
		w.add("ask", spec)
		w.AddPod("web0", "n", ready4ever, scene.Tolerating("x", 5), scene.Tolerating("y", 5))
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "x:NoExecute", "y:NoExecute")
		w.Until(14 * sec)
		w.API.Watches("nodes").Hold()
		w.Taint("n", "x-")
		w.Pass(3 * sec)
		w.API.Watches("nodes").Expire()
		w.Pass(20 * sec)
		w.wantThere(0)
		w.wantAsked(1, 1)
		w.wantCount("patch web0", 0)
	})
}

func TestAPodThatWasReadyWhileThereWasNoPolicyIsAskedAbout(t *testing.T) {
	playAsking(t, func(w *asking) {
		turns := func(status corev1.ConditionStatus) {
			w.ChangePod("web0", isReady(status, 0))
		}
		w.add("ask", evicts(0))
		w.addBudget("web", "web", 0)
		w.addWeb(1)
		w.run()
		w.Until(10 * sec)
		turns(corev1.ConditionFalse)
		w.Taint("n", "k:NoExecute")
		w.Pass(5 * sec)
		w.Taint("n", "k-")
		w.remove("ask")
		w.Pass(30 * sec)
		turns(corev1.ConditionTrue)
		w.Pass(30 * sec)
		turns(corev1.ConditionFalse)
		w.add("ask", evicts(0))
		w.Taint("n", "k:NoExecute")
		w.Pass(20 * sec)
		w.wantThere(1)
	})
}

// That it has settled is found out by the eviction that wants to delete the pod, not by a change of its node.
func TestTheDeadlineEndsRefusedAsksOfAPodWhoseBreakerHadToSettleToo(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){"due at once": func(*corev1.Pod) {}, "due after 10 s": scene.Tolerating("k", 10)} {
		t.Run(name, func(t *testing.T) {
			playAsking(t, func(w *asking) {
				w.On("create", "pods", "eviction", func() error {
					return apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New(`admission webhook "no" denied the request`))
				})
				spec := evicts(20 * time.Minute)
				spec.Breaker = breakerOf(intstr.FromInt32(100)).Breaker // it settles for 10 s
				w.add("ask", spec)
				w.AddPod("web", "n", labeled("app", "web"), ready4ever, change)
				w.run()
				w.Until(10 * sec)
				w.Taint("n", "k:NoExecute")
				settled := 20 * sec
				if name != "due at once" {
					settled += 10 * sec
				}
				w.Until(40 * time.Minute)
				w.wantLeft(left(settled+20*time.Minute, "web"))
			})
		})
	}
}

// The pod stays in the lane of pods to ask about, with a backoff of minutes.
func TestTheDeadlineEndsRefusedAsksThoughTheBudgetAllowsNothingMeanwhile(t *testing.T) {
	playAsking(t, func(w *asking) {
		w.On("create", "pods", "eviction", func() error {
			return apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New(`admission webhook "no" denied the request`))
		})
		w.add("ask", evicts(20*time.Minute))
		w.addBudget("web", "web", 1)
		w.AddPod("web", "n", labeled("app", "web"), ready4ever, scene.Tolerating("k", 10))
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Until(20 * time.Minute)
		w.allow(0)
		w.Until(40 * time.Minute)
		w.wantLeft(left(20*sec+20*time.Minute, "web"))
	})
}
