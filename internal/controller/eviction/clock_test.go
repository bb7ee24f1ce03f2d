// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// dates gives the world another clock, which learns from the answers what the API server's clock shows: a Date, to the
// second. server returns how far the API server's clock is ahead of the truth at that moment.
func (w *world) dates(server func() time.Duration) {
	w.Clock = &timeline.Clock{}
	clock := w.Clock
	tell := func() { clock.Heard(time.Now().Add(server()).Truncate(sec), time.Now()) }
	w.Client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { tell(); return false, nil, nil })
	w.Client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) { tell(); return false, nil, nil })
}

func serverAhead(by time.Duration) act {
	return func(w *world) { w.dates(func() time.Duration { return by }) }
}

// serverBehindUntil makes the API server's clock five minutes behind for a while.
func serverBehindUntil(end time.Duration) act {
	return func(w *world) {
		w.dates(func() time.Duration {
			if w.Now() <= end {
				return -5 * time.Minute
			}
			return 0
		})
	}
}

// machineAhead makes this machine's clock differ from the truth.
func machineAhead(by time.Duration) act {
	return func(w *world) { w.Clock.Wall = func() time.Time { return time.Now().Add(by) } }
}

// taintedByServer sets taint k of node n as a client with the API server's clock does.
func taintedByServer(ahead time.Duration) act {
	return func(w *world) { w.SetTaints("n", withTimeAdded("k", time.Now().Add(ahead))) }
}

func ofAnHourAgo(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-hour)) }

var for300s = []func(*corev1.Pod){tolerating("k", 300), ofAnHourAgo}

// clocks are right, or wrong in every way: how far the API server's and this machine's clocks are ahead of the truth.
var clocks = map[string]struct{ server, machine time.Duration }{
	"both are right":                                {0, 0},
	"this machine's is five minutes ahead":          {0, 5 * time.Minute},
	"this machine's is five minutes behind":         {0, -5 * time.Minute},
	"the server's is five minutes ahead":            {5 * time.Minute, 0},
	"the server's is five minutes behind":           {-5 * time.Minute, 0},
	"the server's is ahead, this machine's behind":  {hour, -hour},
	"both are an hour ahead":                        {hour, hour},
	"this machine's is nine tenths of a second off": {0, 900 * ms},
}

func TestACountdownThatWasSeenToBeginNeedsNoClock(t *testing.T) {
	for name, c := range clocks {
		playTales(t, map[string]tale{name: {
			given: []act{serverAhead(c.server), machineAhead(c.machine)}, pod: for300s,
			happens: []act{at(10*sec+300*ms, taintedByServer(c.server)), func(w *world) {
				offset, _ := w.metric("taintkeeper_clock_offset_seconds", "")
				if d := offset - (c.server - c.machine).Seconds(); d < -1 || d > 1 {
					w.T.Errorf("the metric says that the server's clock is %v s ahead, want %v", offset, c.server-c.machine)
				}
			}},
			want: []act{once("p", 310*sec+300*ms, 310*sec+350*ms)},
		}})
	}
}

func TestAfterARestartTheClockThatIsBehindDates(t *testing.T) {
	for name, c := range clocks {
		late := 2 * sec
		if c.machine < c.server-sec { // this machine's clock has not reached the recorded time
			late = 90 * sec
		}
		playTales(t, map[string]tale{name: {
			given: []act{serverAhead(c.server), machineAhead(c.machine)}, pod: for300s,
			happens: []act{func(w *world) { w.Stop() }, at(10*sec+300*ms, taintedByServer(c.server)), at(100*sec, func(w *world) { w.run() })},
			want:    []act{once("p", 310*sec+300*ms, 310*sec+300*ms+late)},
		}})
	}
}

func TestSettingAClockInTheMiddleOfACountdownChangesNothing(t *testing.T) {
	for name, set := range map[string]struct{ server, machine time.Duration }{
		"this machine's, an hour forward": {0, hour},
		"this machine's, an hour back":    {0, -hour},
		"the server's, an hour forward":   {hour, 0},
		"the server's, an hour back":      {-hour, 0},
		"both, an hour forward":           {hour, hour},
	} {
		var server, machine time.Duration
		playTales(t, map[string]tale{name: {
			given: []act{func(w *world) {
				w.dates(func() time.Duration { return server })
				w.Clock.Wall = func() time.Time { return time.Now().Add(machine) }
			}},
			pod: for300s,
			happens: []act{at(10*sec, tainted("n", "k:NoExecute")), at(100*sec, func(w *world) {
				server, machine = set.server, set.machine
				w.addPod("other") // answers tell the time
			})},
			want: []act{once("p", 310*sec, 310*sec+50*ms), once("other", 100*sec, 100*sec+50*ms)},
		}})
	}
}

