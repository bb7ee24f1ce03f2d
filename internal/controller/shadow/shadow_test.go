// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
)

// act is something that happens in a world, or a check of it.
type act = func(w *world)

func at(when time.Duration, do ...act) act {
	return func(w *world) {
		w.Until(when)
		for _, each := range do {
			each(w)
		}
	}
}

func tainted(specs ...string) act    { return func(w *world) { w.taint(specs...) } }
func evicted(pod string) act         { return func(w *world) { w.evict(pod) } }
func ended(w *world)                 { w.end("p") }
func said(want ...string) act        { return func(w *world) { w.T.Helper(); w.wantSaid(want...) } }
func markedByBuiltIn(pod string) act { return func(w *world) { w.mark(pod, builtInMark) } }
func run(w *world)                   { w.run() }

type counts = map[v1alpha1.ShadowOutcome]int

// Pod "p" is on a node, which is tainted after 10 s. What it tolerates for so many seconds, or not at all if these are
// zero, is that taint. The built-in does what the story says, and then an hour passes.
func TestHowTheEvictionOfAPodIsJudged(t *testing.T) {
	const (
		onTime, late, early, never = v1alpha1.ShadowOnTime, v1alpha1.ShadowLate, v1alpha1.ShadowEarly, v1alpha1.ShadowNever
		stayed, twice, unjudged    = v1alpha1.ShadowStayed, v1alpha1.ShadowTwice, v1alpha1.ShadowUnjudged
	)
	taint := at(10*sec, tainted("k:NoExecute"))
	notMarked := said("still there 60 s after it was due: the built-in controller has not marked the pod")
	for name, test := range map[string]struct {
		tolerates int64
		happens   []act
		want      counts
		said      []string // newest first
	}{
		"evicted when it is due":                     {20, []act{run, taint, at(30*sec, evicted("p"))}, counts{onTime: 1}, nil},
		"evicted a second early":                     {20, []act{run, taint, at(29*sec, evicted("p"))}, counts{onTime: 1}, nil},
		"evicted two seconds late":                   {20, []act{run, taint, at(32*sec-1, evicted("p"))}, counts{onTime: 1}, nil},
		"evicted three seconds late":                 {20, []act{run, taint, at(33*sec+1, evicted("p"))}, counts{late: 1}, []string{"evicted 3"}},
		"evicted five seconds early":                 {20, []act{run, taint, at(25*sec, evicted("p"))}, counts{early: 1}, []string{"early"}},
		"another client deletes it before it is due": {20, []act{run, taint, at(20*sec, ended)}, nil, nil},
		"another client deletes it once it is due":   {20, []act{run, taint, at(60*sec, ended)}, nil, nil},
		"we evict it": {20, []act{run, taint, at(60*sec, func(w *world) {
			w.mark("p", "Taintkeeper: deleting due to NoExecute taint")
			w.end("p")
		})}, nil, nil},
		"due for long, and evicted late": {
			0, []act{run, taint, at(69*sec, said()), at(71*sec, notMarked), at(5*time.Minute, evicted("p"))},
			counts{late: 1}, []string{"evicted 4m50s late"},
		},
		"due for so long that it was counted as never evicted": {
			0, []act{run, taint, at(15*time.Minute, evicted("p"))},
			counts{never: 1}, []string{"evicted 14m50s late: it was already counted as never evicted"},
		},
		"due for long, and deleted by its owner": {
			0, []act{run, taint, at(3*time.Minute, notMarked, func(w *world) { w.remove("p") })}, counts{never: 1}, []string{"still there"},
		},
		"due for long, and the node is untainted": {
			0, []act{run, taint, at(3*time.Minute, notMarked, tainted("k-"))}, counts{never: 1}, []string{"still there"},
		},
		"gone before we start": {0, []act{taint, evicted("p"), at(40*sec, run)}, nil, nil},
		// The taint has no timeAdded, so it is not known when it was set.
		"on time, but we have just started": {60, []act{taint, at(40*sec, run), at(70*sec, evicted("p"))}, counts{unjudged: 1}, nil},
		"late, and we started meanwhile": {
			60, []act{taint, at(40*sec, run), at(130*sec, evicted("p"))}, counts{late: 1}, []string{"evicted at least 30 s late"},
		},
		"due before we started, with a timeAdded": {
			20, []act{func(w *world) {
				w.ChangeNode("n", func(node *corev1.Node) {
					node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.Now())}}
				})
			}, at(40*sec, run), at(70*sec, evicted("p"))}, counts{late: 1}, []string{"evicted at least"},
		},
		"the watch of nodes is behind by a second": {
			0, []act{run, at(10*sec, evicted("p")), at(11*sec, tainted("k:NoExecute"))}, counts{onTime: 1}, nil,
		},
		"untainted a second before":     {20, []act{run, taint, at(30*sec, tainted("k-")), at(31*sec, evicted("p"))}, counts{onTime: 1}, nil},
		"untainted five seconds before": {20, []act{run, taint, at(30*sec, tainted("k-")), at(35*sec, evicted("p"))}, counts{stayed: 1}, []string{""}},
		"its node is gone":              {20, []act{run, taint, at(15*sec, func(w *world) { w.DeleteNode("n") }), at(30*sec, evicted("p"))}, counts{unjudged: 1}, nil},
		// The built-in may not have seen yet that it terminates.
		"marked right after it began to terminate": {
			0, []act{run, at(10*sec, ended), at(10*sec+400*time.Millisecond, tainted("k:NoExecute"), markedByBuiltIn("p"))}, nil, nil,
		},
		"marked long after it began to terminate": {
			0, []act{run, at(10*sec, ended), at(20*sec, tainted("k:NoExecute"), markedByBuiltIn("p"))}, counts{twice: 1}, []string{"already terminating"},
		},
		// The mark of a failed eviction is left over.
		"deleted a minute after it was marked and untainted": {
			0, []act{run, taint, markedByBuiltIn("p"), at(20*sec, tainted("k-")), at(80*sec, ended)}, counts{stayed: 1}, []string{""},
		},
		"deleted an hour after it was marked and untainted": {
			0, []act{run, taint, markedByBuiltIn("p"), at(20*sec, tainted("k-")), at(time.Hour, ended)}, nil, nil,
		},
		"deleted an hour after it was marked, and still due": {
			0, []act{run, taint, markedByBuiltIn("p"), at(time.Hour, ended)}, counts{never: 1}, []string{"evicted 59m50s late"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.addNode()
				w.addPod("p", test.tolerates)
				at(0, test.happens...)(w)
				w.Pass(time.Hour)
				w.wantPods(test.want)
				w.wantSaid(test.said...)
				if all := w.comparison.Report().Differences; len(all) > 0 && test.want[all[0].Outcome] != 1 {
					t.Errorf("the outcome is %s, want one of %v", all[0].Outcome, test.want)
				}
			})
		})
	}
}

