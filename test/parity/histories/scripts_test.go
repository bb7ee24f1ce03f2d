// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// What random histories of evictions do not reach.

// Here upstream's node-lifecycle controller itself sets the taints, and swaps them, as a kubelet becomes not ready or
// silent. The pods have the tolerations that the API server gives to every pod.
func TestUpstreamsOwnTaintsEvictInTimeWithBoth(t *testing.T) {
	const began, tolerated = 60098 * ms, 300 * sec
	after := func(d time.Duration, do action) step { return step{began + d, do} }
	silent, unready := fall{[]string{"sick"}}, report{"sick", corev1.NodeReady, corev1.ConditionFalse}
	var alternating []step
	for d := 240 * sec; d < 2*time.Hour; d += 480 * sec {
		alternating = append(alternating, after(d-50*sec, silent), after(d+240*sec, resume{"sick"}), after(d+240*sec+2*ms, unready))
	}
	type leaves struct{ ours, upstream time.Duration } // after the first NoExecute taint
	for name, test := range map[string]struct {
		steps []step
		again bool // the second NoExecute taint counts, because the node was ready before it
		want  leaves
	}{
		"not ready, then silent":                          {steps: []step{after(200*sec, silent)}, want: leaves{tolerated, tolerated}},
		"now not ready, now silent, for two hours":        {steps: alternating, want: leaves{tolerated, tolerated}},
		"ready between the two":                           {steps: []step{after(200*sec, resume{"sick"}), after(230*sec, silent)}, again: true, want: leaves{tolerated, tolerated}},
		"a restart of what evicts after the swap, at 280": {steps: []step{after(200*sec, silent), after(286*sec, restart{})}, want: leaves{tolerated, 580 * sec}},
	} {
		for who, evicts := range map[string]contestant{"ours": ours, "upstream": upstream} {
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel()
				pod := running("p", "sick", slices.Concat(tolerating(corev1.TaintNodeNotReady, 300), tolerating(corev1.TaintNodeUnreachable, 300))...)
				h := &history{Start: sec, Pods: []podSpec{pod}, Steps: append([]step{{began, unready}}, test.steps...)}
				for i, node := range []string{"sick", "well-1", "well-2"} {
					h.Nodes = append(h.Nodes, nodeSpec{Name: node, Zone: "a", Phase: time.Duration(i)*sec + 90*ms})
				}
				h.Steps = append(h.Steps, after(max(1000*sec, h.end()-began), touch{"well-1"}))
				w := play(t, h, evicts, func(t *testing.T, w *world) {
					bubble.Run(t, "upstream's node-lifecycle controller", func(ctx context.Context) error { return upstreamOfNodes(ctx, w) })
				})
				tainted := began
				for i, l := range w.nodes["sick"] {
					if i > 0 && l.noExecute != "" && w.nodes["sick"][i-1].noExecute == "" && (tainted == began || test.again) {
						tainted = l.at
					}
				}
				want := test.want.ours
				if who == "upstream" {
					want = test.want.upstream
				}
				if !equal(w.pods["p"], at(tainted+want), 1200*ms) {
					t.Errorf("the pod was deleted at %s, want %s after the taint at %s: %s", when(w.pods["p"]), want, clock(tainted), when(w.nodes["sick"]))
				}
			})
		}
	}
}

