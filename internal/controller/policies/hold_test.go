// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func TestHolds(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	playStories(t, map[string]func(w *world){
		"a held pod has no mark and one event, until its policy goes": func(w *world) {
			w.add("stay", hold(0))
			w.AddPod("p", "n")
			w.begins(0)
			w.Until(5 * time.Minute)
			w.wantLeft(nil)
			w.wantCount("patch p", 0)
			w.wantStays("p", "EvictionPolicy stay holds it")
			w.remove("stay")
			w.Pass(sec)
			w.wantLeft(left(5*time.Minute, "p"))
			w.wantCount("patch p", 1)
		},
		"the deadline of a paused policy counts from the end of its pause": func(w *world) {
			w.add("pause", hold(time.Minute))
			w.edit("pause", func(is *spec) { is.Paused = new("we look at the network") })
			w.AddPod("p", "n")
			w.begins(0)
			w.Until(5 * time.Minute)
			w.wantLeft(nil)
			w.wantStays("p", "EvictionPolicy pause is paused: we look at the network")
			w.edit("pause", func(is *spec) { is.Paused = nil })
			w.Pass(5 * time.Minute)
			w.wantLeft(left(6*time.Minute, "p"))
		},
		"labels of the pod, its namespace and its node hold and free it while it is due": func(w *world) {
			w.add("pods", only("tier", "db", hold(0)))
			w.add("namespaces", spec{Action: v1alpha1.ActionHold, NamespaceSelector: matching("team", "a")})
			w.add("nodes", spec{Action: v1alpha1.ActionHold, NodeSelector: matching("pool", "gold")})
			w.addNamespace("a", map[string]string{"team": "a"})
			w.AddPod("by-its-own", "n", labeled("tier", "db"))
			w.AddPod("by-its-namespace", "n", in("a"))
			w.AddPod("by-its-node", "m")
			w.AddPod("free", "n")
			w.ChangeNode("m", func(node *corev1.Node) { node.Labels["pool"] = "gold" })
			w.begins(sec)
			w.Taint("m", "k:NoExecute")
			w.Until(10 * sec)
			w.ChangePod("by-its-own", labeled("tier", "web"))
			w.Until(20 * sec)
			w.Must(nil, w.policies.Update(w.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
			w.Until(30 * sec)
			w.ChangeNode("m", func(node *corev1.Node) { delete(node.Labels, "pool") })
			w.Pass(sec)
			w.wantLeft(map[string]time.Duration{
				"free": sec, "by-its-own": 10 * sec, "by-its-namespace": 20 * sec, "by-its-node": 30 * sec,
			})
		},
		"a policy that selects by a new key holds at once what it selects": func(w *world) {
			for _, tier := range []string{"db", "web"} {
				w.AddPod(tier, "n", labeled("tier", tier), scene.Tolerating("k", 30))
			}
			w.begins(0)
			w.Until(29 * sec)
			w.add("db", only("tier", "db", hold(0)))
			w.Until(time.Minute)
			w.wantLeft(left(30*sec, "web"))
		},
		"a pod of a namespace that is being deleted is not held and waits for no pace": func(w *world) {
			w.add("stay", hold(0))
			w.add("slow", paceOf(1, time.Hour, v1alpha1.ScopeCluster))
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ends", Finalizers: []string{"kubernetes"}}}
			w.Must(nil, w.policies.Create(w.T.Context(), namespace))
			w.AddPod("p", "n", in("ends"))
			w.AddPod("q", "n", in("ends"))
			w.begins(sec)
			w.Until(time.Minute)
			w.wantLeft(nil)
			w.Must(nil, w.policies.Delete(w.T.Context(), namespace))
			w.Pass(sec)
			w.wantLeft(left(time.Minute, "p", "q"))
		},
		"a pod that was marked and is held loses the mark": func(w *world) {
			w.add("stay", hold(0))
			w.AddPod("p", "n", func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
					Message: "Taintkeeper: deleting due to NoExecute taint",
				}}
			})
			w.begins(0)
			w.Until(sec)
			patches := len(w.Did("patch p"))
			if patches == 0 || patches > 2 { // the second, if the watch has not brought the first yet
				w.T.Errorf("the mark was patched %d times", patches)
			}
			w.Until(time.Minute)
			w.wantLeft(nil)
			w.wantCount("patch p", patches)
			if c := w.Pod("p").Status.Conditions[0]; c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "EvictionPolicy stay holds it") {
				w.T.Errorf("the condition is %s: %q", c.Status, c.Message)
			}
		},
		"a pause while a pod is being marked keeps it": func(w *world) {
			w.add("stop", spec{Action: v1alpha1.ActionDelete, Finished: v1alpha1.FinishedKeep})
			w.AddPod("p", "n")
			w.run(w.slow(func(ctx context.Context, r bubble.Request) error {
				if r.Verb == "patch" && r.Resource == "pods" {
					return bubble.Takes(ctx, 2*sec)
				}
				return nil
			}))
			w.Taint("n", "k:NoExecute")
			w.Until(sec)
			w.edit("stop", func(is *spec) { is.Paused = new("stop") })
			w.Until(time.Minute)
			w.wantLeft(nil)
			w.wantMarked("p", false)
		},
		"held pods are neither overdue nor a sign of trouble": func(w *world) {
			w.add("db", only("tier", "db", hold(0)))
			w.AddPod("db", "n", labeled("tier", "db"))
			w.AddPod("web", "m")
			w.On("delete", "pods", "", func() error { return errRefused })
			w.begins(sec)
			w.Until(10 * time.Minute)
			if w.evictor.Stalled(30 * sec) {
				w.T.Error("the Evictor takes itself for stalled, because a pod is held")
			}
			w.Taint("m", "k:NoExecute")
			w.Pass(sec)
			w.WantMetric("taintkeeper_held_pods", map[string]string{"policy": "db", "reason": "Held"}, 1)
			overdue := w.evictor.Overdue()
			if _, held := overdue["n"]; held || overdue["m"].Pods != 1 {
				w.T.Errorf("%v are overdue, want one pod of node m", overdue)
			}
		},
		"no DELETE begins after a pause is seen while 1000 pods leave": func(w *world) {
			w.add("stop", spec{Action: v1alpha1.ActionDelete, Finished: v1alpha1.FinishedKeep})
			w.addPods(500, 500)
			var deletes atomic.Int32
			w.run(w.slow(func(ctx context.Context, r bubble.Request) error {
				if r.Verb == "delete" {
					deletes.Add(1)
				}
				return bubble.Takes(ctx, 40*time.Millisecond)
			}))
			w.Until(sec)
			w.Taint("n", "k:NoExecute")
			w.Taint("m", "k:NoExecute")
			w.Pass(sec)
			w.edit("stop", func(is *spec) { is.Paused = new("stop") }) // it is seen when this returns
			begun := deletes.Load()
			w.Pass(time.Minute)
			if got := deletes.Load(); got != begun || begun < 50 || begun > 900 {
				w.T.Errorf("%d deletes had begun when the pause was seen, %d a minute later", begun, got)
			}
			w.edit("stop", func(is *spec) { is.Paused = nil })
			w.Pass(time.Minute)
			if got := deletes.Load(); got < 1000 {
				w.T.Errorf("%d deletes have begun a minute after the pause, want 1000", got)
			}
		},
	})
}

