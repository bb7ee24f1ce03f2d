// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// timeAdded and the binding of a pod are written with the API server's clock, which differs from the contestant's. What
// is promised refers to the true time that passes.

// told is our controller. Each answer of the API server tells it the server's time, and its own clock is ahead of that
// by the given duration.
func told(ahead time.Duration) contestant {
	return func(ctx context.Context, client *fake.Clientset) error {
		clock := &timeline.Clock{}
		client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			clock.Heard(time.Now().Add(-ahead).Truncate(sec), time.Now())
			return false, nil, nil
		})
		return runEvictor(ctx, eviction.Config{Client: client, Clock: clock})
	}
}

// skewed is a history in which a node is tainted at an instant, and a pod comes to it 8.2 s later. Every time that the
// API server writes is behind by the given duration.
func skewed(tainted, ahead time.Duration, seconds *int64, stamped bool) *history {
	comes := tainted + 8200*ms
	pod := func(name string, scheduled time.Duration) podSpec {
		spec := podSpec{UID: name, Name: name, Node: "n", Phase: corev1.PodRunning, Created: scheduled, Scheduled: &scheduled}
		if seconds != nil {
			spec.Tolerations = tolerating("a", *seconds)
		}
		return spec
	}
	taint := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}
	if stamped {
		taint = noExecute("a", tainted-ahead)
	}
	h := happens(nodeSpec{Name: "n"}, pod("p", -10*sec-ahead),
		step{tainted, setTaint{"n", taint}}, step{comes, create{pod("q", comes-ahead)}}, step{time.Hour, untaint{"n", "none"}})
	return &h
}

func TestAClockThatIsWrongNeverMakesOursEarly(t *testing.T) {
	skews := map[string]time.Duration{
		"five minutes ahead": 5 * time.Minute, "an hour ahead": time.Hour, "three seconds ahead": 3 * sec, "right": 0,
		"three seconds behind": -3 * sec, "five minutes behind": -5 * time.Minute,
	}
	for name, ahead := range skews {
		for tolerates, seconds := range map[string]*int64{"nothing": nil, "for 300 s": new(int64(300))} {
			for added, stamped := range map[string]bool{"with timeAdded": true, "without timeAdded": false} {
				t.Run(name+", tolerates "+tolerates+", "+added, func(t *testing.T) {
					for _, tainted := range []time.Duration{2100 * ms, 2500 * ms, 2950 * ms} {
						played := play(t, skewed(tainted, ahead, seconds, stamped), told(ahead))
						for pod, due := range map[string]time.Duration{"p": tainted, "q": tainted + 8200*ms} {
							if seconds != nil {
								due += time.Duration(*seconds) * sec
							}
							if got := played[pod]; len(got) != 1 || got[0] < due || got[0] > due+2*sec {
								t.Errorf("pod %s was deleted at %s, due at %s", pod, when(got), arena.Clock(due))
							}
						}
					}
				})
			}
		}
	}
}

// A contestant that trusts its own clock, five minutes ahead, would delete the pod at once.
func TestTrustingItsOwnClockOursWouldBeEarlyAndUpstreamCountsFromSight(t *testing.T) {
	h := skewed(2100*ms, 5*time.Minute, new(int64(300)), true)
	if got := play(t, h, ours)["p"]; len(got) != 1 || got[0] > 10*sec {
		t.Errorf("ours, which is told its own time, deleted the pod at %s: the histories are no test", when(got))
	}
	if got := play(t, h, upstream)["p"]; !near(got, at(302100*ms), exactly) {
		t.Errorf("upstream deleted the pod at %s", when(got))
	}
}

// A clock that is set while a countdown runs is not played: in virtual time there is one for all.
func TestAfterARestartAClockThatIsWrongMakesOursNotEarlyEither(t *testing.T) {
	const due, restarted, down = 302100 * ms, 100200 * ms, 2 * sec
	for name, test := range map[string]struct{ ahead, latest time.Duration }{
		"ahead": {5 * time.Minute, due + 3*sec},
		// What timeAdded says lies in the future, so what counts is when the process that was started again first saw
		// the taint.
		"behind": {-5 * time.Minute, restarted + down + 301*sec},
	} {
		t.Run(name, func(t *testing.T) {
			h := skewed(2100*ms, test.ahead, new(int64(300)), false)
			h.Steps = slices.Insert(h.Steps, 2, step{restarted, restart{down}})
			if got := play(t, h, told(test.ahead))["p"]; len(got) != 1 || got[0] < due || got[0] > test.latest {
				t.Errorf("pod p was deleted at %s, due at %s, and at %s at the latest", when(got), arena.Clock(due), arena.Clock(test.latest))
			}
		})
	}
}
