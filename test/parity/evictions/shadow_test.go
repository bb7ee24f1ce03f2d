// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/shadow"
	"github.com/taintkeeper/taintkeeper/test/parity/arena"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	rig "github.com/taintkeeper/taintkeeper/test/rig/world"
)

// witness is a client whose watches continue when those of the contestant are interrupted.
func (w *world) witness() *fake.Clientset {
	client, news := &fake.Clientset{}, arena.News{}
	nodeChanged, podChanged := w.cluster.nodeChanged, w.cluster.podChanged
	w.cluster.nodeChanged = func(before, after *corev1.Node) {
		nodeChanged(before, after)
		arena.Tell(news, "nodes", before, after, w.cluster.version)
	}
	w.cluster.podChanged = func(before, after *corev1.Pod) {
		podChanged(before, after)
		arena.Tell(news, "pods", before, after, w.cluster.version)
	}
	client.AddReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		object, err := w.list(action.(clienttesting.ListActionImpl))
		return true, object, err
	})
	client.AddReactor("create", "events", w.react)
	client.AddReactor("patch", "events", w.react)
	client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		stream, err := news.Watch(action)
		return true, stream, err
	})
	return client
}

// compared runs a history with a contestant and a shadow that watches it, and returns what the shadow reports.
func compared(t *testing.T, h *history, c contestant) *v1alpha1.ShadowReport {
	t.Helper()
	var report *v1alpha1.ShadowReport
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(h)
		clock := &timeline.Clock{}
		bubble.Tell(clock)
		go bubble.KeepTelling(t.Context(), clock)
		witness := w.witness()
		caches := rig.NewCaches(witness, clock, true)
		comparison, err := shadow.New(shadow.Config{Client: witness, EventClient: witness, Nodes: caches.Nodes, Pods: caches.Pods, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		stop := bubble.Run(t, "the shadow", caches.With(comparison.Run))
		w.play(h, &arena.Process{T: t, Run: func(ctx context.Context) error { return c(ctx, w.client) }})
		report = comparison.Report()
		stop()
	})
	return report
}

// seen is what the shadow reports about the one pod of a history.
type seen struct {
	outcome v1alpha1.ShadowOutcome
	because string
}

func TestTheShadowShowsEachDefectAsWhatItIs(t *testing.T) {
	histories := failures()
	maps.Copy(histories, rewrites())
	wants := map[string]seen{
		"4: a second, shorter taint brings the eviction forward":               {v1alpha1.ShadowLate, "the built-in ignored a second taint with a shorter toleration"},
		"4: removing the shorter taint pushes the eviction back":               {v1alpha1.ShadowEarly, "went on with the first countdown, of 5 s for b, after that taint was removed"},
		"4: longer tolerationSeconds take effect":                              {v1alpha1.ShadowEarly, "it ignored the change of tolerationSeconds to 31"},
		"4: shorter tolerationSeconds take effect":                             {v1alpha1.ShadowLate, "it ignored the change of tolerationSeconds to 5"},
		"4: a value that is tolerated for less than the one before":            {v1alpha1.ShadowLate, "it ignored the change of tolerationSeconds to 5"},
		"6: tolerationSeconds of 585 years do not evict in 0.3 s":              {v1alpha1.ShadowEarly, "overflow"},
		"7: a replacement with the same name on a healthy node stays":          {v1alpha1.ShadowTwice, "the built-in deletes by name"},
		"7: a replacement does not inherit the countdown of the pod before it": {v1alpha1.ShadowEarly, "the countdown of the pod that had this name before"},
		"8: a pod that somebody else deleted is not deleted again":             {v1alpha1.ShadowTwice, "already terminating"},
		"9: a mirror pod is left alone":                                        {v1alpha1.ShadowStayed, "mirror of a static pod"},
		"10: a restart does not start a countdown again":                       {v1alpha1.ShadowLate, "evicted 12 s late: the built-in restarted its countdown of 21 s at 00:00:14, probably because the process restarted; it should have begun at 00:00:02"},
		"10: a countdown starts with timeAdded":                                {v1alpha1.ShadowLate, "when it first saw taint a"},
		"10: a swap and a restart":                                             {v1alpha1.ShadowLate, "restarted its countdown of 21 s at 00:00:16"},
		"without a number: a pod that tolerates one of the two forever":        {v1alpha1.ShadowLate, "when it first saw taint node.kubernetes.io/unreachable"},
		// The second delete leaves no trace.
		"8: a terminating pod is not deleted again when the taints change": {outcome: v1alpha1.ShadowOnTime},
		"a swap in two writes": {outcome: v1alpha1.ShadowOnTime},
		"a swap in one write":  {outcome: v1alpha1.ShadowOnTime},
		"a template that has another value and timeAdded each time":                        {outcome: v1alpha1.ShadowOnTime},
		"without a number: a pod whose node is gone is left to the pod garbage collection": {outcome: v1alpha1.ShadowUnjudged},
	}
	for name, s := range histories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, ok := wants[name]
			if !ok {
				t.Fatal("there is no entry for what the shadow should show")
			}
			report := compared(t, &s.history, upstream)
			if report.Pods[want.outcome] != 1 {
				t.Errorf("outcomes %v, want one %s", report.Pods, want.outcome)
			}
			checkDifferences(t, report, want)
		})
	}
}