// The PATCH that takes the mark away is carried out late: after the eviction could have read the mark, and before its
// DELETE. What counts is what is stored when the DELETE comes: a PATCH may be refused, as the pod has changed.
func TestTheMarkIsNotTakenFromAPodThatLeaves(t *testing.T) {
	play(t, func(w *world) {
		var refuse, slow, unmarked, takenAway atomic.Bool
		refuse.Store(true)
		w.On("delete", "pods", "", func() error {
			if refuse.Load() {
				return errNotNow
			}
			if live, err := w.API.Get(podResource, "default", "p"); err == nil && !isTrue(live.(*corev1.Pod), corev1.DisruptionTarget) {
				unmarked.Store(true)
			}
			return nil
		})
		w.Client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			patch, patches := action.(clienttesting.PatchActionImpl)
			switch {
			case !slow.Load():
			case patches && strings.Contains(string(patch.Patch), `"False"`):
				takenAway.Store(true)
				w.Client.Unlock()
				w.InCall(120 * time.Millisecond)
				w.Client.Lock()
			case action.GetVerb() == "get":
				live, err := w.Client.Tracker().Get(action.GetResource(), "default", "p")
				w.Client.Unlock()
				w.InCall(100 * time.Millisecond)
				w.Client.Lock()
				return true, live, err
			}
			return false, nil, nil
		})
		stay := hold(0)
		stay.DryRun = true
		w.add("stay", stay)
		w.AddPod("p", "n")
		w.begins(20 * sec)
		w.Pass(20 * time.Millisecond) // it is marked, and its DELETE is refused
		slow.Store(true)
		refuse.Store(false)
		w.edit("stay", func(is *spec) { is.DryRun = false })
		for range 100 {
			if w.Pass(5 * time.Millisecond); takenAway.Load() {
				break
			}
		}
		w.Pass(50 * time.Millisecond)
		w.edit("stay", func(is *spec) { is.DryRun = true })
		w.Pass(5 * sec)
		w.wantCount("delete p", 2)
		if unmarked.Load() || !takenAway.Load() {
			t.Errorf("a DELETE came while the pod had no mark: %t; a PATCH would take the mark away: %t", unmarked.Load(), takenAway.Load())
		}
	})
}

