// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const holding = v1alpha1.ConditionHolding

// In most of these stories a policy asks the Eviction API about pods web0, web1 and so on.
func TestAsks(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	stories := map[string]func(w *world){
		"a pod that has not been ready is deleted, unless the policy asks": func(w *world) {
			w.add("ask", evicts(0))
			always := only("app", "quorum", evicts(time.Minute))
			always.Unready = v1alpha1.UnreadyAsk
			w.add("always", always)
			w.addBudget("web", "web", 0)
			w.addBudget("quorum", "quorum", 0)
			w.AddPod("old", "n", labeled("app", "web"), isReady(corev1.ConditionFalse, time.Minute))
			w.AddPod("new", "n", labeled("app", "web"), isReady(corev1.ConditionFalse, -9*sec))
			w.AddPod("quorum", "n", labeled("app", "quorum"), isReady(corev1.ConditionFalse, time.Minute))
			w.begins(10 * sec)
			w.Until(9 * time.Minute)
			w.wantLeft(map[string]time.Duration{"old": 10 * sec, "new": 40 * sec, "quorum": 70 * sec})
			w.wantAsked(0, 1)
		},
		"a node that is not ready costs its pods their budget only after a while": func(w *world) {
			turns := func(status corev1.ConditionStatus) {
				w.ChangeNode("n", func(node *corev1.Node) {
					node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Now()}}
				})
			}
			w.add("ask", evicts(0))
			w.addBudget("web", "web", 0)
			w.addWeb(3)
			w.begins(10 * sec)
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
		},
		"a pod that was ready while there was no policy is asked about": func(w *world) {
			turns := func(status corev1.ConditionStatus) { w.ChangePod("web0", isReady(status, 0)) }
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
		},
		"a budget that allows nothing costs hardly any calls": func(w *world) {
			w.add("ask", evicts(0))
			w.addBudget("web", "web", 0)
			w.addWeb(50)
			w.begins(10 * sec)
			w.Pass(4 * time.Minute)
			w.wantThere(50)
			w.wantAsked(0, 3)
			w.wantNumbers("ask", 50, 50, 50)
			w.wantCondition("ask", holding, "Budget", "")
			w.wantStays("web7", "EvictionPolicy ask asks the Eviction API, and a PodDisruptionBudget allows no disruption: default/web")
			w.allow(50)
			w.Pass(5 * sec)
			w.wantThere(0)
		},
		"a namespace whose asks hang leaves room for others": func(w *world) {
			w.add("ask", evicts(0))
			for i := range 6 {
				namespace := fmt.Sprint("hangs", i)
				w.addNamespace(namespace, nil)
				for j := range 60 {
					w.AddPod(fmt.Sprintf("%s-%d", namespace, j), "n", ready4ever, in(namespace))
				}
			}
			for i := range 60 {
				w.AddPod(fmt.Sprint("web", i), "m", ready4ever)
			}
			w.run(w.slow(func(ctx context.Context, q bubble.Request) error {
				if q.Verb == "evict" && strings.HasPrefix(q.Name, "hangs") {
					return bubble.Takes(ctx, 10*sec)
				}
				return nil
			}))
			w.Until(10 * sec)
			w.Taint("n", "k:NoExecute")
			w.Pass(2 * sec)
			w.Taint("m", "k:NoExecute")
			w.Pass(20 * sec)
			w.wantThere(0)
		},
		"a pod that one taint lets go is asked about if that taint is gone": func(w *world) {
			is := evicts(0)
			is.Taints = []v1alpha1.EvictionPolicyTaint{{Key: "y"}}
			w.add("ask", is)
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
		},
		// That it has settled is found out by the eviction that wants to delete the pod, not by a change of its node.
		"the deadline ends refused asks of a pod whose breaker had to settle, too": func(w *world) {
			w.refusesAsks()
			is := evicts(20 * time.Minute)
			is.Breaker = breakerOf(intstr.FromInt32(100)).Breaker // it settles for 10 s
			w.add("ask", is)
			w.AddPod("web", "n", labeled("app", "web"), ready4ever, scene.Tolerating("k", 10))
			w.begins(10 * sec)
			w.Until(40 * time.Minute)
			w.wantLeft(left(30*sec+20*time.Minute, "web"))
		},
		// The pod stays in the lane of pods to ask about, with a backoff of minutes.
		"the deadline ends refused asks though the budget allows nothing meanwhile": func(w *world) {
			w.refusesAsks()
			w.add("ask", evicts(20*time.Minute))
			w.addBudget("web", "web", 1)
			w.AddPod("web", "n", labeled("app", "web"), ready4ever, scene.Tolerating("k", 10))
			w.begins(10 * sec)
			w.Until(20 * time.Minute)
			w.allow(0)
			w.Until(40 * time.Minute)
			w.wantLeft(left(20*sec+20*time.Minute, "web"))
		},
	}
	for reason, prevent := range map[string]func(w *world){
		"BudgetsUnread": func(w *world) { w.On("list", "poddisruptionbudgets", "", func() error { return errRefused }) },
		"NotPermitted":  func(w *world) { w.forbidden.Store(true) },
	} {
		stories["while it cannot ask, pods stay until the deadline: "+reason] = func(w *world) {
			prevent(w)
			w.add("ask", evicts(time.Minute))
			w.addWeb(1)
			w.begins(10 * sec)
			w.Pass(30 * sec)
			w.wantCondition("ask", holding, reason, "")
			w.Pass(time.Minute)
			w.wantLeft(left(70*sec, "web0"))
			w.wantAsked(0, 0)
		}
	}
	for name, failure := range map[string]error{
		"no leader":         apierrors.NewInternalError(errors.New("etcdserver: no leader")),
		"too many requests": apierrors.NewTooManyRequests("too many requests", 0),
		"no connection":     errors.New("connection refused"),
	} {
		stories["an Eviction API that fails is asked more and more rarely: "+name] = func(w *world) {
			const pods = 12
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
			w.addWeb(pods)
			w.begins(10 * sec)
			w.Pass(5 * time.Minute)
			if got := calls.Load(); got > pods*30 {
				w.T.Errorf("the Eviction API was asked %d times", got)
			}
			fails.Store(false)
			w.Pass(2 * time.Minute)
			w.wantThere(0)
			w.wantAsked(pods, pods)
		}
	}
	unready := isReady(corev1.ConditionFalse, time.Minute)
	enough := func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.DesiredHealthy = 2, 2 }
	for name, test := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		later  bool // the budget changes while the pods wait
		pod    func(*corev1.Pod)
	}{
		"enough healthy pods":       {change: enough, pod: unready},
		"enough healthy pods later": {change: enough, pod: unready, later: true},
		"it always allows them": {change: func(b *policyv1.PodDisruptionBudget) {
			b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
		}, pod: unready},
		"they are pending": {change: func(*policyv1.PodDisruptionBudget) {}, pod: func(pod *corev1.Pod) {
			unready(pod)
			pod.Status.Phase = corev1.PodPending
		}},
	} {
		stories["unready pods that the Eviction API lets go need no place in their budget: "+name] = func(w *world) {
			is := evicts(0)
			is.Unready = v1alpha1.UnreadyAsk
			w.add("polite", is)
			for i := range 4 {
				w.AddPod(fmt.Sprint("web", i), "n", labeled("app", "web"), test.pod)
			}
			w.addBudget("web", "web", 0)
			if !test.later {
				w.changeBudget(test.change)
			}
			w.begins(10 * sec)
			w.Pass(10 * sec)
			if test.later {
				w.wantThere(4)
				w.changeBudget(test.change)
			}
			w.Pass(2 * sec)
			w.wantThere(0)
			w.wantAsked(4, 4)
		}
	}
	playStories(t, stories)
}

