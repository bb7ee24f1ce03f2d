// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// What a history does not show: failures, calls, events, goroutines. The numbers refer to
// docs/defects.md.

// crowd is a history in which a node with many pods is tainted after two seconds.
func crowd(pods int, steps ...step) *history {
	h := &history{Nodes: []nodeSpec{{Name: "n"}}, Start: 20 * ms}
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		h.Pods = append(h.Pods, podSpec{UID: name, Name: name, Node: "n", Phase: corev1.PodRunning, Scheduled: new(-10 * sec)})
	}
	h.Steps = append([]step{{2100 * ms, tainted("a")}}, steps...)
	return h
}

// disturbed lets a function see every call about pods that a contestant makes, before it is answered. It may let
// virtual time pass, in arena.TakeTime, and answers the call if it returns an error.
func disturbed(c contestant, see func(client *fake.Clientset, verb string) error) contestant {
	return func(ctx context.Context, client *fake.Clientset) error {
		client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, apiruntime.Object, error) {
			err := see(client, action.GetVerb())
			return err != nil, nil, err
		})
		return c(ctx, client)
	}
}

// bothPlay runs a history with both contestants.
func bothPlay(t *testing.T, h *history, ours, upstream contestant, look func(t *testing.T, who string, w *world)) {
	t.Helper()
	for who, c := range map[string]contestant{"ours": ours, "upstream": upstream} {
		t.Run(who, func(t *testing.T) {
			playAndLook(t, h, c, func(w *world) { look(t, who, w) })
		})
	}
}

func TestOursStopsAtAnUntaintAndUpstreamDeletesWhatWaitsForItsRateLimit(t *testing.T) { // 1
	const pods, perSecond, burst = 200, 20, 30
	h := crowd(pods, step{4200 * ms, untaint{"n", "a"}})
	limited := func(ctx context.Context, client *fake.Clientset) error {
		limiter := rate.NewLimiter(perSecond, burst)
		return disturbed(upstream, func(client *fake.Clientset, verb string) error {
			if verb == "get" || verb == "patch" || verb == "delete" {
				arena.TakeTime(client, func() { _ = limiter.Wait(ctx) })
			}
			return nil
		})(ctx, client)
	}
	oursLimited := func(ctx context.Context, client *fake.Clientset) error {
		return runEvictor(ctx, eviction.Config{Client: client, Limiter: rate.NewLimiter(perSecond, burst)})
	}
	bothPlay(t, h, oursLimited, limited, func(t *testing.T, who string, w *world) {
		after := 0
		for _, deletes := range w.deletes {
			if deletes[0] > 4300*ms {
				after++
			}
		}
		t.Logf("%s deleted %d of %d pods, %d of them after the untaint", who, len(w.deletes), pods, after)
		if wrong := who == "ours"; wrong != (after == 0) {
			t.Errorf("%s deleted %d pods after the untaint", who, after)
		}
	})
}

func TestOursMakesTwoCallsForEachPodAndUpstreamThree(t *testing.T) { // 2
	const pods = 100
	bothPlay(t, crowd(pods), ours, upstream, func(t *testing.T, who string, w *world) {
		want := map[string]map[string]int{
			"ours":     {"get pods": 0, "patch pods": pods, "delete pods": pods, "get nodes": 1}, // one read serves for the evictions and for writing timeAdded
			"upstream": {"get pods": pods, "patch pods": pods, "delete pods": pods, "get nodes": 0},
		}[who]
		for call, n := range want {
			if w.calls[call] != n {
				t.Errorf("%s made %d calls %q, want %d", who, w.calls[call], call, n)
			}
		}
	})
}

func TestOursTriesAgainAndUpstreamForgetsAfterFiveFailures(t *testing.T) { // 3
	refused := func(_ *fake.Clientset, verb string) error {
		if verb == "delete" && arena.Now() < 5*sec {
			return apierrors.NewForbidden(podsResource, "p0", fmt.Errorf("a policy says no"))
		}
		return nil
	}
	bothPlay(t, crowd(1), disturbed(ours, refused), disturbed(upstream, refused), func(t *testing.T, who string, w *world) {
		if deleted := len(w.deletes) == 1; deleted != (who == "ours") {
			t.Errorf("%s deleted %v", who, w.deletes)
		}
	})
}