func TestWhatIsKnownOfPolicies(t *testing.T) {
	const unread = "Taintkeeper cannot read the EvictionPolicies yet"
	playStories(t, map[string]func(w *world){
		"without the resource no policy objects": func(w *world) {
			w.unlisted.Store(new(error(errNoResource)))
			w.AddPod("p", "n")
			w.begins(sec)
			w.Until(time.Minute)
			w.wantLeft(left(sec, "p"))
			w.unlisted.Store(nil)
			w.add("stay", hold(0))
			w.Pass(2 * sec)
			w.AddPod("q", "n")
			w.Until(4 * time.Minute)
			w.wantLeft(left(sec, "p"))
		},
		"while the resource comes back nothing leaves": func(w *world) {
			w.unlisted.Store(new(error(errNoResource)))
			w.AddPod("p", "n")
			w.run()
			w.Until(sec)
			w.unlisted.Store(new(error(errUnavailable)))
			w.Pass(2 * sec)
			w.Taint("n", "k:NoExecute")
			w.Until(time.Minute)
			w.wantLeft(nil)
			w.wantCount("keep p", 0)
			w.unlisted.Store(nil)
			w.Until(2 * time.Minute)
			w.wantCount("delete p", 1)
			w.wantStays("p", unread)
		},
		"a process that starts before the API server answers finds that there are no policies": func(w *world) {
			w.unlisted.Store(new(error(errUnavailable)))
			w.AddPod("p", "n")
			w.begins(sec)
			w.Until(20 * sec)
			w.wantLeft(nil)
			w.unlisted.Store(new(error(errNoResource)))
			w.Until(2 * time.Minute)
			w.wantCount("delete p", 1)
		},
		"a process that may not list policies ends and evicts nothing": func(w *world) {
			w.unlisted.Store(new(error(errNoRight)))
			w.AddPod("p", "n")
			ended := make(chan error, 1)
			go func() { ended <- w.process()(w.T.Context()) }()
			w.Taint("n", "k:NoExecute")
			w.Until(time.Minute)
			select {
			case err := <-ended:
				if err == nil || !strings.Contains(err.Error(), "without permission to list EvictionPolicies") {
					w.T.Errorf("it ends with %v", err)
				}
			default:
				w.T.Error("it goes on")
			}
			w.wantLeft(nil)
		},
		"nothing leaves without a working watch of policies": func(w *world) {
			w.AddPod("p", "n")
			w.run()
			w.Until(sec)
			w.unlisted.Store(new(error(errNoRight)))
			w.Until(3 * time.Minute) // the watch, which brings nothing, is opened again
			if w.follower.Ready() == nil || w.follower.Known() {
				w.T.Error("it is ready without a watch of policies")
			}
			w.Taint("n", "k:NoExecute")
			w.Pass(time.Hour)
			w.wantLeft(nil)
			w.wantCount("keep p", 1)
			w.wantStays("p", unread)
			back := w.Now()
			w.unlisted.Store(nil)
			w.Pass(time.Minute)
			if at := w.Did("delete p"); len(at) != 1 || at[0] > back+2*sec {
				w.T.Errorf("it left at %s, but the policies could be read again at %s", at, back)
			}
			if err := w.follower.Ready(); err != nil {
				w.T.Error("the watch works:", err)
			}
		},
	})
}