// downMeanwhile reports whether upstream was started only when the pod was due: late is late, no matter which of the two
// did not run.
func downMeanwhile(h *history, late v1alpha1.ShadowDifference) bool {
	if late.Outcome != v1alpha1.ShadowLate {
		return false
	}
	return slices.ContainsFunc(h.occasions(), func(o occasion) bool {
		started := arena.Epoch.Add(o.at)
		return o.step == nil && started.After(late.Due.Time) && !started.After(late.Evicted.Time)
	})
}

func checkDifferences(t *testing.T, report *v1alpha1.ShadowReport, want seen) {
	t.Helper()
	if want.because == "" {
		if len(report.Differences) > 0 {
			t.Errorf("differences %v, want none", report.Differences)
		}
		return
	}
	if len(report.Differences) != 1 || report.Differences[0].Outcome != want.outcome || !strings.Contains(report.Differences[0].Sentence, want.because) {
		t.Errorf("differences %+v, want one %s with %q", report.Differences, want.outcome, want.because)
	}
}

// tally counts pods about which the shadow of upstream is right.
type tally struct{ kept, broken, shown atomic.Int32 }

func TestTheShadowAccusesUpstreamOfNothingWhereItKeepsTheRule(t *testing.T) {
	const histories, seed = 300, 1
	var pods tally
	t.Run("histories", func(t *testing.T) {
		for index := range uint64(histories) {
			t.Run(strconv.FormatUint(index, 10), func(t *testing.T) {
				t.Parallel()
				pods.check(t, generate(seed, index))
			})
		}
	})
	kept, broken, shown := pods.kept.Load(), pods.broken.Load(), pods.shown.Load()
	t.Logf("pods that upstream treated as the rule says: %d; otherwise, and visibly so: %d, of which %d are shown", kept, broken, shown)
	// What is not shown is usually too short: a difference within the tolerance, or a pod that soon went another way.
	if kept == 0 || shown < broken*3/4 {
		t.Error("the histories are no test, or too little is shown")
	}
}

func (pods *tally) check(t *testing.T, h *history) {
	t.Helper()
	trial := contest{ours, upstream}.try(t, h)
	accused := map[string]v1alpha1.ShadowDifference{}
	for _, difference := range compared(t, h, upstream).Differences {
		accused[string(difference.UID)] = difference
	}
	for uid, because := range trial.explain() {
		difference, differs := accused[uid]
		switch {
		case because == none && differs && !downMeanwhile(h, difference):
			t.Errorf("pod %s, which upstream treated as the rule says: %+v\n%s", uid, difference, trial.Timetable())
		case because == none:
			pods.kept.Add(1)
		case because.has(terminatingAgain | orphans): // the second delete leaves no trace, the other is not judged
		case differs:
			pods.shown.Add(1)
			pods.broken.Add(1)
		default:
			pods.broken.Add(1)
		}
	}
}

// neighbors is a node with many pods that are there from the beginning.
func neighbors(node string, count int, change func(*podSpec)) []podSpec {
	pods := make([]podSpec, count)
	for i := range pods {
		name := node + "-" + strconv.Itoa(i)
		pods[i] = podSpec{UID: name, Name: name, Node: node, Phase: corev1.PodRunning, Scheduled: new(-10 * sec)}
		change(&pods[i])
	}
	return pods
}

