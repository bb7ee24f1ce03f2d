// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	w.Client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtimeObject, error) { tell(); return false, nil, nil })
	w.Client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) { tell(); return false, nil, nil })
}

// serverAhead makes the API server's clock differ from the truth.
func (w *world) serverAhead(by time.Duration) { w.dates(func() time.Duration { return by }) }

// machineAhead makes this machine's clock differ from the truth.
func (w *world) machineAhead(by time.Duration) {
	w.Clock.Wall = func() time.Time { return time.Now().Add(by) }
}

// taintedByServer sets taint k of node n as a client with the API server's clock does.
func (w *world) taintedByServer(ahead time.Duration) {
	w.T.Helper()
	taint := noExecute("k")
	taint.TimeAdded = &metav1.Time{Time: time.Now().Add(ahead).Truncate(sec)}
	w.SetTaints("n", taint)
}

func ofAnHourAgo(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-hour)) }

// wantDeleted checks that a pod was deleted once, not before an instant and within some time after it.
func (w *world) wantDeleted(pod string, from, within time.Duration) {
	w.T.Helper()
	if at := w.Did("delete " + pod); len(at) != 1 || at[0] < from || at[0] > from+within {
		w.T.Errorf("%s was deleted at %v, want once, at %v or within %v after", pod, at, from, within)
	}
}

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
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.serverAhead(c.server)
				w.machineAhead(c.machine)
				w.addNode("n")
				w.addPod("p", tolerating("k", 300), ofAnHourAgo)
				w.run()
				w.Until(10*sec + 300*ms)
				w.taintedByServer(c.server)
				offset, _ := w.metric("taintkeeper_clock_offset_seconds", "")
				if d := offset - (c.server - c.machine).Seconds(); d < -1 || d > 1 {
					t.Errorf("the metric says that the server's clock is %v s ahead, want %v", offset, c.server-c.machine)
				}
				w.Pass(hour)
				w.wantDeleted("p", 310*sec+300*ms, 50*ms)
			})
		})
	}
}

func TestAfterARestartTheClockThatIsBehindDates(t *testing.T) {
	for name, c := range clocks {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				const restart = 100 * sec
				w.serverAhead(c.server)
				w.machineAhead(c.machine)
				w.addNode("n")
				w.addPod("p", tolerating("k", 300), ofAnHourAgo)
				w.Until(10*sec + 300*ms)
				w.taintedByServer(c.server)
				w.Until(restart)
				w.run()
				w.Pass(2 * hour)
				late := 2 * sec
				if c.machine < c.server-sec { // this machine's clock has not reached the recorded time
					late = restart - 10*sec
				}
				w.wantDeleted("p", 310*sec+300*ms, late)
			})
		})
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
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				var server, machine time.Duration
				w.dates(func() time.Duration { return server })
				w.Clock.Wall = func() time.Time { return time.Now().Add(machine) }
				w.addNode("n")
				w.addPod("p", tolerating("k", 300), ofAnHourAgo)
				w.run()
				w.Until(10 * sec)
				w.Taint("n", "k:NoExecute")
				w.Until(100 * sec)
				server, machine = set.server, set.machine
				w.addPod("other") // answers tell the time
				w.Pass(2 * hour)
				w.wantDeleted("p", 310*sec, 50*ms)
				w.wantDeleted("other", 100*sec, 50*ms)
			})
		})
	}
}

// Behind one address are two API servers, and the clock of one is an hour behind.
func TestOneOfTwoAPIServersWithAWrongClockDelaysNoEviction(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		answers := 0
		w.dates(func() time.Duration {
			if answers++; answers%2 == 0 {
				return -hour
			}
			return 0
		})
		w.addNode("n")
		w.addPod("p", tolerating("k", 30), ofAnHourAgo)
		w.addPod("q", ofAnHourAgo)
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		w.wantDeleted("q", 10*sec, 50*ms)
		w.wantDeleted("p", 40*sec, 50*ms)
	})
}

// A proxy takes the Date away, and this machine's clock is an hour ahead.
func TestWithoutADateOneClockIsNotTrusted(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.Clock = &timeline.Clock{}
		w.machineAhead(hour)
		w.addNode("n")
		w.addPod("p", tolerating("k", 300), ofAnHourAgo)
		w.Until(10 * sec)
		w.taintedByServer(0)
		w.Until(100 * sec)
		w.run()
		w.Pass(2 * hour)
		w.wantDeleted("p", 400*sec, 50*ms)
	})
}

// One of several API servers has a clock that is behind, and answers just when a taint without timeAdded is seen.
func TestATimeAddedThatWasWrittenByAWrongDateBringsNothingForward(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.dates(func() time.Duration {
			if time.Since(w.Start) <= 20*sec {
				return -5 * time.Minute
			}
			return 0
		})
		w.addNode("n")
		w.addPod("p", tolerating("k", 300), ofAnHourAgo)
		w.run()
		w.Until(20 * sec)
		w.Taint("n", "k:NoExecute")
		w.Pass(hour)
		w.wantDeleted("p", 320*sec, 50*ms)
	})
}

