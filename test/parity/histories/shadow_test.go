// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/shadow"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
)

// witness is a client whose watches continue when those of the contestant are interrupted.
func (w *world) witness() *fake.Clientset {
	client, watches := &fake.Clientset{}, map[string]*bubble.Watches{"nodes": {}, "pods": {}}
	changed := w.api.Changed
	w.api.Changed = func(kind watch.EventType, object runtime.Object) {
		changed(kind, object)
		if told := watches[resourceOf(object.(metav1.Object)).Resource]; told != nil {
			told.Tell("", kind, object)
		}
	}
	client.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := w.answer(action)
		return true, object, err
	})
	client.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		from := bubble.VersionOf(action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion)
		stream, err := watches[action.GetResource().Resource].Begin("", "", from)
		return true, stream, err
	})
	return client
}

// compared plays a history to a contestant and a shadow that watches it, and returns what the shadow reports.
func compared(t *testing.T, h *history, c contestant) *v1alpha1.ShadowReport {
	t.Helper()
	var comparison *shadow.Comparison
	play(t, h, c, func(t *testing.T, w *world) {
		t.Helper()
		witness, clock := w.witness(), toldClock(t.Context())
		caches := caches.New(witness, clock, true)
		var err error
		comparison, err = shadow.New(shadow.Config{Client: witness, EventClient: witness, Nodes: caches.Nodes, Pods: caches.Pods, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		bubble.Run(t, "the shadow", caches.With(comparison.Run))
	})
	return comparison.Report()
}

// seen is what the shadow reports about a pod. Because is empty when no difference is reported.
type seen struct {
	outcome v1alpha1.ShadowOutcome
	because string
}

func (s seen) in(differences []v1alpha1.ShadowDifference) (times int) {
	for _, difference := range differences {
		if difference.Outcome == s.outcome && strings.Contains(difference.Sentence, s.because) {
			times++
		}
	}
	return times
}

// check checks the report about a single pod.
func (s seen) check(t *testing.T, report *v1alpha1.ShadowReport) {
	t.Helper()
	differences := 1
	if s.because == "" {
		differences = 0
	}
	if report.Pods[s.outcome] != 1 || len(report.Differences) != differences || s.in(report.Differences) != differences {
		t.Errorf("the shadow reports %v and %+v, want one %s with %q", report.Pods, report.Differences, s.outcome, s.because)
	}
}

func TestTheShadowShowsWhatOnlyAStormOrARefusalBringsOut(t *testing.T) {
	storm := func(steps ...step) *history {
		h := &history{Start: 20 * ms, Nodes: []nodeSpec{{Name: "n"}}, Steps: append(steps, step{time.Hour, untaint{Node: "n", Key: "none"}})}
		for i := range 200 {
			h.Pods = append(h.Pods, running(fmt.Sprintf("p%d", i), "n"))
			h.Pods[i].Grace = 30
		}
		return h
	}
	one := storm(step{2100 * ms, tainted("a")})
	one.Pods = one.Pods[:1]
	for name, test := range map[string]struct {
		history    *history
		contestant contestant
		want       seen
		atLeast    int
	}{
		"1: untainting does not stop what waits": {
			storm(step{2100 * ms, tainted("a")}, step{6300 * ms, untaint{Node: "n", Key: "a"}}), limited,
			seen{v1alpha1.ShadowStayed, "the built-in controller kept deleting pods after the untaint at 00:00:06"}, 150,
		},
		"2: a storm is late": {
			storm(step{2100 * ms, tainted("a")}), limited,
			seen{v1alpha1.ShadowLate, "it probably waited in the built-in controller's queue"}, 150,
		},
		"3: an eviction that is refused for a moment is forgotten": {
			one, refused(5 * sec),
			seen{v1alpha1.ShadowNever, "marked it for deletion at 00:00:02, but it was not deleted; the built-in controller tries five times"}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := compared(t, test.history, test.contestant)
			said := test.want.in(report.Differences)
			if said < test.atLeast || report.Pods[test.want.outcome] < said {
				t.Errorf("outcomes %v, and %d differences are %s with %q, want %d; the newest: %+v",
					report.Pods, said, test.want.outcome, test.want.because, test.atLeast, report.Differences[:min(3, len(report.Differences))])
			}
		})
	}
}

// limited is upstream with the default limit of kube-controller-manager: 20 calls a second.
func limited(ctx context.Context, w *world) error {
	limiter := rate.NewLimiter(20, 30)
	w.client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetVerb() == "list" {
			return false, nil, nil
		}
		var err error
		takeTime(w.client, func() { err = limiter.Wait(ctx) })
		return err != nil, nil, err
	})
	return upstream(ctx, w)
}

// refused is upstream while the API server refuses every delete of a pod until an instant.
func refused(until time.Duration) contestant {
	return func(ctx context.Context, w *world) error {
		w.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if now() >= until {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(podsResource.GroupResource(), "", errors.New("not now"))
		})
		return upstream(ctx, w)
	}
}

func TestTheShadowAccusesUpstreamOfNothingWhereItKeepsTheRule(t *testing.T) {
	const histories = 300
	var kept, broken, shown atomic.Int64
	seed.Each(t, histories, func(t *testing.T, index int) {
		h := evictions.generate(dice{seed.Rand(index)})
		trial, accused := evictions.try(t, h), map[string]v1alpha1.ShadowDifference{}
		for _, difference := range compared(t, h, upstream).Differences {
			accused[string(difference.UID)] = difference
		}
		for uid, because := range trial.explain() {
			difference, differs := accused[uid]
			switch {
			case because == agrees && differs && !downMeanwhile(h, difference):
				t.Errorf("pod %s, which upstream treated as the rule says: %+v\n%s\n%s", uid, difference, seed.Describe(h), trial.table())
			case because == agrees:
				kept.Add(1)
			case because.has(terminatingAgain | orphans): // the second delete leaves no trace, the other is not judged
			default:
				broken.Add(1)
				if differs {
					shown.Add(1)
				}
			}
		}
	})
	t.Logf("pods that upstream treated as the rule says: %d; otherwise, and visibly so: %d, of which %d are shown", kept.Load(), broken.Load(), shown.Load())
	// What is not shown is usually too short: a difference within the tolerance, or a pod that soon went another way.
	if kept.Load() == 0 || shown.Load() < broken.Load()*3/4 {
		t.Error("the histories are no test, or too little is shown")
	}
}

// downMeanwhile reports whether upstream was started only when the pod was due: late is late, no matter which of the two
// did not run.
func downMeanwhile(h *history, late v1alpha1.ShadowDifference) bool {
	return late.Outcome == v1alpha1.ShadowLate && slices.ContainsFunc(h.starts(), func(at time.Duration) bool {
		started := epoch.Add(at)
		return started.After(late.Due.Time) && !started.After(late.Evicted.Time)
	})
}
