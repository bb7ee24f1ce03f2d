// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// Most breakers of these stories settle for 10 s.
func TestBreakers(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	const tripped = v1alpha1.ConditionTripped
	finished := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	number, share := intstr.FromInt32, intstr.FromString
	stories := map[string]func(w *world){
		"a wave that comes node by node trips it before the first pod leaves": func(w *world) {
			w.add("brake", breakerOf(share("50%"))) // 2 of 5 pods
			w.addPods(2, 3)
			w.begins(sec)
			w.Until(9 * sec)
			w.Taint("m", "k:NoExecute")
			w.Until(10 * time.Minute)
			w.wantLeft(nil)
			w.wantStays("n0", "EvictionPolicy brake has tripped: 5 of 5 selected pods would leave, and the breaker allows 2")
			w.Taint("m", "k-")
			w.Pass(time.Minute)
			w.wantLeft(left(10*time.Minute+10*sec, "n0", "n1")) // it closes when that has been so for 10 s
		},
		"a share is of the pods that exist when they are due": func(w *world) {
			w.add("brake", breakerOf(share("80%")))
			w.addPods(1, 0)
			w.run()
			w.Until(30 * sec)
			w.addPods(0, 4) // the last count, of one pod, would still be used for half a minute
			w.Taint("m", "k:NoExecute")
			w.Until(35 * sec)
			w.wantStays("m0", "EvictionPolicy brake waits to see how many other pods are due")
			w.Until(time.Minute)
			w.wantLeft(left(40*sec, "m0", "m1", "m2", "m3"))
		},
		"a share is of the pods that are selected by labels that become known later": func(w *world) {
			for i := range 3 {
				w.AddPod(fmt.Sprintf("db%d", i), "n", labeled("tier", "db"))
			}
			w.addPods(0, 30)
			w.run()
			w.Until(sec)
			w.API.Watches("pods").Break()                               // so that the labels come later
			w.add("brake", only("tier", "db", breakerOf(share("20%")))) // at least 1 of 3 pods; of 33 it would be 6
			w.Pass(4 * sec)
			w.API.Watches("pods").Repair()
			w.Taint("n", "k:NoExecute")
			w.Until(10 * time.Minute)
			w.wantLeft(nil)
		},
		"resumedAt lets what was due go, and counts what comes later": func(w *world) {
			w.add("brake", breakerOf(number(1)))
			w.addPods(2, 3)
			w.begins(sec)
			w.Until(time.Minute)
			w.wantLeft(nil)
			w.edit("brake", func(is *spec) { // by a clock that is ahead
				is.Breaker.ResumedAt = &metav1.Time{Time: time.Now().Add(2 * time.Hour)}
			})
			w.Until(2 * time.Minute)
			w.wantLeft(left(time.Minute, "n0", "n1"))
			w.Taint("m", "k:NoExecute")
			w.Until(5 * time.Minute)
			w.edit("brake", func(is *spec) { is.Pace = nil }) // another change resumes nothing
			w.Until(5 * time.Hour)
			w.wantLeft(left(time.Minute, "n0", "n1"))
		},
		"an old timeAdded neither shortens settle nor resumes a pod": func(w *world) {
			w.add("brake", breakerOf(share("20%")))
			w.addNodesWith(10, 2)
			w.run()
			w.Until(time.Hour)
			w.edit("brake", func(is *spec) { is.Breaker.ResumedAt = &metav1.Time{Time: time.Now()} })
			old := metav1.NewTime(time.Now().Add(-30 * time.Minute))
			for i := range 10 {
				w.SetTaints(fmt.Sprint("x", i), corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &old})
				w.Pass(sec)
			}
			w.Pass(10 * time.Minute)
			w.wantLeft(nil)
		},
		"it closes when more pods are selected, and its pods leave": func(w *world) {
			w.add("brake", breakerOf(share("50%")))
			w.addPods(3, 1)
			w.begins(sec)
			w.Until(time.Minute)
			w.wantLeft(nil)
			for i := range 16 {
				w.AddPod(fmt.Sprint("new", i), "m")
			}
			w.Pass(2*countEvery + 15*sec)
			w.wantCount("delete n", 3) // 3 of 20 selected pods are due, and the breaker allows 10
			w.wantCondition("brake", tripped, "FewDue", "")
		},
		"pods that came since the last count keep it closed": func(w *world) {
			w.add("brake", breakerOf(share("25%")))
			w.addPods(2, 0)
			w.run()
			w.Until(40 * sec)
			for i := range 6 {
				w.AddPod(fmt.Sprint("new", i), "m")
			}
			w.Taint("n", "k:NoExecute")
			w.Pass(sec)
			w.wantCondition("brake", tripped, "FewDue", "")
			w.Pass(time.Minute)
			w.wantLeft(left(50*sec, "n0", "n1"))
		},
		"only pods count that would leave if it were closed": func(w *world) {
			brake := breakerOf(number(2))
			brake.Finished = v1alpha1.FinishedKeep
			w.add("brake", brake)
			w.add("db", only("tier", "db", hold(0)))
			w.add("ask", only("app", "web", evicts(0)))
			w.addBudget("web", "web", 0)
			for i := range 5 {
				w.AddPod(fmt.Sprint("finished", i), "n", finished)
				w.AddPod(fmt.Sprint("held", i), "n", labeled("tier", "db"))
			}
			w.addWeb(5) // whose budget allows no disruption
			w.addPods(0, 2)
			w.begins(10 * sec)
			w.Until(time.Minute)
			w.wantCondition("brake", tripped, "FewDue", "")
			w.Taint("m", "k:NoExecute")
			w.Pass(time.Minute)
			w.wantLeft(left(70*sec, "m0", "m1"))
		},
		"what its own policy holds does not count": func(w *world) {
			is := hold(10 * sec)
			is.Breaker = &v1alpha1.EvictionBreaker{MaxDue: number(2), Settle: &metav1.Duration{Duration: sec}}
			w.add("p", is)
			for i, seconds := range []int64{1, 4, 7} {
				w.AddPod(fmt.Sprint("n", i), "n", scene.Tolerating("k", seconds))
			}
			w.begins(sec)
			w.Until(time.Minute)
			w.wantLeft(map[string]time.Duration{"n0": 13 * sec, "n1": 16 * sec, "n2": 19 * sec})
		},
		"pods that another policy releases together trip it before the first leaves": func(w *world) {
			brake := breakerOf(number(2))
			brake.Breaker.Settle = &metav1.Duration{}
			w.add("brake", brake)
			w.add("other", hold(5*time.Minute))
			w.addPods(3, 3)
			w.begins(sec)
			w.Taint("m", "k:NoExecute")
			w.Until(time.Minute)
			w.wantCondition("brake", tripped, "FewDue", "")
			w.remove("other")
			w.Pass(time.Minute)
			w.wantLeft(nil)
			w.wantCondition("brake", tripped, "TooManyDue", "6 of 6 selected pods would leave, and the breaker allows 2.")
		},
		// If each took the other for something that keeps the pods, both would close, and open again.
		"two breakers do not close each other": func(w *world) {
			w.add("one", breakerOf(number(2)))
			w.add("two", breakerOf(number(3)))
			w.addPods(5, 0)
			w.begins(sec)
			w.Until(time.Minute)
			w.wantCondition("one", tripped, "TooManyDue", "")
			w.wantCondition("two", tripped, "TooManyDue", "")
			w.wantLeft(nil)
		},
		"a new process does not trip it before it knows all pods": func(w *world) {
			w.add("brake", breakerOf(share("50%")))
			w.addPods(4, 6)
			w.Taint("n", "k:NoExecute")
			w.Until(sec)
			w.API.Watches("pods").Break()
			w.run()
			w.Pass(3 * sec)
			w.API.Watches("pods").Repair()
			w.Until(time.Minute) // the backoff of a watch is random, and settle begins when the pods are known
			w.wantCount("delete n", 4)
		},
		"a new process counts before its first DELETE, even if the status was wiped": func(w *world) {
			brake := breakerOf(number(1))
			brake.Breaker.Settle = &metav1.Duration{}
			w.add("brake", brake)
			w.addPods(3, 0)
			w.Taint("n", "k:NoExecute")
			for range 3 {
				w.run()
				w.Pass(time.Minute)
				var object v1alpha1.EvictionPolicy
				w.Must(nil, w.policies.Get(w.T.Context(), client.ObjectKey{Name: "brake"}, &object))
				if object.Status.Due != 3 {
					w.T.Errorf("%d pods are due according to the status, want 3", object.Status.Due)
				}
				object.Status = v1alpha1.EvictionPolicyStatus{}
				w.Must(nil, w.policies.Status().Update(w.T.Context(), &object))
				w.Stop()
			}
			w.wantLeft(nil)
		},
		// Node health taints one node of a zone in 10 s by default.
		"the default settle sees nodes that node health taints one by one": func(w *world) {
			brake := breakerOf(share("20%"))
			brake.Breaker.Settle = nil
			w.add("brake", brake)
			w.addNodesWith(20, 5)
			w.run()
			w.Until(sec)
			for i := range 20 {
				w.Taint(fmt.Sprint("x", i), "node.kubernetes.io/unreachable:NoExecute")
				w.Pass(10 * sec)
			}
			w.Pass(time.Hour)
			w.wantLeft(nil)
		},
	}
	for becomesDue, want := range map[int64]map[string]time.Duration{
		10: nil, // when the first pod would leave
		11: {"n0": 11 * sec, "n1": 15 * sec, "m0": 22 * sec},
	} {
		stories[fmt.Sprintf("pods that become due are counted before others leave, after %d s", becomesDue)] = func(w *world) {
			w.add("brake", breakerOf(number(2)))
			w.AddPod("n0", "n")
			w.AddPod("n1", "n", scene.Tolerating("k", 4))
			w.AddPod("m0", "m", scene.Tolerating("k", becomesDue))
			w.begins(sec)
			w.Taint("m", "k:NoExecute")
			w.Until(time.Minute)
			w.wantLeft(want)
		}
	}
	for name, lose := range map[string]func(w *world, pod string){
		"pods are deleted":            func(w *world, pod string) { w.DeletePod("default", pod) },
		"pods have other labels":      func(w *world, pod string) { w.ChangePod(pod, labeled("tier", "web")) },
		"their node has other labels": func(w *world, _ string) { w.ChangeNode("m", func(node *corev1.Node) { node.Labels["pool"] = "b" }) },
	} {
		stories["an old number of selected pods makes it only stricter: "+name] = func(w *world) {
			brake := only("tier", "db", breakerOf(share("25%"))) // 10 of 40 pods, 1 of 4
			brake.NodeSelector = &v1alpha1.Selector{MatchExpressions: []v1alpha1.SelectorRequirement{
				{Key: "pool", Operator: metav1.LabelSelectorOpDoesNotExist},
			}}
			w.add("brake", brake)
			for i := range 40 {
				w.AddPod(fmt.Sprintf("db%02d", i), []string{"n", "m"}[min(i/4, 1)], labeled("tier", "db"))
			}
			w.run()
			w.Until(20 * sec)
			for i := 4; i < 40; i++ {
				lose(w, fmt.Sprintf("db%02d", i))
			}
			w.Pass(2 * sec)
			w.Taint("n", "k:NoExecute")
			w.Pass(5 * time.Minute)
			w.wantCount("delete db00", 0) // 4 of 4 selected pods are due, and the breaker allows 1
			w.wantCount("delete db03", 0)
		}
	}
	braked := func(is spec) spec {
		is.Breaker = &v1alpha1.EvictionBreaker{MaxDue: number(4), Settle: &metav1.Duration{Duration: 10 * sec}}
		return is
	}
	for name, test := range map[string]struct {
		brake spec
		ready corev1.ConditionStatus
		other *spec
	}{
		"a Hold ends":               {braked(hold(time.Minute)), corev1.ConditionTrue, nil},
		"the Hold of another ends":  {braked(spec{Action: v1alpha1.ActionDelete}), corev1.ConditionTrue, new(hold(time.Minute))},
		"their budget is overruled": {braked(evicts(time.Minute)), corev1.ConditionTrue, nil},
		"they are unready for long": {braked(evicts(time.Hour)), corev1.ConditionFalse, nil},
	} {
		// Ten nodes with two pods each are tainted within ten seconds. What keeps the pods ends as they were tainted, node
		// by node, long after they were due.
		stories["a wave of pods that nothing keeps any more trips it: "+name] = func(w *world) {
			w.addNodesWith(10, 2, labeled("app", "web"), isReady(test.ready, 0))
			w.add("brake", test.brake)
			if test.other != nil {
				w.add("other", *test.other)
			}
			w.addBudget("web", "web", 0)
			w.run()
			for i := range 10 {
				w.Taint(fmt.Sprint("x", i), "k:NoExecute")
				w.Pass(sec)
			}
			w.Pass(20 * time.Minute)
			w.wantLeft(nil)
		}
	}
	playStories(t, stories)
}
