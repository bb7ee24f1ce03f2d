// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// atMost fails the test unless a duration of simulated time is within its bound.
func (w *world) atMost(what string, got, bound time.Duration) {
	w.Helper()
	w.Logf("%s: %v", what, got.Round(ms))
	if got > bound {
		w.Errorf("%s: %v, want at most %v", what, got, bound)
	}
}

func (w *world) allLate(what string, of func(*simPod) bool, p50, most time.Duration) {
	w.Helper()
	late := w.lateness(of)
	w.atMost(what+", half of the pods", quantile(late, 0.5), p50)
	w.atMost(what+", all pods", quantile(late, 1), most)
}

func good(p *simPod) bool { return strings.HasPrefix(p.Group, "good") }

func bad(p *simPod) bool { return strings.HasPrefix(p.Group, "bad") }

func TestAStormOf1000PodsTakesHardlyLongerThan16CallsAtATime(t *testing.T) {
	w := newWorld(t, ordinary)
	w.addMany(1000, 20, "ns", 50, atOnce)
	w.taintAll()
	w.play(time.Minute, 1)
	w.atMost("the first", w.now, 20*ms)
	w.play(time.Minute, 1000)
	ideal := (2*1000 + 20) * 5 * ms / 16
	w.atMost("all", w.now, ideal*5/4)
}

func TestANamespaceOf2000PodsThatHangsHoldsUpOthersByATenthOfASecond(t *testing.T) {
	w := newWorld(t, deletesHang(bad))
	w.addMany(2000, 100, "bad", 1, atOnce)
	w.addMany(900, 100, "good", 30, every(200*ms))
	w.taintAll()
	w.play(180*sec, never)
	w.allLate("the first minute", between(0, 60*sec, good), 30*ms, 500*ms)
	w.allLate("then", between(60*sec, 180*sec, good), 30*ms, 260*ms)
}

func Test1000NamespacesThatHangHoldUpAnotherOnce(t *testing.T) {
	w := newWorld(t, deletesHang(bad))
	w.addMany(100_000, 1000, "bad", 1000, atOnce)
	w.addMany(18, 1000, "good", 1, every(10*sec))
	w.taintAll()
	w.play(180*sec, never)
	w.allLate("the first 30 s", between(0, 30*sec, good), 21*sec, 21*sec) // 1,000 namespaces / 48 a second
	w.allLate("then", between(30*sec, 180*sec, good), 30*ms, 260*ms)
}

func TestNewNamespacesThatHangHoldUpOthersByLessThanASecond(t *testing.T) {
	w := newWorld(t, deletesHang(bad))
	for i := range 3600 {
		w.add(i%100, fmt.Sprint("bad", i/3), time.Duration(i/3)*100*ms)
	}
	w.addMany(600, 100, "good", 30, every(200*ms))
	w.taintAll()
	w.play(120*sec, never)
	w.allLate("the others", good, 60*ms, 600*ms)
}

// A webhook selects pods by labels: in the namespaces that hang, the evictions of half of the pods do not.
func TestIfHalfOfTheNamespacesHangTheOtherHalfLeaves(t *testing.T) {
	w := newWorld(t, deletesHang(labeled("bad")))
	for i := range 4000 {
		if w.random.IntN(2) == 0 {
			w.add(i%100, fmt.Sprint("mixed", i%200), 0).label = "bad"
		} else {
			w.add(i%100, fmt.Sprint("mixed", i%200), 0).label = "free"
		}
	}
	w.addMany(600, 100, "good", 30, every(200*ms))
	w.taintAll()
	w.play(10*time.Minute, never)
	for _, p := range w.pods {
		if p.label == "free" && p.gone == 0 {
			t.Fatalf("%s is still there after 10 minutes", p.UID)
		}
	}
	w.allLate("healthy namespaces", good, 60*ms, 5*sec)
}

func TestAfterABrownOutAllPodsLeave(t *testing.T) {
	w := newWorld(t, func(c call) (answer, bool) { return hanging, c.at < 40*sec })
	w.addMany(1000, 20, "ns", 50, atOnce)
	w.taintAll()
	w.play(10*time.Minute, 1)
	w.atMost("the first", w.now, 40*sec+100*ms)
	w.play(10*time.Minute, 1000-64) // 64 calls that began during the brown-out are in flight for 30 s
	w.atMost("all others", w.now, 60*sec)
	w.play(10*time.Minute, 1000)
	w.atMost("all", w.now, 72*sec)
}

func TestWhereEachCallTakes2Seconds1000PodsLeave(t *testing.T) {
	w := newWorld(t, func(call) (answer, bool) { return answer{takes: 2 * sec}, true })
	w.addMany(1000, 20, "ns", 50, atOnce)
	w.taintAll()
	w.play(10*time.Minute, 1000)
	w.atMost("all", w.now, 130*sec)
}

