// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// atOnce is how many calls may be open at once: five for each of the 16 places, and two that end at the instant at
// which others begin.
const atOnce = 5*DefaultConcurrentEvictions + 2

var errWebhook = apierrors.NewInternalError(errors.New("failed calling webhook: context deadline exceeded"))

// hangingDeletes makes deletes of pods whose names begin with "stuck" take some time, and then fail.
func hangingDeletes(takes time.Duration) func(verb, name string) (time.Duration, error) {
	return func(verb, name string) (time.Duration, error) {
		if verb == "delete" && strings.HasPrefix(name, "stuck") {
			return takes, errWebhook
		}
		return 0, nil
	}
}

func onNode(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = name }
}

// wantWithin fails unless the pod was deleted once, within 5 s of its due instant.
func (w *world) wantWithin(name string, due time.Duration) {
	w.T.Helper()
	if at := w.Did("delete " + name); len(at) != 1 || at[0] < due || at[0] > due+5*sec {
		w.T.Errorf("pod %s, due at %v, was deleted at %v, want within 5 s", name, due, at)
	}
}

// addStuckPods adds pods of namespace "stuck", spread over the nodes.
func (w *world) addStuckPods(pods, nodes int) {
	for i := range nodes {
		w.addStampedNode(fmt.Sprint("n", i), "k:NoExecute")
	}
	for i := range pods {
		w.addPod(fmt.Sprint("stuck-", i), inNamespace("stuck"), onNode(fmt.Sprint("n", i%nodes)))
	}
}

func inNamespace(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Namespace = name }
}

func limited(perSecond float64, burst int) func(*Config) {
	return func(c *Config) { c.Limiter = rate.NewLimiter(rate.Limit(perSecond), burst) }
}

// failsOnce fails the first delete of pod "once" at once.
func failsOnce(others func(verb, name string) (time.Duration, error)) func(verb, name string) (time.Duration, error) {
	var failed atomic.Bool
	return func(verb, name string) (time.Duration, error) {
		if verb == "delete" && name == "once" && !failed.Swap(true) {
			return 0, apierrors.NewInternalError(errors.New("not now"))
		}
		return others(verb, name)
	}
}

func TestCallsThatHangAreFewerThanTheSeatsOfTheAPIServer(t *testing.T) {
	for _, verb := range []string{"get", "patch", "delete"} {
		t.Run(verb, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				server := w.slow(func(v, _ string) (time.Duration, error) {
					if v == verb {
						return 30 * sec, errWebhook
					}
					return 0, nil
				})
				w.addStuckPods(600, 300)
				w.run(server.behind)
				w.Pass(3 * time.Minute)
				if server.mostOpen() > atOnce {
					t.Errorf("%d calls were open at once, want %d at most", server.mostOpen(), atOnce)
				}
			})
		})
	}
}

func TestADeleteThatFailedOnceIsTriedAgainSoonWhateverNumberOfOthersHang(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		server := w.slow(failsOnce(hangingDeletes(30 * sec)))
		w.addStuckPods(1000, 1000)
		w.addStampedNode("m", "k:NoExecute")
		w.addPod("once", tolerating("k", 60), onNode("m"))
		w.run(server.behind)
		w.Pass(5 * time.Minute)
		w.wantWithin("once", 59*sec) // the taints were set a second before the world began
	})
}

// One read that hangs, of many that would be answered.
func TestAPodDoesNotWaitForAReadThatWasStuckBeforeItWasDue(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var first atomic.Bool
		server := w.slow(func(verb, _ string) (time.Duration, error) {
			if verb == "get" && !first.Swap(true) {
				return time.Minute, nil
			}
			return 0, nil
		})
		w.addStampedNode("n", "k:NoExecute")
		w.addPod("p")
		w.addPod("q", tolerating("k", 10))
		w.run(server.behind)
		w.Pass(2 * time.Minute)
		w.wantWithin("q", 9*sec)
	})
}

// A webhook hangs until its own pod is somewhere else, and that pod is in the namespace that hangs.
func TestThePodOfAWebhookThatHangsIsFound(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var gone atomic.Bool
		server := w.slow(func(verb, name string) (time.Duration, error) {
			switch {
			case verb != "delete" || gone.Load():
			case name == "webhook":
				gone.Store(true)
			default:
				return 30 * sec, errWebhook
			}
			return 0, nil
		})
		w.addStuckPods(300, 20)
		w.addPod("webhook", inNamespace("stuck"), onNode("n0"), func(pod *corev1.Pod) { pod.Spec.Priority = new(int32(1000)) })
		w.run(server.behind)
		w.Pass(2 * time.Minute)
		if at := w.Did("delete webhook"); len(at) != 1 || at[0] > 301*sec/16 {
			t.Errorf("it was deleted at %v, want once, within 301/16 s", at)
		}
		if left := 301 - len(w.deleted()); left != 0 {
			t.Errorf("%d pods are left", left)
		}
	})
}

// Pods whose delete hung once, next to 2,000 of another namespace that hang indefinitely.
func TestPodsThatHungOnceLeaveNextToOthersThatHangForever(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		server := w.slow(func(verb, name string) (time.Duration, error) {
			if verb == "delete" && (name[0] == 's' || time.Since(w.Start) < 20*sec) {
				return 30 * sec, errWebhook
			}
			return 0, nil
		})
		w.addStuckPods(2000, 20)
		for i := range 20 {
			w.addPod(fmt.Sprint("good-", i), inNamespace("good"), onNode(fmt.Sprint("n", i)))
		}
		w.run(server.behind)
		w.Pass(5 * time.Minute)
		if left := 20 - len(w.deleted()); left != 0 {
			t.Errorf("%d good pods are left after five minutes", left)
		}
	})
}