func TestTimeAddedIsWrittenByTheAPIServersClock(t *testing.T) {
	for _, ahead := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		play(t, func(t *testing.T, w *world) {
			w.serverAhead(ahead)
			w.addNode("n")
			w.addPod("counts", tolerating("k", 100_000))
			w.run()
			w.Until(10 * sec)
			w.Taint("n", "k:NoExecute")
			w.Pass(sec)
			added, want := w.Node("n").Spec.Taints[0].TimeAdded, w.Start.Add(10*sec+ahead)
			if added == nil || added.Time.Before(want) || want.Add(sec).Before(added.Time) {
				t.Errorf("with a server %v ahead timeAdded is %v, want %v or a second more", ahead, added, want)
			}
		})
	}
}

// The first answers were slow, so little was known about the API server's clock when the taint was seen.
func TestNoTimeAddedIsWrittenThatIsInTheFuture(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.Clock = &timeline.Clock{}
		w.addNode("n")
		w.addPod("counts", tolerating("k", 100_000))
		w.run()
		w.Until(10 * sec)
		server := func() time.Time { return time.Now().Add(5 * time.Minute) }
		w.Clock.Heard(server().Truncate(sec), time.Now().Add(-5*sec))
		w.Taint("n", "k:NoExecute")
		w.Clock.Heard(server().Truncate(sec), time.Now())
		w.Pass(sec)
		added, now := w.Node("n").Spec.Taints[0].TimeAdded, server()
		if added == nil || added.After(now) || added.Time.Before(now.Add(-2*sec)) {
			t.Errorf("timeAdded is %v, and the API server's clock shows %v", added, now)
		}
	})
}

// Behind one address are two API servers, and the clock of one is five minutes behind. It has just answered when a writer
// of ours asks for the timeAdded to write.
func TestOfTwoAPIServersTheClockThatIsAheadIsWritten(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		var server time.Duration
		w.dates(func() time.Duration { return server })
		w.addNode("n")
		w.addPod("p", tolerating("k", 300), ofAnHourAgo)
		w.run()
		w.Until(10 * sec)
		server = -5 * time.Minute
		node := w.Node("n")
		taint := noExecute("k")
		taint.TimeAdded = w.Clock.See().Second()
		server = 0
		node.Spec.Taints = []corev1.Taint{taint}
		w.UpdateNode(node)
		w.Pass(hour)
		w.wantDeleted("p", 310*sec, 50*ms)
	})
}

// A timeAdded is written to the second, a Date tells the second, and the end of a second counts.
func TestARestartDelaysAnEvictionByLessThanThreeSeconds(t *testing.T) {
	for set := time.Duration(0); set < sec; set += 260 * ms {
		for up := time.Duration(0); up < sec; up += 130 * ms {
			play(t, func(_ *testing.T, w *world) {
				w.serverAhead(0)
				w.addNode("n")
				w.addPod("p", tolerating("k", 300), ofAnHourAgo)
				w.run()
				w.Until(10*sec + set)
				w.Taint("n", "k:NoExecute")
				w.Until(20 * sec)
				w.Stop()
				w.Until(30*sec + up)
				w.serverAhead(0)
				w.run()
				w.Pass(hour)
				w.wantDeleted("p", 310*sec+set, 3*sec-ms)
			})
		}
	}
}

// Ours was too fast by a second: the timeline is held back. The watch of nodes lags, so only a live read tells that the
// taint is gone. A live read that began before the pod was seen must not be used.
func TestALiveReadOfBeforeDoesNotServeWhileTheTimelineIsHeldBack(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.Clock = &timeline.Clock{}
		w.Clock.Heard(time.Now(), time.Now())
		watch := w.API.Watches("nodes")
		w.addNode("n")
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k:NoExecute")
		w.Until(100 * sec)
		w.Clock.Heard(time.Now().Add(-2*sec), time.Now())
		w.addPod("a", ofAnHourAgo)
		w.Until(100*sec + 200*ms)
		watch.Break()
		w.SetTaints("n")
		w.Until(100*sec + 900*ms)
		w.addPod("b")
		w.Until(110 * sec)
		watch.Repair()
		w.Pass(hour)
		if at := w.Did("delete b"); len(at) > 0 {
			t.Errorf("b was bound after the untaint of 100.2 s, and was deleted at %v", at)
		}
	})
}

// A Date leaves a second of the API server's clock uncertain: what is stamped as of 11 s was seen at 10.2 s.
func TestATaintThatIsSetAgainInTheSecondThatWasStampedCountsFromItsEnd(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.serverAhead(0)
		watch := w.API.Watches("nodes")
		w.addNode("n")
		w.addPod("p", tolerating("k", 20), ofAnHourAgo)
		w.run()
		w.Until(10*sec + 200*ms)
		w.Taint("n", "k:NoExecute")
		w.Until(11*sec + 500*ms)
		watch.Break()
		w.Until(11*sec + 700*ms)
		w.SetTaints("n")
		w.Until(11*sec + 900*ms)
		w.SetTaints("n", noExecute("k"))
		w.Until(13 * sec)
		watch.Repair()
		w.Pass(hour)
		w.wantDeleted("p", 31*sec+900*ms, 3*sec)
	})
}