// refusesAsks makes a webhook refuse what the Eviction API is asked.
func (w *world) refusesAsks() {
	w.On("create", "pods", "eviction", func() error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New(`admission webhook "no" denied the request`))
	})
}

// counts counts the calls of a verb on pods from now on.
func (w *world) counts(verb string) *atomic.Int32 {
	var calls atomic.Int32
	w.Client.PrependReactor(verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		calls.Add(1)
		return false, nil, nil
	})
	return &calls
}

func (w *world) wantCalls(what string, calls *atomic.Int32, want int32) {
	w.T.Helper()
	if got := calls.Load(); got != want {
		w.T.Errorf("after %s there were %d %s of pods, want %d", w.Now(), got, what, want)
	}
}

// What a record of a pod does not have, such as all its labels, is read once a decision depends on it.
func TestReads(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	stories := map[string]func(w *world){
		"budgets with new label keys list no pods, and make no other namespace wait": func(w *world) {
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
			w.wantThere(0)
		},
		"a budget with many label keys costs no memory a pod": func(w *world) {
			w.add("ask", evicts(0))
			w.addBudget("web", "web", 0)
			w.addWeb(5)
			w.run()
			w.addKeys("default", "big", 60000)
			w.Taint("n", "k:NoExecute")
			w.Pass(10 * sec)
			if keys := w.follower.labels.wanted; len(keys) > 0 {
				w.T.Errorf("records of all pods keep the labels of %d keys", len(keys))
			}
			if got := len(w.follower.facts.in["default"].pods); got != 5 {
				w.T.Errorf("the labels of %d pods are known, want those of the 5 due ones", got)
			}
		},
		"a label change of a due pod moves it to the other budget": func(w *world) {
			w.add("ask", evicts(0))
			w.addBudget("web", "web", 0)
			w.addBudget("api", "api", 5)
			w.addWeb(2)
			w.begins(10 * sec)
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
		},
		"a budget that selects other pods is matched without another read": func(w *world) {
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
			w.wantCondition("ask", holding, "SeveralBudgets", "")
			w.wantCalls("reads", gets, 2*3)
			w.changeBudget(func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "api" })
			w.Pass(2 * sec)
			w.wantThere(0)
			w.wantAsked(3, 3)
		},
		"reads follow what is due": func(w *world) {
			paused := pauseOf(nil)
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
				w.T.Errorf("a pod that changed was read %d times in 2 s", got)
			}
			gets.Store(0)
			w.Taint("n", "k-")
			w.Pass(10 * sec)
			w.wantCalls("reads", gets, 0)
			if left := len(w.follower.facts.in); left != 0 {
				w.T.Errorf("the labels of pods in %d namespaces are known although no pod is asked about", left)
			}
		},
		"reads respect the rate limit": func(w *world) {
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
		},
		"a namespace without budgets costs no reads": func(w *world) {
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
			w.wantAsked(3, 3)
			w.wantCount("patch web", 0)
			w.wantCount("delete web", 0)
		},
		"a failed read is retried, and deletes nothing": func(w *world) {
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
			w.begins(10 * sec)
			w.Pass(2 * time.Minute)
			w.wantThere(3)
			w.wantAsked(0, 0)
			w.wantCount("delete web", 0)
			w.wantCount("keep web", 3) // after a minute
			w.wantCount("event web", 3)
			w.wantCondition("ask", holding, "PodUnread", "")
			if got := calls.Load(); got < 4 || got > 20 {
				w.T.Errorf("in 2 minutes it read %d times, want a few", got)
			}
			fails.Store(false)
			w.Pass(40 * sec)
			w.wantThere(0)
			w.wantAsked(3, 6)
		},
		"no status says that pods are unread for a moment": func(w *world) {
			w.add("ask", evicts(0))
			w.addBudget("web", "web", 0)
			w.addWeb(3)
			w.reads(func(ctx context.Context, _ bubble.Request) error { return bubble.Takes(ctx, sec/5) })
			w.begins(20 * sec)
			for range 10 {
				w.Pass(sec / 10)
				if c := meta.FindStatusCondition(w.status("ask").Conditions, holding); c.Reason == "PodUnread" {
					w.T.Errorf("after %s the policy says: %s", w.Now(), c.Message)
				}
			}
			w.Pass(2 * sec)
			w.wantCondition("ask", holding, "Budget", "")
		},
		"reads that hang in a namespace make no other wait": func(w *world) {
			w.add("ask", evicts(0))
			w.addNamespace("hangs", nil)
			w.addKeys("hangs", "some", 1)
			w.addBudget("web", "web", 20)
			for i := range 20 {
				w.AddPod(fmt.Sprint("hangs", i), "n", ready4ever, in("hangs"))
			}
			w.addWeb(10)
			w.reads(func(ctx context.Context, q bubble.Request) error {
				if strings.HasPrefix(q.Name, "hangs") {
					return bubble.Takes(ctx, 10*sec)
				}
				return nil
			})
			w.begins(10 * sec)
			w.Pass(5 * sec)
			w.wantThere(0)
		},
	}
	for name, test := range map[string]struct {
		allowed int32
		tripped bool
	}{
		"their budget keeps them":        {0, false},
		"their budget lets too many go":  {10, true},
		"their budget lets only some go": {2, false},
	} {
		stories["a breaker neither trips nor lets any pod go while pods are unread: "+name] = func(w *world) {
			brake := evicts(0)
			brake.Breaker = &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(2), Settle: &metav1.Duration{}}
			w.add("brake", brake)
			w.addBudget("web", "web", test.allowed)
			w.addWeb(5)
			var reads atomic.Int32
			w.reads(func(ctx context.Context, _ bubble.Request) error {
				if read, got := reads.Add(1), w.asked.Load(); got > 0 && read < 5 {
					w.T.Errorf("it asked about %d pods before all were read", got)
				}
				return bubble.Takes(ctx, sec)
			})
			w.begins(10 * sec)
			w.Pass(20 * sec)
			trips := len(w.Did("event web0 EvictionHeld: Pod default/web0 is due to leave, but stays: EvictionPolicy brake has tripped"))
			if (trips > 0) != test.tripped {
				w.T.Errorf("it tripped %d times, want %t", trips, test.tripped)
			}
			if test.tripped {
				w.wantThere(5)
			} else {
				w.wantThere(5 - int(test.allowed))
			}
		}
	}
	playStories(t, stories)
}
