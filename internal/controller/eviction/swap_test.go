// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noExecute is a taint as the node-lifecycle-controller writes it: with the second in which it is written.
func noExecute(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: time.Now().Truncate(sec)}}
}

// swap makes not-ready unreachable, or the other way round, as the node-lifecycle-controller does: it adds the new one,
// and then removes the old one.
func (w *world) swap(name, from, to string) {
	w.T.Helper()
	added := noExecute(to)
	w.SetTaints(name, append(w.Node(name).Spec.Taints, added)...)
	w.Pass(20 * ms)
	w.SetTaints(name, slices.DeleteFunc(w.Node(name).Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == from })...)
}

// default300s are the tolerations that the API server gives to every pod.
func default300s(pod *corev1.Pod) {
	tolerating(corev1.TaintNodeNotReady, 300)(pod)
	tolerating(corev1.TaintNodeUnreachable, 300)(pod)
}

func TestANodeThatIsSickNowThisWayNowThatLosesItsPodsInTime(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", default300s)
		w.run()
		w.Until(10 * sec)
		w.SetTaints("n", noExecute(corev1.TaintNodeNotReady))
		names := []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}
		for i := range 30 {
			w.Pass(240 * sec)
			w.swap("n", names[i%2], names[(i+1)%2])
		}
		w.wantDeletes(map[string]time.Duration{"p": 310 * sec})
	})
}

func TestASwapOutlastsARestart(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", default300s)
		w.run()
		w.Until(10*sec + 300*ms)
		first := noExecute(corev1.TaintNodeNotReady)
		w.SetTaints("n", first)
		w.Until(210 * sec)
		w.swap("n", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
		w.Pass(sec)
		if taint := w.Node("n").Spec.Taints[0]; !taint.TimeAdded.Equal(first.TimeAdded) {
			t.Errorf("unreachable says timeAdded %v, want that of not-ready, %v", taint.TimeAdded, first.TimeAdded)
		}
		w.Stop()
		w.run()
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 311 * sec}) // after a restart second 10 counts from its end
	})
}

// The clock of the client that set the taints is ahead, so they count from when the first one was first seen, which is
// also the timeAdded that is written.
func TestATimeAddedInTheFutureIsNotWrittenBack(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", tolerating("k", 60))
		w.run()
		ahead := func(by time.Duration) corev1.Taint {
			return corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: w.Start.Add(by)}}
		}
		w.Until(10 * sec)
		w.SetTaints("n", ahead(20*sec))
		w.Pass(sec)
		if taint := w.Node("n").Spec.Taints[0]; !taint.TimeAdded.Equal(ahead(20 * sec).TimeAdded) {
			t.Errorf("timeAdded is %v: it was changed although no other client had overwritten it", taint.TimeAdded)
		}
		w.SetTaints("n", ahead(30*sec))
		w.Pass(sec)
		if taint := w.Node("n").Spec.Taints[0]; !taint.TimeAdded.Equal(ahead(10 * sec).TimeAdded) {
			t.Errorf("timeAdded is %v, want the first sight, %v", taint.TimeAdded, ahead(10*sec).TimeAdded)
		}
		w.Stop()
		w.run()
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 71 * sec}) // after a restart second 10 counts from its end
	})
}

func TestTheTimeAddedOfANewValueIsNotWrittenBackToThatOfTheFirst(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("counts", tolerating("k", 100_000))
		w.On("patch", "nodes", "", func() error { // nothing is written while the value changes
			if time.Since(w.Start) < 15*sec {
				return errors.New("no connection")
			}
			return nil
		})
		w.run()
		w.Until(10 * sec)
		w.SetTaints("n", corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute})
		w.Until(13 * sec)
		w.SetTaints("n", corev1.Taint{Key: "k", Value: "soon", Effect: corev1.TaintEffectNoExecute})
		for range 5 {
			w.Pass(time.Minute)
			want := metav1.NewTime(w.Start.Add(13 * sec))
			if taint := w.Node("n").Spec.Taints[0]; !taint.TimeAdded.Equal(&want) {
				t.Fatalf("timeAdded is %v, want %v", taint.TimeAdded, want)
			}
		}
	})
}

func TestARestartInTheMiddleOfASwapCountsFromTheEarlierTaint(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", default300s)
		w.Until(10 * sec)
		first := noExecute(corev1.TaintNodeNotReady)
		w.Until(210 * sec)
		w.SetTaints("n", first, noExecute(corev1.TaintNodeUnreachable))
		w.run()
		w.SetTaints("n", noExecute(corev1.TaintNodeUnreachable))
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 311 * sec})
	})
}

func TestATaintThatIsWrittenAgainAndAgainPostponesNothing(t *testing.T) {
	rewrites := map[string]func(i int) corev1.Taint{
		"with another timeAdded": func(int) corev1.Taint { return noExecute("k") },
		"without timeAdded": func(int) corev1.Taint {
			return corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}
		},
		"with two values in turn": func(i int) corev1.Taint {
			taint := noExecute("k")
			taint.Value = []string{"x", "y"}[i%2]
			return taint
		},
		"with ever new values": func(i int) corev1.Taint {
			taint := noExecute("k")
			taint.Value = fmt.Sprint("attempt-", i)
			return taint
		},
	}
	for name, rewrite := range rewrites {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				w.addNode("n")
				w.addPod("p", tolerating("k", 900))
				w.run()
				w.Until(10 * sec)
				for i := range 120 {
					w.SetTaints("n", rewrite(i))
					w.Pass(30 * sec)
				}
				w.wantDeletes(map[string]time.Duration{"p": 910 * sec})
			})
		})
	}
}

func TestAValueThatIsToleratedIndefinitelyEndsTheCountdown(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		equal := func(value string, seconds *int64) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "k", Value: value, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds})
			}
		}
		w.addNode("n")
		w.addPod("p", equal("planned", nil), equal("now", new(int64(60))))
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k=now:NoExecute")
		w.Until(40 * sec)
		w.Taint("n", "k=planned:NoExecute")
		w.Until(hour)
		w.Taint("n", "k=now:NoExecute")
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": hour + 60*sec})
	})
}

func TestAPodThatComesLaterOwesNothingToTheValueThatATaintHadBefore(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		value := func(value string, seconds int64) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "k", Value: value, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
			}
		}
		w.addNode("n")
		w.run()
		w.Until(10 * sec)
		w.Taint("n", "k=x:NoExecute")
		w.Until(20 * sec)
		w.Taint("n", "k=y:NoExecute")
		w.Until(30 * sec)
		w.addPod("p", value("x", 5), value("y", 60))
		w.Pass(hour)
		w.wantDeletes(map[string]time.Duration{"p": 90 * sec})
	})
}