// 2,000 pods whose delete is refused at once.
func TestRefusedDeletesAreTriedAtMostSixtyTimesASecond(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var tries atomic.Int32
		server := w.slow(func(verb, _ string) (time.Duration, error) {
			if verb != "delete" {
				return 10 * ms, nil
			}
			tries.Add(1)
			return 10 * ms, errWebhook
		})
		w.addStuckPods(2000, 20)
		w.run(server.behind)
		w.Pass(10 * sec)
		for range 60 {
			before := tries.Load()
			w.Pass(sec)
			if now := tries.Load() - before; now > 60 {
				t.Fatalf("%d tries in a second", now)
			}
		}
	})
}

func TestOurOwnRateLimitCancelsNothing(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addStuckPods(100, 10)
		w.run(limited(10, 1))
		w.Pass(time.Minute)
		if left := 100 - len(w.deleted()); left != 0 {
			t.Errorf("%d of 100 pods are left after a minute at 10 calls a second", left)
		}
		w.wantNoMetric("taintkeeper_retries_total")
	})
}

// An eviction that is withdrawn while it waits for our own rate limit gives its place up.
func TestWithdrawnEvictionsDoNotHoldUpOthers(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addStampedNode("m", "k:NoExecute")
		w.addStuckPods(60, 1)
		w.addPod("p", onNode("m"), tolerating("k", 10))
		w.run(limited(2, 1))
		w.Until(5 * sec)
		w.Taint("n0", "k-")
		w.Pass(time.Minute)
		w.wantWithin("p", 9*sec)
	})
}

// A node that is deleted and registered again under its name has no taint.
func TestADeleteInFlightIsCancelledWhenTheNodeIsRegisteredAgainWithoutTheTaint(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p")
		w.run(w.slow(slowDelete).behind)
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(3 * sec)
		w.DeleteNode("n")
		w.addNode("n")
		w.Pass(hour)
		if at := w.Did("delete p"); len(at) != 0 {
			t.Errorf("the pod was deleted at %v, want never", at)
		}
		w.wantMetric("taintkeeper_evictions_total", "cancelled", 1)
	})
}

func TestWhatHangsIsGivenUpFiveSecondsAfterTheEndBegins(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addStuckPods(1, 1)
		w.run(w.slow(hangingDeletes(30 * sec)).behind)
		w.Until(sec)
		w.Stop()
		if took := time.Since(w.Start) - sec; took > stopWithin+sec {
			t.Errorf("it ends after %s", took)
		}
		w.wantDeletes(nil)
	})
}

func TestAnUntaintWhileTheProcessEndsStillCancels(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p")
		w.run(w.slow(func(verb, _ string) (time.Duration, error) {
			if verb == "delete" {
				return 4 * sec, nil
			}
			return 0, nil
		}).behind)
		w.Until(sec)
		w.Taint("n", "k:NoExecute")
		w.Until(2 * sec)
		go func() {
			w.InCall(sec)
			w.Taint("n", "k-")
		}()
		w.Stop()
		w.Pass(hour)
		w.wantDeletes(nil)
	})
}

// A taint that comes and goes every second, of pods whose delete is refused, while the taint is there or once it is gone.
func TestARefusalKeepsItsBackoffWhenATaintFlapsAndTheLogStaysQuiet(t *testing.T) {
	for _, takes := range []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(takes.String(), func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				const nodes, minutes = 10, 5
				w.On("delete", "pods", "", func() error {
					w.hang(takes)
					return apierrors.NewForbidden(podsResource, "", errors.New("not now"))
				})
				for i := range nodes {
					w.addNode(fmt.Sprint("n", i))
					w.addPod(fmt.Sprint("p", i), onNode(fmt.Sprint("n", i)))
				}
				var lines atomic.Int32
				w.run(func(c *Config) { c.Logger = funcr.New(func(string, string) { lines.Add(1) }, funcr.Options{}) })
				for range minutes * 60 {
					for _, change := range []string{"k:NoExecute", "k-"} {
						for i := range nodes {
							w.Taint(fmt.Sprint("n", i), change)
						}
						w.Pass(sec / 2)
					}
				}
				if tries := len(w.Did("delete p")); tries > nodes*15 {
					t.Errorf("%d tries of %d pods in %d minutes, want the backoff of each to go on", tries, nodes, minutes)
				}
				if got := lines.Load(); got > (2*nodes+1)*(minutes+1) {
					t.Errorf("%d lines in the log, want at most two a minute for each node", got)
				}
			})
		})
	}
}

// Another client deletes the pod while our PATCH of it hangs.
func TestTheEndDoesNotWaitForACallAboutAPodThatIsGone(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n", "k:NoExecute")
		w.addPod("p")
		w.run(w.slow(hangingPatches).behind)
		w.Until(sec)
		w.DeletePod("default", "p")
		w.Until(2 * sec)
		w.Stop()
		if took := time.Since(w.Start) - 2*sec; took > stopWithin+sec {
			t.Errorf("it ends after %s", took)
		}
	})
}

func TestCallsAboutPodsThatAreGoneDoNotTakeAllPlaces(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		server := w.slow(hangingPatches)
		w.addStuckPods(300, 1)
		w.addStampedNode("m", "k:NoExecute")
		w.addPod("free", onNode("m"), tolerating("k", 6))
		w.run(server.behind)
		w.Until(2 * sec)
		for i := range 300 {
			w.DeletePod("stuck", fmt.Sprint("stuck-", i))
		}
		w.Pass(hour)
		w.wantWithin("free", 5*sec)
	})
}

// hangingPatches makes patches of pods take 30 s and then fail, except those of pod "free".
func hangingPatches(verb, name string) (time.Duration, error) {
	if verb == "patch" && name != "free" {
		return 30 * sec, errWebhook
	}
	return 0, nil
}