// An admission webhook for the pods of one node is in trouble. What happens to these, and to a pod of another node that
// has nothing to do with it?
func TestAWebhookInTroubleHoldsUpNoPodOfAnotherNode(t *testing.T) {
	const hooked, due, heals, backoff = 300, 32200 * ms, 200 * sec, 5 * time.Minute
	hanging := apierrors.NewInternalError(errors.New("failed calling webhook: context deadline exceeded"))
	refusing := apierrors.NewForbidden(podsResource.GroupResource(), "", errors.New("the webhook says no"))
	for name, test := range map[string]struct {
		takes time.Duration
		err   error
		who   string
		late  time.Duration // at most, of the healthy pod, unless it is zero
		left  int           // of the webhook's pods, once it has recovered
	}{
		"hangs for 10 s, ours":                 {10 * sec, hanging, "ours", 5 * sec, hooked},
		"hangs for 30 s, ours":                 {30 * sec, hanging, "ours", 5 * sec, hooked},
		"hangs for 30 s, upstream":             {30 * sec, hanging, "upstream", sec, 0},
		"hangs for 10 s, upstream at its rate": {10 * sec, hanging, "upstream with its rate limit", 0, 0},
		"refuses at once, ours":                {0, refusing, "ours", 5 * sec, hooked},
		"refuses at once, upstream":            {0, refusing, "upstream", 5 * sec, 0},
		"refuses after 10 s, ours":             {10 * sec, refusing, "ours", 5 * sec, hooked},
		"refuses after 10 s, upstream":         {10 * sec, refusing, "upstream", 5 * sec, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history{
				Start: 20 * ms, Nodes: []nodeSpec{{Name: "n"}, {Name: "other"}},
				Pods: []podSpec{running("healthy", "other", tolerating("b", 30)...)},
				Steps: []step{
					{2100 * ms, tainted("a")}, {2200 * ms, setTaint{"other", noExecute("b", 2*sec)}},
					{heals + backoff + test.takes + time.Minute, untaint{Node: "other", Key: "none"}},
				},
			}
			for i := range hooked {
				h.Pods = append(h.Pods, running(fmt.Sprintf("p%d", i), "n"))
			}
			w := play(t, h, behindWebhook(test.who, test.takes, func() error {
				if now() >= heals {
					return nil
				}
				return test.err
			}))
			deletes := w.pods["healthy"]
			if len(deletes) != 1 || deletes[0].at < due || test.late > 0 && deletes[0].at > due+test.late {
				t.Fatalf("the healthy pod was deleted at %s, due at %s", when(deletes), clock(due))
			}
			last := time.Duration(0)
			for _, deletes := range w.pods {
				last = max(last, deletes[0].at)
			}
			t.Logf("the healthy pod left %s late; %d of %d pods left, the last at %s", deletes[0].at-due, len(w.pods)-1, hooked, clock(last))
			if left := len(w.pods) - 1; left != test.left {
				t.Errorf("%d of %d pods left, want %d", left, hooked, test.left)
			}
		})
	}
}

// behindWebhook is a contestant whose deletes of the webhook's pods take the given time and fail, as long as answer
// returns an error. A call that the client gives up ends at once, as a real one does. With its rate limit, upstream has
// kube-controller-manager's client: 20 calls per second, 30 at once. The reads of pods, a third of its calls, are free.
func behindWebhook(who string, takes time.Duration, answer func() error) contestant {
	limiter := rate.NewLimiter(rate.Inf, 1)
	if who == "upstream with its rate limit" {
		limiter = rate.NewLimiter(20, 30)
	}
	return func(ctx context.Context, w *world) error {
		slow := &bubble.Slow{Clientset: w.client, Before: func(call context.Context, r bubble.Request) error {
			if r.Verb != "get" {
				if err := limiter.Wait(ctx); err != nil {
					return err
				}
			}
			if r.Verb != "delete" || !strings.HasPrefix(r.Name, "p") {
				return nil
			}
			if err := answer(); err != nil {
				return cmp.Or(bubble.Takes(call, takes), err)
			}
			return nil
		}}
		if who == "ours" {
			return oursWith(ctx, slow)
		}
		return upstreamWith(ctx, slow)
	}
}

// timeAdded and the binding of a pod are written with the API server's clock, which differs from the contestant's. What
// is promised refers to the true time that passes. A clock that is set while a countdown runs is not played: in virtual
// time there is one for all.
func TestAClockThatIsWrongNeverMakesOursEarly(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Minute, time.Hour, 3 * sec, 0, -3 * sec, -5 * time.Minute} {
		for _, seconds := range []*int64{nil, new(int64(300))} {
			for _, stamped := range []bool{true, false} {
				for _, tainted := range []time.Duration{2100 * ms, 2500 * ms, 2950 * ms} {
					w := play(t, skewed(tainted, ahead, seconds, stamped), told(ahead))
					for pod, due := range map[string]time.Duration{"p": tainted, "q": tainted + 8200*ms} {
						if seconds != nil {
							due += time.Duration(*seconds) * sec
						}
						if got := w.pods[pod]; len(got) != 1 || got[0].at < due || got[0].at > due+2*sec {
							t.Errorf("ahead by %s, tolerates for a time: %t, timeAdded: %t: pod %s was deleted at %s, due at %s",
								ahead, seconds != nil, stamped, pod, when(got), clock(due))
						}
					}
				}
			}
		}
	}
	// A contestant that trusts its own clock, five minutes ahead, would delete the pod at once.
	if got := play(t, skewed(2100*ms, 5*time.Minute, new(int64(300)), true), ours).pods["p"]; len(got) != 1 || got[0].at > 10*sec {
		t.Errorf("ours, which is told its own time, deleted the pod at %s: the histories are no test", when(got))
	}
}