func TestOursNeedsNoIndexOfAnotherController(t *testing.T) { // 11
	alone := func(ctx context.Context, client *fake.Clientset) error {
		return runUpstream(ctx, client, cache.Indexers{})
	}
	bothPlay(t, crowd(1), ours, alone, func(t *testing.T, who string, w *world) {
		if deleted := len(w.deletes) == 1; deleted != (who == "ours") {
			t.Errorf("%s deleted %v", who, w.deletes)
		}
	})
}

func TestOursHasBoundedWorkersAndUpstreamAGoroutineForEachPod(t *testing.T) { // 12
	const pods, bound = 600, 300 // 80 workers, and what watches
	for who, c := range map[string]contestant{"ours": ours, "upstream": upstream} {
		t.Run(who, func(t *testing.T) {
			before, most := runtime.NumGoroutine(), 0
			playAndLook(t, crowd(pods), disturbed(c, func(client *fake.Clientset, verb string) error {
				most = max(most, runtime.NumGoroutine()-before)
				if verb == "delete" {
					arena.TakeTime(client, func() { arena.Sleep(100 * ms) })
				}
				return nil
			}), func(*world) {})
			t.Logf("%s: %d goroutines for %d pods", who, most, pods)
			if few := most < bound; few != (who == "ours") {
				t.Errorf("%s had %d goroutines for %d pods", who, most, pods)
			}
		})
	}
}

func TestOursSaysCancelledOnlyOfPodsThatStayAndNamesTheUID(t *testing.T) { // 14
	h := crowd(2, step{4200 * ms, remove{UID: "p0"}}, step{6300 * ms, untaint{"n", "a"}})
	for i := range h.Pods {
		h.Pods[i].Tolerations = tolerating("a", 31)
	}
	h.Steps = append(h.Steps, step{8400 * ms, setTaint{"n", noExecute("b", 8*sec)}})
	bothPlay(t, h, ours, upstream, func(t *testing.T, who string, w *world) {
		cancelled := map[string]int{}
		for _, event := range w.events {
			if strings.HasPrefix(event.Message, "Cancelling deletion") {
				cancelled[event.InvolvedObject.Name]++
			}
			if named := event.InvolvedObject.UID != ""; named != (who == "ours") {
				t.Errorf("%s: event %q with UID %q", who, event.Message, event.InvolvedObject.UID)
			}
		}
		want := map[string]int{"ours": 0, "upstream": 1}[who]
		if cancelled["p0"] != want || cancelled["p1"] != 1 {
			t.Errorf("%s said that the deletion of p0, which somebody else deleted, was cancelled %d times, and of p1, which stays, %d times; want %d and 1",
				who, cancelled["p0"], cancelled["p1"], want)
		}
		if len(w.events) == 0 {
			t.Errorf("%s wrote no events", who)
		}
	})
}

func TestOursDeletesAPodOnceWhenItStartsAndUpstreamMostlyTwice(t *testing.T) { // no number
	const pods = 200
	h := crowd(pods)
	h.Steps, h.Nodes[0].Taints = nil, []corev1.Taint{noExecute("a", 0)}
	for i := range h.Pods {
		h.Pods[i].Grace = 30
	}
	// Which of its goroutines comes first is a matter of luck, of which there is more on a busy machine.
	const tries = 10
	twice := func(t *testing.T, c contestant) (again int) {
		t.Helper()
		playAndLook(t, h, c, func(w *world) {
			if len(w.deletes) != pods {
				t.Errorf("%d of %d pods deleted", len(w.deletes), pods)
			}
			for _, deletes := range w.deletes {
				again += len(deletes) - 1
			}
		})
		return again
	}
	if again := twice(t, ours); again > 0 {
		t.Errorf("ours deleted %d of %d pods twice", again, pods)
	}
	for range tries {
		if again := twice(t, upstream); again > 0 {
			t.Logf("upstream deleted %d of %d pods twice", again, pods)
			return
		}
	}
	t.Errorf("upstream deleted no pod twice in %d starts", tries)
}

// slow makes the call that ends an eviction take a while.
func slow(c contestant, took time.Duration) contestant {
	return disturbed(c, func(client *fake.Clientset, verb string) error {
		if verb == "patch" {
			arena.TakeTime(client, func() { arena.Sleep(took) })
		}
		return nil
	})
}