// respected makes a policy that asks about 3 pods on node n for 15 minutes. Their budget allows one eviction.
func (w *world) respected() {
	w.T.Helper()
	w.add("respect", evicts(15*time.Minute))
	w.addWeb(3)
	w.addBudget("web", "web", 1)
}

// wantAskedUntil checks that one of the 3 pods left within its budget, and the others at an instant without asking.
func (w *world) wantAskedUntil(at time.Duration) {
	w.T.Helper()
	w.Until(at - sec)
	w.wantThere(2)
	w.wantCount("delete web", 0)
	w.Until(at + 5*sec/2) // the record is up to 2 s late, and the calls are made one after the other
	w.wantThere(0)
	w.wantCount("delete web", 2)
}

// wantHalted checks how many pods of policy respect are halted, and when the last halt ended; 0 is never.
func (w *world) wantHalted(pods int32, until time.Duration) {
	w.T.Helper()
	is := w.status("respect")
	got := time.Duration(0)
	if is.HaltedUntil != nil {
		got = is.HaltedUntil.Sub(w.Start)
	}
	if is.Halted != pods || got < until || got > until+2*sec || until == 0 && got != 0 {
		w.T.Errorf("after %s %d pods are halted, and the last halt ended at %s; want %d and %s", w.Now(), is.Halted, got, pods, until)
	}
}

