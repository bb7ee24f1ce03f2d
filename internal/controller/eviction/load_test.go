// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// These tests are about many pods, or many calls that hang. Package backlog has the rule, and its bounds.

// atOnce is how many calls may be open at once: five for each of the 16 places, and four that end at the instant at
// which others begin.
const atOnce = 5*DefaultConcurrentEvictions + 4

var errWebhook = apierrors.NewInternalError(errors.New("failed calling webhook: context deadline exceeded"))

// addStuckPods adds pods of namespace "stuck", spread over the nodes.
func (w *world) addStuckPods(pods, nodes int) {
	for i := range nodes {
		w.addStampedNode(fmt.Sprint("n", i), "k:NoExecute")
	}
	for i := range pods {
		w.addPod(fmt.Sprint("stuck-", i), inNamespace("stuck"), onNode(fmt.Sprint("n", i%nodes)))
	}
}

// stuck makes calls of a verb about stuck pods hang for 30 s, and then fail.
func stuck(verb string) func(verb, name string) (time.Duration, error) {
	return func(is, name string) (time.Duration, error) {
		if is == verb && strings.HasPrefix(name, "stuck") {
			return 30 * sec, errWebhook
		}
		return 0, nil
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
				w.addStuckPods(200, 200)
				w.run(server.behind)
				w.Pass(2 * time.Minute)
				if server.most > atOnce {
					t.Errorf("%d calls were open at once, want %d at most", server.most, atOnce)
				}
			})
		})
	}
}

func TestWhatHangsHoldsUpNothingElse(t *testing.T) {
	for name, test := range map[string]struct {
		server func(w *world) func(verb, name string) (time.Duration, error)
		stuck  int
		given  act
		do     act
	}{
		"a delete that failed once is tried again soon, next to 400 that hang": {
			func(*world) func(verb, name string) (time.Duration, error) {
				var failed atomic.Bool
				return func(verb, name string) (time.Duration, error) {
					if verb == "delete" && name == "free" && !failed.Swap(true) {
						return 0, errInternal
					}
					return stuck("delete")(verb, name)
				}
			}, 400, func(*world) {}, func(*world) {},
		},
		"a pod does not wait for a read that was stuck before the pod was due": {
			func(*world) func(verb, name string) (time.Duration, error) {
				var first atomic.Bool
				return func(verb, _ string) (time.Duration, error) {
					if verb == "get" && !first.Swap(true) {
						return time.Minute, nil
					}
					return 0, nil
				}
			}, 0, func(w *world) { w.addPod("another", onNode("m")) }, func(*world) {},
		},
		"calls about pods that are gone keep no places": {
			func(*world) func(verb, name string) (time.Duration, error) { return stuck("patch") }, 300, func(*world) {},
			at(2*sec, func(w *world) {
				for i := range 300 {
					w.DeletePod("stuck", fmt.Sprint("stuck-", i))
				}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				w.addStampedNode("m", "k:NoExecute")
				test.given(w)
				w.addStuckPods(test.stuck, 20)
				w.addPod("free", tolerating("k", 11), onNode("m"))
				w.run(w.slow(test.server(w)).behind)
				test.do(w)
				w.Pass(2 * time.Minute)
				deletes := w.Did("delete free")
				if last := deletes[len(deletes)-1]; last < 10*sec || last > 15*sec {
					w.T.Errorf("pod free, due at 10 s, was deleted at %v", deletes)
				}
			})
		})
	}
}

func TestOurOwnRateLimit(t *testing.T) {
	t.Run("cancels nothing", func(t *testing.T) {
		play(t, func(t *testing.T, w *world) {
			w.addStuckPods(100, 10)
			w.run(limited(10))
			w.Pass(time.Minute)
			if left := 100 - len(w.deleted()); left != 0 {
				t.Errorf("%d of 100 pods are left after a minute at 10 calls a second", left)
			}
			lacks("taintkeeper_retries_total")(w)
		})
	})
	t.Run("is not used by evictions that are withdrawn meanwhile", func(t *testing.T) {
		play(t, func(_ *testing.T, w *world) {
			w.addStampedNode("m", "k:NoExecute")
			w.addStuckPods(60, 1)
			w.addPod("p", onNode("m"), tolerating("k", 10))
			w.run(limited(2))
			at(5*sec, tainted("n0", "k-"))(w)
			w.Pass(time.Minute)
			once("p", 9*sec, 14*sec)(w)
		})
	})
}

func TestWhatHangsIsGivenUpFiveSecondsAfterTheEndBegins(t *testing.T) {
	for name, test := range map[string]struct {
		verb string
		do   act
	}{
		"a delete":                              {"delete", func(*world) {}},
		"a patch of a pod that another deletes": {"patch", func(w *world) { w.DeletePod("stuck", "stuck-0") }},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.addStuckPods(1, 1)
				w.run(w.slow(stuck(test.verb)).behind)
				at(sec, test.do)(w)
				w.Stop()
				if ended := w.Now(); ended > sec+stopWithin+sec {
					t.Errorf("it ends at %s", ended)
				}
			})
		})
	}
}

// A taint that comes and goes every second, of pods whose delete is refused, while the taint is there or once it is gone.
func TestARefusalKeepsItsBackoffWhenATaintFlapsAndTheLogStaysQuiet(t *testing.T) {
	for _, takes := range []time.Duration{0, 300 * ms, 600 * ms} {
		t.Run(takes.String(), func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				const nodes, minutes = 5, 4
				w.On("delete", "pods", "", func() error { w.hang(takes); return errForbidden })
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

func TestTheNodeIsReadOnceForAllItsPods(t *testing.T) {
	reads := func(w *world) (reads int) {
		for _, action := range w.Client.Actions() {
			if action.Matches("get", "nodes") {
				reads++
			}
		}
		return reads
	}
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		for i := range 50 {
			w.addPod(fmt.Sprint("p", i))
		}
		w.run()
		w.Client.ClearActions()
		w.Taint("n", "k:NoExecute")
		w.Pass(sec)
		did("delete", 50)(w)
		if got := reads(w); got != 2 { // one is the test's own, to edit the taints; the stamper shares the other
			t.Errorf("%d live reads of the node, want 2", got)
		}
	})
	t.Run("about twice a second while they wait for the watch", func(t *testing.T) {
		play(t, func(t *testing.T, w *world) {
			stampedNode(w)
			for i := range 300 {
				w.addPod(fmt.Sprint("p", i))
			}
			untaintedInTruth(w)
			w.run()
			w.Pass(time.Minute)
			did("delete", 0)(w)
			if got := reads(w); got > 3*60 {
				t.Errorf("%d reads of the node in a minute, want about two a second for all its pods", got)
			}
		})
	})
}

func TestEarliestDueFirstThenLowestPriority(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		stampedNode(w)
		w.addPod("later-low", tolerating("k", 9), priorityOf(1))
		w.addPod("sooner-high", tolerating("k", 5), priorityOf(1000))
		w.addPod("sooner-low", tolerating("k", 5), priorityOf(-1000))
		w.Until(20 * sec) // all are due
		w.run(func(c *Config) { c.ConcurrentEvictions = 1 })
		w.Pass(hour)
		if order, want := w.deleted(), []string{"sooner-low", "sooner-high", "later-low"}; !slices.Equal(order, want) {
			t.Errorf("deleted in the order %v, want %v", order, want)
		}
	})
}