func TestAfterARestartAClockThatIsWrongMakesOursNotEarlyEither(t *testing.T) {
	const due, restarted, down = 302100 * ms, 100200 * ms, 2 * sec
	for ahead, latest := range map[time.Duration]time.Duration{
		5 * time.Minute: due + 3*sec,
		// What timeAdded says lies in the future, so what counts is when the process that was started again first saw the
		// taint.
		-5 * time.Minute: restarted + down + 301*sec,
	} {
		h := skewed(2100*ms, ahead, new(int64(300)), false)
		h.Steps = slices.Insert(h.Steps, 2, step{restarted, restart{down}})
		if got := play(t, h, told(ahead)).pods["p"]; len(got) != 1 || got[0].at < due || got[0].at > latest {
			t.Errorf("ahead by %s, pod p was deleted at %s, due at %s, and at %s at the latest", ahead, when(got), clock(due), clock(latest))
		}
	}
}

// told is our controller. Each answer of the API server tells it the server's time, and its own clock is ahead of that
// by the given duration.
func told(ahead time.Duration) contestant {
	return func(ctx context.Context, w *world) error {
		clock := &timeline.Clock{}
		w.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			clock.Heard(time.Now().Add(-ahead).Truncate(sec), time.Now())
			return false, nil, nil
		})
		return runEvictor(ctx, eviction.Config{Client: w.client, Clock: clock})
	}
}

// skewed is a history in which a node is tainted at an instant, and a pod comes to it 8.2 s later. Every time that the
// API server writes is behind by the given duration.
func skewed(tainted, ahead time.Duration, seconds *int64, stamped bool) *history {
	comes := tainted + 8200*ms
	pod := func(name string, scheduled time.Duration) podSpec {
		spec := running(name, "n")
		spec.Created, spec.Scheduled = scheduled, &scheduled
		if seconds != nil {
			spec.Tolerations = tolerating("a", *seconds)
		}
		return spec
	}
	taint := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}
	if stamped {
		taint = noExecute("a", tainted-ahead)
	}
	h := happens(nodeSpec{Name: "n"}, pod("p", -10*sec-ahead), step{tainted, setTaint{"n", taint}},
		step{comes, create{Pod: pod("q", comes-ahead)}}, step{time.Hour, untaint{Node: "n", Key: "none"}})
	return &h
}

// The rule itself promises this. TestEvictions shows that ours keeps the rule.
func TestARestartNeverBringsAnEvictionForward(t *testing.T) {
	restarts := 0
	for index := range uint64(20000) {
		h := evictions.generate(seed.Seed(), index)
		steady := *h
		steady.Steps = slices.DeleteFunc(slices.Clone(h.Steps), func(s step) bool { return occasion{step: &s}.kills() })
		if len(steady.Steps) == len(h.Steps) {
			continue
		}
		restarts++
		without := predictDeletes(&steady, none)
		for uid, deletes := range predictDeletes(h, none) {
			if len(without[uid]) == 0 || deletes[0].at < without[uid][0].at {
				t.Fatalf("history %d: pod %s leaves at %s with the restarts, at %s without", index, uid, when(deletes), when(without[uid]))
			}
		}
	}
	if restarts == 0 {
		t.Error("no history had a restart")
	}
}

// Upstream's outcome is a matter of luck when a pod is replaced before its goroutines have seen that the old one is
// gone. Ours is the same as ever.
func TestOursDoesNotNeedToSeeAPodGoBeforeItsReplacementComes(t *testing.T) {
	replaced := 0
	for index := range uint64(600) {
		h := evictions.generate(seed.Seed(), index)
		if !slices.ContainsFunc(h.podSpecs(), func(p podSpec) bool { return p.UID != p.Name }) {
			continue
		}
		replaced++
		h.Hasty = true
		got, want := play(t, h, ours).pods, predictDeletes(h, none)
		for _, spec := range h.podSpecs() {
			if !equal(got[spec.UID], want[spec.UID], exactly) {
				t.Errorf("history %d of seed %d: pod %s deleted at %s, want %s", index, seed.Seed(), spec.UID, when(got[spec.UID]), when(want[spec.UID]))
			}
		}
	}
	if replaced == 0 {
		t.Error("no pod was replaced")
	}
}
