// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/apicall"
	"github.com/taintkeeper/taintkeeper/internal/podcache"
)

// serverAhead makes the API server's clock differ from ours, and its answers tell it.
func (w *world) serverAhead(by time.Duration) func(*Config) {
	clock := &apicall.Clock{}
	tell := func(clienttesting.Action) (bool, runtimeObject, error) {
		clock.Heard(time.Now().Add(by).Truncate(sec), time.Now())
		return false, nil, nil
	}
	w.client.PrependReactor("list", "nodes", tell)
	w.client.PrependReactor("get", "nodes", tell)
	return func(c *Config) { c.Clock = clock }
}

// taintedByServer sets taint k of node n as somebody with the API server's clock does.
func (w *world) taintedByServer(ahead time.Duration) {
	w.t.Helper()
	taint := noExecute("k")
	taint.TimeAdded = &metav1.Time{Time: time.Now().Add(ahead).Truncate(sec)}
	w.setTaints("n", taint)
}

func ofAnHourAgo(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-hour)) }

func TestAWrongClockMakesNoEvictionEarly(t *testing.T) {
	for name, c := range map[string]struct {
		server   time.Duration // ahead of ours
		deadline time.Duration // the latest at which the pod leaves
	}{
		"ours is five minutes ahead":  {-5 * time.Minute, 312 * sec},
		"ours is five minutes behind": {5 * time.Minute, 311 * sec},
		"ours is right":               {0, 310 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.addNode("n")
				w.addPod("p", tolerating("k", 300), ofAnHourAgo)
				w.run(w.serverAhead(c.server))
				w.until(10 * sec)
				w.taintedByServer(c.server)
				offset, _ := w.metric("taintkeeper_clock_offset_seconds", "")
				if d := offset - c.server.Seconds(); d < -1 || d > 1 {
					t.Errorf("the metric says that the server's clock is %v s ahead, want %v s", offset, c.server.Seconds())
				}
				w.pass(hour)
				if at := w.did("delete p"); len(at) != 1 || at[0] < 310*sec || at[0] > c.deadline {
					t.Errorf("tainted at 10 s and tolerated for 300 s; deleted at %v, want between 310 s and %v", at, c.deadline)
				}
			})
		})
	}
}

func TestAPodThatToleratesNothingDoesNotWaitForAClockThatIsBehindOurs(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Minute, 3 * sec} {
		play(t, func(t *testing.T, w *world) {
			w.addNode("n")
			w.addPod("p", ofAnHourAgo)
			w.run(w.serverAhead(-ahead))
			w.until(10 * sec)
			w.taint("n", "k:NoExecute")
			w.pass(hour)
			if at := w.did("delete p"); len(at) != 1 || at[0] > 12*sec {
				t.Errorf("ours is %v ahead, and the node was tainted at 10 s; deleted at %v", ahead, at)
			}
		})
	}
}

func TestAnotherTaintBringsAnEvictionForwardThatWaitsForTheAPIServersClock(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", tolerating("k", 300), ofAnHourAgo)
		w.run(w.serverAhead(-5 * time.Minute))
		w.until(10 * sec)
		w.taintedByServer(-5 * time.Minute)
		w.until(20 * sec)
		w.taint("n", "other:NoExecute")
		w.pass(hour)
		if at := w.did("delete p"); len(at) != 1 || at[0] < 20*sec || at[0] > 22*sec {
			t.Errorf("nothing tolerates the taint of 20 s; deleted at %v", at)
		}
	})
}

// One of several API servers has a clock that is late, and answers just when a taint without timeAdded is seen.
func TestATimeAddedThatWasWrittenByAWrongDateBringsNothingForward(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		clock := &apicall.Clock{}
		tell := func(clienttesting.Action) (bool, runtimeObject, error) {
			date := time.Now()
			if time.Since(w.start) <= 20*sec {
				date = date.Add(-5 * time.Minute)
			}
			clock.Heard(date.Truncate(sec), time.Now())
			return false, nil, nil
		}
		w.client.PrependReactor("list", "nodes", tell)
		w.client.PrependReactor("get", "nodes", tell)
		w.addNode("n")
		w.addPod("p", tolerating("k", 300), ofAnHourAgo)
		w.run(func(c *Config) { c.Clock = clock })
		w.until(20 * sec)
		w.taint("n", "k:NoExecute")
		w.pass(hour)
		if at := w.did("delete p"); len(at) != 1 || at[0] < 320*sec || at[0] > 322*sec {
			t.Errorf("tainted at 20 s and tolerated for 300 s; deleted at %v", at)
		}
	})
}

func TestTimeAddedIsWrittenByTheAPIServersClock(t *testing.T) {
	for _, ahead := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		play(t, func(t *testing.T, w *world) {
			w.addNode("n")
			w.addPod("counts", tolerating("k", 100_000))
			w.run(w.serverAhead(ahead))
			w.until(10 * sec)
			w.taint("n", "k:NoExecute")
			w.pass(sec)
			added, want := w.node("n").Spec.Taints[0].TimeAdded, w.start.Add(10*sec+ahead)
			if added == nil || added.Time.Before(want) || want.Add(sec).Before(added.Time) {
				t.Errorf("with a server %v ahead timeAdded is %v, want %v or a second more", ahead, added, want)
			}
		})
	}
}