func TestThereIsOneEventPerNodeKindAndHour(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		for i := range 6 {
			w.addPod(fmt.Sprintf("p-%d", i), 0)
		}
		w.run()
		at(10*sec, tainted("k:NoExecute"))(w)
		for i := range 4 {
			at(time.Duration(20+i)*sec, evicted(fmt.Sprintf("p-%d", i)))(w)
		}
		w.Until(10*time.Minute + 20*sec) // the two others are reported as not evicted after a minute
		if late, never := len(w.Book.When("event BuiltInEvictedLate")), len(w.Book.When("event BuiltInDidNotEvict")); late != 1 || never != 1 || len(w.Book.Calls()) != 2 {
			t.Errorf("%d and %d events, want one of each kind: %v", late, never, w.Book.Calls())
		}
		at(2*time.Hour, func(w *world) { w.addPod("q", 0) })(w)
		at(2*time.Hour+30*sec, evicted("q"))(w)
		w.Until(3 * time.Hour)
		if late := len(w.Book.When("event BuiltInEvictedLate")); late != 2 {
			t.Errorf("%d events, want one more after an hour", late)
		}
	})
}

func TestNothingIsChangedButEventsAndTheReport(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("p", 0)
		w.run()
		at(10*sec, tainted("k:NoExecute"))(w)
		w.Client.ClearActions()
		w.Until(time.Hour)
		for _, action := range w.Client.Actions() {
			verb, resource := action.GetVerb(), action.GetResource().Resource
			if verb != "list" && verb != "watch" && resource != "events" && resource != "configmaps" {
				t.Errorf("%s %s", verb, resource)
			}
		}
	})
}

func TestRecordsAreForgotten(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.run()
		for i := range 100 {
			w.addPod(fmt.Sprintf("p-%d", i), 20)
		}
		at(10*sec, tainted("k:NoExecute"))(w)
		for i := range 50 {
			at(30*sec, evicted(fmt.Sprintf("p-%d", i)))(w)
		}
		at(40*sec, tainted("k-"))(w)
		at(time.Hour, tainted("other:NoSchedule"))(w) // no news; the last look is over
		w.Until(2 * time.Hour)
		c := w.comparison
		c.forgetPredecessors(w.Clock.Now())
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.byNode) > 0 || c.overdue != 0 || len(c.predecessors) > 0 {
			t.Errorf("records of pods of %d nodes are left, %d overdue, %d predecessors", len(c.byNode), c.overdue, len(c.predecessors))
		}
	})
}

func TestWhatWentWhileTheWatchOfPodsWasInterruptedIsNotCalledLate(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("gone", 0)
		w.addPod("terminating", 0)
		w.run()
		at(10*sec, tainted("k:NoExecute"), markedByBuiltIn("gone"))(w)
		pods := w.comparison.config.Pods
		w.Until(3 * time.Minute) // nothing is heard meanwhile
		if got := len(w.comparison.Report().Differences); got != 2 {
			t.Errorf("%d pods are reported as not evicted, want 2", got)
		}
		w.ChangePod("terminating", func(pod *corev1.Pod) {
			since := metav1.NewTime(w.Start.Add(11*sec + 30*time.Minute))
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &since, new(int64(1800))
			pod.Status.Conditions = builtInCondition(builtInMark)
		})
		w.Until(4 * time.Minute)
		gone, _ := pods.Get("uid-of-gone")
		w.comparison.observe(podcache.Change{Before: gone}, w.Clock.See())
		w.wantPods(counts{v1alpha1.ShadowOnTime: 1, v1alpha1.ShadowUnjudged: 1})
		w.wantSaid()
	})
}