func Test5000PodsThatAWebhookRefusesAreTriedAtMost60TimesASecond(t *testing.T) {
	w := newWorld(t, func(c call) (answer, bool) {
		return answer{takes: 5 * ms, refuser: "webhook w"}, c.verb == "delete" && bad(c.pod)
	})
	w.addMany(5000, 100, "bad", 1, atOnce)
	w.addMany(600, 100, "good", 1, every(sec))
	w.taintAll()
	w.play(10*time.Minute, never)
	for second, calls := range w.calls {
		if second > 15 && calls > 2*55 { // evicting one of them takes a read of its node and a delete
			t.Errorf("%d calls in second %d", calls, second)
		}
	}
	w.allLate("the others", good, 30*ms, 260*ms)
}

func TestPodsThatHungOnceLeaveNextToOthersThatHangForever(t *testing.T) {
	w := newWorld(t, func(c call) (answer, bool) {
		return hanging, c.verb == "delete" && (c.pod.label == "" || c.at < 60*sec)
	})
	w.addMany(2000, 100, "bad", 1, atOnce)
	for i := range 20 {
		w.add(i, "good", 0).label = "other namespace"
		w.add(i, "bad0", 0).label = "the same"
	}
	w.taintAll()
	w.play(15*time.Minute, never)
	w.allLate("in another namespace", labeled("other namespace"), 70*sec, 100*sec)
	w.allLate("in the same", labeled("the same"), 5*time.Minute, 10*time.Minute)
}

func TestWhenAWebhookIsBackAfter10MinutesItsNamespaceLeaves(t *testing.T) {
	const back = 10 * time.Minute
	w := newWorld(t, func(c call) (answer, bool) { return hanging, c.verb == "delete" && c.at < back })
	w.addMany(2000, 100, "bad", 1, atOnce)
	w.taintAll()
	w.play(time.Hour, 1)
	w.atMost("the first", w.now-back, sec)
	w.play(time.Hour, 2000)
	w.atMost("all", w.now-back, 40*sec)
}

// The webhook's own pods are due, too, and have the highest priority, so they come last.
func TestThePodsOfAWebhookThatHangsAreFound(t *testing.T) {
	for name, namespace := range map[string]string{"in a namespace of their own": "webhook", "in one that hangs": "bad0"} {
		t.Run(name, func(t *testing.T) {
			back := time.Hour
			w := newWorld(t, func(c call) (answer, bool) {
				if c.verb == "delete" && c.pod.label == "webhook" {
					back = min(back, c.at+5*sec)
				}
				return hanging, c.verb == "delete" && c.pod.label == "" && c.at < back
			})
			w.addMany(3000, 30, "bad", 50, atOnce)
			for i := range 2 {
				p := w.add(i, namespace, 0)
				p.label, p.Priority = "webhook", 2_000_000_000
			}
			w.taintAll()
			w.play(20*time.Minute, 3002)
			w.allLate("the webhook's", labeled("webhook"), 200*sec, 200*sec) // 3,000 pods of its kind / 16 a second
			w.atMost("all", w.now, 10*time.Minute)
		})
	}
}

// What the rule gives up: a namespace that is slow, but not too slow, has 1/301 of the places.
func TestANamespaceWhoseDeletesTake10SecondsLeavesNextTo300ThatHangForever(t *testing.T) {
	w := newWorld(t, func(c call) (answer, bool) {
		if c.pod.Group == "slow0" {
			return answer{takes: 10 * sec}, c.verb == "delete"
		}
		return hanging, c.verb == "delete"
	})
	w.addMany(3000, 100, "bad", 300, atOnce)
	w.addMany(50, 50, "slow", 1, atOnce)
	w.taintAll()
	w.play(3*time.Hour, 50)
	w.allLate("the slow namespace", in("slow0"), time.Hour, 75*time.Minute)
}

func TestAnUntaintCancelsAllThatHangsAndATaintBeginsAgain(t *testing.T) {
	w := newWorld(t, func(c call) (answer, bool) { return hanging, c.verb == "delete" && c.at < 15*sec })
	w.addMany(500, 20, "ns", 10, atOnce)
	w.taintAll()
	w.after(10*sec, w.untaintAll)
	w.after(10*sec+10*ms, func() {
		if len(w.inFlight) > 0 {
			t.Errorf("%d evictions are in flight 10 ms after the untaint", len(w.inFlight))
		}
	})
	w.after(20*sec, w.taintAll)
	w.play(10*time.Minute, 500)
	w.atMost("all after the taint", w.now-20*sec, sec)
}

func TestEvictionsNeverTakeMoreThan80SeatsOfTheAPIServer(t *testing.T) {
	w := newWorld(t, deletesHang(bad))
	w.addMany(3000, 100, "bad", 100, atOnce)
	w.addMany(900, 100, "good", 30, every(100*ms))
	w.taintAll()
	w.play(180*sec, never)
	if w.mostCall > 80 {
		t.Errorf("%d calls at once", w.mostCall)
	}
}