func TestAClockThatIsWrongNowAndThen(t *testing.T) {
	playTales(t, map[string]tale{
		"one of two API servers behind an address is an hour behind": {
			given: []act{func(w *world) {
				answers := 0
				w.dates(func() time.Duration {
					answers++
					return -hour * time.Duration(answers%2)
				})
			}},
			pod: for300s, happens: []act{at(10*sec, tainted("n", "k:NoExecute"))}, want: []act{once("p", 310*sec, 310*sec+50*ms)},
		},
		// A proxy takes the Date away: one clock alone is not trusted after a restart.
		"this machine's is an hour ahead, and there is no Date": {
			given: []act{func(w *world) { w.Clock = &timeline.Clock{} }, machineAhead(hour)}, pod: for300s,
			happens: []act{func(w *world) { w.Stop() }, at(10*sec, taintedByServer(0)), at(100*sec, func(w *world) { w.run() })},
			want:    []act{once("p", 400*sec, 400*sec+50*ms)},
		},
		"an API server that is behind answers just when a taint without timeAdded is seen": {
			given: []act{serverBehindUntil(20 * sec)}, pod: for300s,
			happens: []act{at(20*sec, tainted("n", "k:NoExecute"))}, want: []act{once("p", 320*sec, 320*sec+50*ms)},
		},
		// It has answered when a writer of ours asks for the timeAdded to write: the clock that is ahead is written.
		"an API server that is behind answers just before a taint of ours is written": {
			pod:   for300s,
			given: []act{serverBehindUntil(0)}, happens: []act{at(10*sec, func(w *world) {
				node := w.Node("n")
				w.Clock.Heard(time.Now().Add(-5*time.Minute).Truncate(sec), time.Now())
				node.Spec.Taints = []corev1.Taint{noExecute("k")}
				node.Spec.Taints[0].TimeAdded = w.Clock.See().Second()
				w.UpdateNode(node)
			})},
			want: []act{once("p", 310*sec, 310*sec+50*ms)},
		},
	})
}

func TestTimeAddedIsWrittenByTheAPIServersClock(t *testing.T) {
	for _, ahead := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		playTales(t, map[string]tale{ahead.String(): {
			given: []act{serverAhead(ahead)}, pod: []func(*corev1.Pod){tolerating("k", 100_000)},
			happens: []act{at(10*sec, tainted("n", "k:NoExecute")), pass(sec), timeAdded(10*sec+ahead, 11*sec+ahead)},
		}})
	}
	// The first answers were slow, so little was known about the API server's clock when the taint was seen.
	playTales(t, map[string]tale{"not in the future": {
		given: []act{func(w *world) { w.Clock = &timeline.Clock{} }}, pod: []func(*corev1.Pod){tolerating("k", 100_000)},
		happens: []act{at(10*sec, func(w *world) {
			server := func() time.Time { return time.Now().Add(5 * time.Minute) }
			w.Clock.Heard(server().Truncate(sec), time.Now().Add(-5*sec))
			w.Taint("n", "k:NoExecute")
			w.Clock.Heard(server().Truncate(sec), time.Now())
		}), pass(sec), timeAdded(309*sec, 311*sec)},
	}})
}

// A timeAdded is written to the second, a Date tells the second, and the end of a second counts.
func TestARestartDelaysAnEvictionByLessThanThreeSeconds(t *testing.T) {
	for set := time.Duration(0); set < sec; set += 260 * ms {
		for up := time.Duration(0); up < sec; up += 130 * ms {
			playTales(t, map[string]tale{set.String() + ", " + up.String(): {
				given: []act{serverAhead(0)}, pod: for300s,
				happens: []act{
					at(10*sec+set, tainted("n", "k:NoExecute")), at(20*sec, func(w *world) { w.Stop() }),
					at(30*sec+up, serverAhead(0), func(w *world) { w.run() }),
				},
				want: []act{once("p", 310*sec+set, 313*sec+set-ms)},
			}})
		}
	}
}

// Ours was too fast by a second: the timeline is held back. The watch of nodes lags, so only a live read tells that the
// taint is gone. A live read that began before the pod was seen must not be used.
func TestALiveReadOfBeforeDoesNotServeWhileTheTimelineIsHeldBack(t *testing.T) {
	playTales(t, map[string]tale{"a pod that is bound after an untaint": {
		given: []act{func(w *world) { w.Clock = &timeline.Clock{}; w.Clock.Heard(time.Now(), time.Now()) }},
		pod:   []func(*corev1.Pod){onNode("other")},
		happens: []act{
			at(10*sec, tainted("n", "k:NoExecute")),
			at(100*sec, func(w *world) { w.Clock.Heard(time.Now().Add(-2*sec), time.Now()); w.addPod("a", ofAnHourAgo) }),
			at(100*sec+200*ms, broken, has()), at(100*sec+900*ms, func(w *world) { w.addPod("b") }), at(110*sec, repaired),
		},
		want: []act{did("delete b", 0)},
	}})
}