// The first answers were slow, and of the API server's clock little was known when the taint was seen.
func TestNoTimeAddedIsWrittenThatIsInTheFuture(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		clock := &apicall.Clock{}
		w.addNode("n")
		w.addPod("counts", tolerating("k", 100_000))
		w.run(func(c *Config) { c.Clock = clock })
		w.until(10 * sec)
		server := func() time.Time { return time.Now().Add(5 * time.Minute) }
		clock.Heard(server().Truncate(sec), time.Now().Add(-5*sec))
		w.taint("n", "k:NoExecute")
		clock.Heard(server().Truncate(sec), time.Now())
		w.pass(sec)
		added, now := w.node("n").Spec.Taints[0].TimeAdded, server()
		if added == nil || added.After(now) || added.Time.Before(now.Add(-2*sec)) {
			t.Errorf("timeAdded is %v, and the API server's clock shows %v", added, now)
		}
	})
}

func TestAStepOfTheClockFiresNothing(t *testing.T) {
	play(t, func(t *testing.T, _ *world) {
		clock := &apicall.Clock{}
		executor := &executor{judge: judge{clock: clock}}
		date := time.Now()
		clock.Heard(date, date)
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "n"}}
		object.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
		var known *node
		known = known.see(object, sight{at: date.Add(-10 * time.Minute), byServer: date.Add(-10 * time.Minute)})
		pod := &podcache.Pod{Tolerations: []corev1.Toleration{{Key: "k", TolerationSeconds: new(int64(600 - 1))}}}
		if _, err := executor.confirm(pod, known, liveRead{node: object}, liveRead{}); err != nil {
			t.Errorf("a pod that is due by both clocks: %v", err)
		}
		clock.Heard(date.Add(-5*time.Minute), date) // ours was set forward by five minutes
		var early tooEarlyError
		if _, err := executor.confirm(pod, known, liveRead{node: object}, liveRead{}); !errors.As(err, &early) || early.wait < 4*time.Minute {
			t.Errorf("after a step of the clock: %v, want to wait for the API server's", err)
		}
	})
}

// A machine that has just started or been resumed has a clock that is late, until it is set.
func TestWhatWasSeenByAClockThatWasLateIsNotDueWhenTheClockIsSet(t *testing.T) {
	const behind, ago = hour, time.Minute
	tolerating300s := []corev1.Toleration{{Key: "k", TolerationSeconds: new(int64(300))}}
	timeAdded := func(at time.Time) corev1.Taint {
		return corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: at.Truncate(sec)}}
	}
	// see plays a sight of ours; what the API server's clock says then, and this machine's behind it. In the end both are
	// right.
	for name, see := range map[string]func(t *testing.T, object *corev1.Node) (*node, *podcache.Pod){
		"a taint": func(_ *testing.T, object *corev1.Node) (*node, *podcache.Pod) {
			at := time.Now().Add(-ago)
			object.Spec.Taints = []corev1.Taint{timeAdded(at)}
			var known *node
			return known.see(object, sight{at: at.Add(-behind), byServer: at}), &podcache.Pod{Tolerations: tolerating300s}
		},
		"a taint that was rewritten": func(_ *testing.T, object *corev1.Node) (*node, *podcache.Pod) {
			at := time.Now().Add(-ago)
			object.Spec.Taints = []corev1.Taint{timeAdded(at.Add(-ago))}
			var known *node
			known = known.see(object, sight{at: at.Add(-ago), byServer: at.Add(-ago)})
			object.Spec.Taints = []corev1.Taint{timeAdded(at)}
			return known.see(object, sight{at: at.Add(-behind), byServer: at}), &podcache.Pod{Tolerations: tolerating300s}
		},
		"a pod": func(_ *testing.T, object *corev1.Node) (*node, *podcache.Pod) {
			object.Spec.Taints = []corev1.Taint{timeAdded(time.Now().Add(-2 * hour))}
			var known *node
			known = known.see(object, sight{at: time.Now(), byServer: time.Now()})
			pod := (&podcache.Pod{}).AsOf(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now().Add(behind))},
				Spec:       corev1.PodSpec{Tolerations: tolerating300s},
			})
			time.Sleep(behind + ago) //nolint:forbidigo // virtual time in a synctest bubble
			return known, pod
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				executor := &executor{judge: judge{clock: &apicall.Clock{}}}
				object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "n"}}
				known, pod := see(t, object)
				executor.judge.clock.Heard(time.Now().Truncate(sec), time.Now())
				var early tooEarlyError
				if _, err := executor.confirm(pod, known, liveRead{node: object}, liveRead{}); !errors.As(err, &early) || early.wait < 2*time.Minute {
					t.Errorf("%v, want to wait for the end of the 300 s by the API server's clock", err)
				}
			})
		})
	}
}

// A Date tells the second: whoever trusts it alone waits for the second to end, as the clock that began the countdown
// was late.
func TestAClockThatIsSetRightBringsNoEvictionForwardByAPartOfASecond(t *testing.T) {
	play(t, func(t *testing.T, _ *world) {
		clock, behind := &apicall.Clock{}, 11*sec
		executor := &executor{judge: judge{clock: clock}}
		tainted := time.Now().Truncate(sec).Add(900 * time.Millisecond)
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "n"}}
		object.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
		var known *node
		known = known.see(object, sight{at: tainted.Add(-behind), byServer: tainted})
		pod := &podcache.Pod{Tolerations: []corev1.Toleration{{Key: "k", TolerationSeconds: new(int64(3))}}}

		time.Sleep(3 * sec) //nolint:forbidigo // virtual time in a synctest bubble
		clock.Heard(time.Now().Truncate(sec), time.Now())
		var early tooEarlyError
		if _, err := executor.confirm(pod, known, liveRead{node: object}, liveRead{}); !errors.As(err, &early) || early.wait != 900*time.Millisecond {
			t.Errorf("900 ms before the pod is due: %v, want to wait for so long", err)
		}
	})
}