func TestDeadlinesAfterHalts(t *testing.T) {
	playStories(t, map[string]func(w *world){
		"a deadline counts from the end of a pause": func(w *world) {
			w.respected()
			w.add("pause", pauseOf(nil))
			w.begins(sec)
			w.Until(20 * time.Minute)
			w.wantAsked(0, 0)
			w.wantHalted(3, 0)
			w.remove("pause")
			w.Pass(2 * sec)
			w.wantHalted(0, 20*time.Minute)
			w.wantAskedUntil(35 * time.Minute)
			w.Pass(time.Minute)
			w.wantHalted(0, 0) // nothing that is due was halted
		},
		"a deadline counts from the end of an open breaker": func(w *world) {
			w.respected()
			w.edit("respect", func(is *spec) { is.PodSelector = matching("app", "web") })
			w.add("brake", breakerOf(intstr.FromInt32(2)))
			w.addPods(2, 0)
			w.begins(sec)
			w.Until(20 * time.Minute)
			w.wantHalted(3, 0)
			for _, pod := range []string{"n0", "n1"} { // of the others, only one would leave if the breaker were closed
				w.DeletePod("default", pod)
			}
			w.Pass(12 * sec)
			w.wantHalted(0, 20*time.Minute+10*sec)
			w.wantAskedUntil(35*time.Minute + 20*sec) // when it has settled
		},
		"a halt moves only the deadlines of the pods and taints that it kept": func(w *world) {
			w.add("stay", hold(time.Minute))
			pause := pauseOf(matching("team", "a"))
			pause.Taints = []v1alpha1.EvictionPolicyTaint{{Key: "k"}}
			w.add("pause", pause)
			w.AddPod("paused", "n", labeled("team", "a"))
			w.AddPod("free", "n", labeled("team", "b"))
			w.AddPod("due-later", "n", labeled("team", "a"), scene.Tolerating("k", 700))
			w.AddPod("relabeled", "n", labeled("team", "a")) // however the halt ends
			w.AddPod("two-taints", "m", labeled("team", "a"))
			w.Taint("m", "k:NoExecute", "other:NoExecute")
			w.begins(30 * sec)
			w.Until(5 * time.Minute)
			w.ChangePod("relabeled", labeled("team", "b"))
			w.Until(10 * time.Minute)
			w.remove("pause")
			w.Until(20 * time.Minute)
			w.wantLeft(map[string]time.Duration{
				"paused": 11 * time.Minute, "free": 90 * sec, "due-later": 790 * sec, "relabeled": 6 * time.Minute,
				"two-taints": time.Minute,
			})
		},
		"a new leader knows when a pause ended": func(w *world) {
			w.respected()
			w.add("pause", pauseOf(nil))
			w.begins(sec)
			w.Until(20 * time.Minute)
			w.remove("pause")
			w.Pass(3 * sec)
			for range 3 {
				w.Stop()
				w.Pass(10 * sec)
				w.run()
				w.Pass(10 * sec)
			}
			w.wantAskedUntil(35 * time.Minute)
		},
		// Nobody has seen when it ended, so the deadline counts from the start of the new process.
		"a pause that ends while there is no leader ends when the next one starts": func(w *world) {
			w.respected()
			w.add("pause", pauseOf(nil))
			w.begins(sec)
			w.Until(20 * time.Minute)
			w.Stop()
			w.remove("pause")
			w.Until(30 * time.Minute)
			w.run()
			w.wantAskedUntil(45 * time.Minute)
		},
		// The status is written at once when a halt begins, not only every 15 seconds.
		"a pause of a few seconds is known to the next leader": func(w *world) {
			w.respected()
			w.allow(0)
			w.begins(sec)
			w.Until(14 * time.Minute)
			w.add("pause", pauseOf(nil))
			w.Pass(4 * sec)
			w.Stop()
			w.remove("pause")
			w.Until(20 * time.Minute)
			w.allow(1)
			w.run()
			w.wantAskedUntil(35 * time.Minute)
		},
		// A standby sees halts itself: the status knows only that some pods were halted, not which.
		"a standby knows which pods a pause kept": func(w *world) {
			w.add("stay", hold(30*time.Minute))
			w.AddPod("a", "n", labeled("team", "a"))
			w.AddPod("b", "n", labeled("team", "b"))
			w.run()
			end := w.Stop
			leads := w.standBy()
			w.Until(30 * sec)
			w.Taint("n", "k:NoExecute")
			w.Until(10 * time.Minute)
			w.add("pause", pauseOf(matching("team", "a")))
			w.Until(20 * time.Minute)
			w.remove("pause")
			w.Until(25 * time.Minute)
			end()
			leads()
			w.Until(2 * time.Hour)
			w.wantLeft(map[string]time.Duration{"a": 50 * time.Minute, "b": 30*time.Minute + 30*sec})
		},
		"a pod that a pause kept is not deleted when its policy is new": func(w *world) {
			w.add("pause", pauseOf(nil))
			w.addWeb(3)
			w.addBudget("web", "web", 1)
			w.run()
			w.Until(sec)
			w.Taint("n", corev1.TaintNodeUnreachable+":NoExecute")
			w.Until(20 * time.Minute)
			w.add("respect", evicts(15*time.Minute))
			w.Pass(sec)
			w.remove("pause")
			w.wantAskedUntil(35 * time.Minute)
		},
	})
}

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