func TestAQuietHourOfCorrectEvictionsShowsNothing(t *testing.T) {
	const nodes, perNode = 20, 30
	h := &history{Start: 20 * ms}
	tolerate := func(pod *podSpec) { pod.Grace, pod.Tolerations = 30, tolerating("a", int64(10+pod.number()%20)) }
	for i := range nodes {
		name := "n" + strconv.Itoa(i)
		h.Nodes = append(h.Nodes, nodeSpec{Name: name})
		h.Pods = append(h.Pods, neighbors(name, perNode, tolerate)...)
		at := time.Duration(i) * 3 * time.Minute
		taint := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}
		if i%2 == 0 {
			taint = noExecute("a", at+sec)
		}
		h.Steps = append(h.Steps,
			step{at + 1100*ms, setTaint{name, taint}},
			step{at + 3300*ms, remove{UID: name + "-7"}},                   // its owner deletes it before it is due
			step{at + 15200*ms, untaint{name, "a"}},                        // before some of them are due
			step{at + 95400*ms, setTaint{name, noExecute("a", at+95*sec)}}, // and again
		)
	}
	report := compared(t, h, upstream)
	checkDifferences(t, report, seen{})
	if got, want := report.Pods[v1alpha1.ShadowOnTime], nodes*(perNode-1); got != want {
		t.Errorf("outcomes %v, want %d on time", report.Pods, want)
	}
}

// number is the number at the end of a pod's name.
func (p podSpec) number() int {
	n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	if err != nil {
		panic(err)
	}
	return n
}

// limited is upstream with the default limit of kube-controller-manager: 20 calls a second.
func limited(ctx context.Context, client *fake.Clientset) error {
	limiter := rate.NewLimiter(20, 30)
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetVerb() == "list" {
			return false, nil, nil
		}
		var err error
		arena.TakeTime(client, func() { err = limiter.Wait(ctx) })
		return err != nil, nil, err
	})
	return upstream(ctx, client)
}

// refused is upstream while the API server refuses every delete of a pod until an instant.
func refused(until time.Duration) contestant {
	return func(ctx context.Context, client *fake.Clientset) error {
		client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if arena.Now() >= until {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(podsResource, action.(clienttesting.DeleteAction).GetName(), errors.New("not now"))
		})
		return upstream(ctx, client)
	}
}

func TestTheShadowShowsWhatOnlyAStormOrARefusalBringsOut(t *testing.T) {
	storm := func(steps ...step) history {
		h := history{Start: 20 * ms, Nodes: []nodeSpec{{Name: "n"}}, Steps: steps}
		h.Pods = neighbors("n", 200, func(pod *podSpec) { pod.Grace = 30 })
		return h
	}
	one := podSpec{UID: "p", Name: "p", Node: "n", Phase: corev1.PodRunning, Scheduled: new(-10 * sec), Grace: 30}
	for name, test := range map[string]struct {
		history    history
		contestant contestant
		want       seen
		atLeast    int
	}{
		"1: untainting does not stop what waits": {
			storm(step{2100 * ms, tainted("a")}, step{6300 * ms, untaint{"n", "a"}}, step{time.Hour, untaint{"n", "none"}}),
			limited, seen{v1alpha1.ShadowStayed, "the built-in kept deleting pods after the untaint at 00:00:06"}, 150,
		},
		"2: a storm is late": {
			storm(step{2100 * ms, tainted("a")}, step{time.Hour, untaint{"n", "none"}}),
			limited, seen{v1alpha1.ShadowLate, "it probably waited in the built-in's queue"}, 150,
		},
		"3: an eviction that is refused for a moment is forgotten": {
			happens(nodeSpec{Name: "n"}, one, step{2100 * ms, tainted("a")}, step{time.Hour, untaint{"n", "none"}}),
			refused(5 * sec), seen{v1alpha1.ShadowNever, "marked it for deletion at 00:00:02, but it was not deleted; the built-in tries five times"}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := compared(t, &test.history, test.contestant)
			said := 0
			for _, difference := range report.Differences {
				if difference.Outcome == test.want.outcome && strings.Contains(difference.Sentence, test.want.because) {
					said++
				}
			}
			if said < test.atLeast || report.Pods[test.want.outcome] < said {
				t.Errorf("outcomes %v, and %d differences are %s with %q, want %d; the newest: %+v",
					report.Pods, said, test.want.outcome, test.want.because, test.atLeast, report.Differences[:min(3, len(report.Differences))])
			}
		})
	}
}