// A kubelet that starts ends pods that do not tolerate a NoExecute taint of its node.
func TestHeldPodsAreKeptAlive(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	stories := map[string]func(w *world){
		"a held pod survives a restart of its kubelet": func(w *world) {
			w.add("stay", hold(0))
			w.AddPod("p", "n", scene.Tolerating("b", 10))
			w.run()
			w.Taint("n", "a=1:NoExecute", "b:NoExecute", "c:NoSchedule", "d:NoExecute")
			w.Pass(sec)
			w.wantRejected()
			b := w.Pod("p").Spec.Tolerations[0]
			w.wantTolerations(b, forNoTime("a", "1"), forNoTime("d", ""))
			w.wantCount("keep p", 1)
			w.wantCount("event p TolerationAdded: Pod default/p is due to leave, but stays: added a toleration for a=1:NoExecute and d:NoExecute of 0 seconds", 1)
			w.Until(40 * sec)
			w.remove("stay")
			w.Pass(sec)
			w.wantLeft(left(40*sec, "p"))
		},
		"a toleration of ours postpones no later eviction": func(w *world) {
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
			w.wantLeft(left(20*sec, "p"))
		},
		"only pods that must be kept alive get a toleration": func(w *world) {
			db := labeled("app", "db")
			w.add("stay", only("app", "db", hold(0)))
			w.AddPod("leaves", "n")
			w.AddPod("tolerates", "n", db, scene.Indefinitely("k"))
			w.AddPod("counts", "n", db, scene.Tolerating("k", 10)) // what matches for a while is enough for a kubelet
			w.AddPod("elsewhere", "m", db)
			w.AddPod("mirror", "n", db, func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			})
			w.AddPod("finished", "n", db, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
			w.AddPod("ends", "n", db, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) })
			w.begins(0)
			w.Pass(time.Minute)
			w.wantLeft(left(0, "leaves"))
			w.wantCount("keep", 0)
			w.wantRejected()
		},
		"a dry run keeps no pod alive": func(w *world) {
			w.add("stay", hold(0))
			w.AddPod("p", "n")
			w.run(func(c *eviction.Config) { c.Mode = eviction.DryRun })
			w.Taint("n", "k:NoExecute")
			w.Pass(time.Minute)
			w.wantCount("keep", 0)
			w.wantRejected("p")
		},
		"pods that are due first are kept alive first, and not all at once": func(w *world) {
			w.add("stay", hold(0))
			for i := range 100 {
				w.AddPod(fmt.Sprintf("later-%d", i), "m")
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
			kept := slices.DeleteFunc(w.Book.Calls(), func(call bubble.Call) bool { return !strings.HasPrefix(call.What, "keep ") })
			if len(kept) != 200 {
				w.T.Fatalf("%d pods are kept alive, want 200", len(kept))
			}
			for i, call := range kept {
				if first := strings.HasPrefix(call.What, "keep first"); first != (i < 100) && (i >= 10 && i < 100 || i >= 110) {
					w.T.Errorf("number %d is %q", i, call.What)
				}
				if i > 50 && call.At-kept[i-51].At < sec {
					w.T.Errorf("51 PATCHes in %v, want at most 50 in a second", call.At-kept[i-51].At)
				}
			}
			w.wantRejected()
		},
	}
	for name, refusal := range map[string]error{
		"a webhook refuses":  apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("admission webhook \"no.test\" denied the request")),
		"nobody answers":     errors.New("connection refused"),
		"another changes it": apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("the object has been modified")),
	} {
		stories["a pod that cannot be kept alive is held and tried again: "+name] = func(w *world) {
			w.add("stay", hold(0))
			w.AddPod("p", "n")
			var passes atomic.Bool
			w.On("patch", "pods", "", func() error {
				if passes.Load() {
					return nil
				}
				return refusal
			})
			w.begins(0)
			w.Until(3 * sec)
			passes.Store(true)
			w.wantLeft(nil)
			w.wantTolerations()
			w.Pass(10 * sec)
			w.wantTolerations(forNoTime("k", ""))
			w.remove("stay")
			w.Pass(sec)
			w.wantLeft(left(13*sec, "p"))
		}
	}
	playStories(t, stories)
}
