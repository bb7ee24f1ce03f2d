// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// missesAHeartbeat breaks the watch for a second in which the node gets another version.
func (w *world) missesAHeartbeat(name string) {
	w.T.Helper()
	w.API.Watches("nodes").Break()
	w.Heartbeat(name)
	w.Pass(time.Second)
	w.API.Watches("nodes").Repair()
}

// stampingRefused makes the API server refuse every patch of a node.
func (w *world) stampingRefused() {
	w.On("patch", "nodes", "", func() error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", nil)
	})
}

// late is 100 s plus the time that client-go waits before it lists again, and the time that the eviction waits until
// the list has brought what the live read shows.
const late = 145 * time.Second

func TestBreaksOfTheWatchDoNotKeepATaintFromCountingToItsEnd(t *testing.T) {
	for name, taint := range map[string]func(w *world){
		"stamped by us": func(w *world) {
			w.addNode("n")
			w.run()
			w.Taint("n", "off:NoExecute")
		},
		"stamped beforehand": func(w *world) {
			w.addStampedNode("n", "off:NoExecute")
			w.run()
		},
		"stamping refused": func(w *world) {
			w.stampingRefused()
			w.addNode("n")
			w.run()
			w.Taint("n", "off:NoExecute")
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) { //nolint:thelper // the test itself
				w.addPod("patient", tolerating("off", 100))
				taint(w)
				for range 20 {
					w.Pass(30 * time.Second)
					w.missesAHeartbeat("n")
				}
				if at := w.Did("delete patient"); len(at) != 1 || at[0] < 99*time.Second || at[0] > late {
					t.Errorf("deleted at %v, want once when the 100 s are over", at)
				}
			})
		})
	}
}

func TestBreaksOfTheWatchDoNotKeepADryRunFromItsAnswer(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addNode("n")
		w.addPod("patient", tolerating("off", 100))
		w.run(func(c *Config) { c.Mode = DryRun })
		w.Taint("n", "off:NoExecute")
		for range 4 {
			w.Pass(30 * time.Second)
			w.missesAHeartbeat("n")
		}
		w.wantMetric("taintkeeper_evictions_total", "dry_run", 1)
	})
}

func TestAListThatBringsNothingNewAndAHeartbeatDoNotRestartACountdown(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		watch := w.API.Watches("nodes")
		w.On("patch", "nodes", "", func() error { return apierrors.NewInternalError(errors.New("not now")) })
		w.addNode("n")
		w.Heartbeat("n")
		w.addPod("patient", tolerating("off", 100))
		w.run()
		w.Taint("n", "off:NoExecute")
		w.Heartbeat("n")
		w.Until(10 * time.Second)
		watch.Break()
		w.Until(20 * time.Second)
		watch.Repair()
		w.Until(time.Minute)
		w.Heartbeat("n")
		w.Until(5 * time.Minute)
		w.wantDeletes(map[string]time.Duration{"patient": 100 * time.Second})
	})
}

func TestATaintSetAgainWhileTheWatchIsBrokenCountsFromItsSecondSetting(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.API.Watches("nodes")
		w.addNode("n")
		w.addPod("patient", tolerating("off", 20))
		w.run()
		w.Until(time.Second)
		w.Taint("n", "off:NoExecute")
		w.Until(5 * time.Second)
		watch.Break()
		w.Until(6 * time.Second)
		w.SetTaints("n")
		w.Until(15 * time.Second)
		w.Taint("n", "off:NoExecute")
		w.Until(16 * time.Second)
		watch.Repair()
		w.Until(2 * time.Minute)
		if at := w.Did("delete patient"); len(at) != 1 || at[0] < 35*time.Second {
			t.Errorf("deleted at %v, want once and not before 35 s", at)
		}
	})
}

// A timeAdded is in whole seconds: a taint that was set again within the second of the first one reads the same.
func TestATaintSetAgainWithinTheSameSecondWhileTheWatchIsBrokenCountsFromTheEndOfThatSecond(t *testing.T) {
	for name, mended := range map[string]time.Duration{
		"the watch is back before the pod is due": 5 * time.Second,
		"it is not, and the live read decides":    30 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) { //nolint:thelper // the test itself
				watch := w.API.Watches("nodes")
				w.addNode("n")
				w.addPod("patient", tolerating("off", 10))
				w.run()
				set := func() {
					node := w.Node("n")
					node.Spec.Taints = w.Edit(nil, "off:NoExecute")
					node.Spec.Taints[0].TimeAdded = &metav1.Time{Time: w.Start.Add(time.Second)}
					w.UpdateNode(node)
				}
				w.Until(1400 * time.Millisecond)
				set()
				w.Until(1500 * time.Millisecond)
				watch.Break()
				w.Taint("n", "off:NoExecute-")
				w.Until(1900 * time.Millisecond)
				set()
				w.Heartbeat("n")
				w.Until(mended)
				watch.Repair()
				w.Until(time.Minute)
				if at := w.Did("delete patient"); len(at) != 1 || at[0] < 11900*time.Millisecond || at[0] > 16*time.Second {
					t.Errorf("deleted at %v, want once and soon after 11.9 s", at)
				}
			})
		})
	}
}

func TestWaitingForTheWatchDoesNotLengthenTheBackoffOfAFailedCall(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.API.Watches("nodes")
		var tries atomic.Int32
		w.On("delete", "pods", "", func() error {
			if tries.Add(1) == 1 {
				return apierrors.NewInternalError(errors.New("once"))
			}
			return nil
		})
		w.addStampedNode("n", "off:NoExecute")
		w.addPod("patient", tolerating("off", 6))
		w.run()
		stamped := w.Node("n").Spec.Taints
		w.Until(4 * time.Second)
		watch.Break()
		w.Taint("n", "off:NoExecute-")
		w.Until(14 * time.Second) // since 6 s the pod has been due according to the cache, but the live read says that it is not
		node := w.Node("n")
		node.Spec.Taints = stamped
		w.UpdateNode(node)
		w.Until(time.Minute)
		if at := w.Did("delete patient"); len(at) != 2 || at[1]-at[0] > time.Second {
			t.Errorf("DELETEs at %v, want the second soon after the first, which failed", at)
		}
	})
}

func TestBreaksOfTheWatchDoNotKeepATaintFromItsEndWhereAPolicyRefusesTheStamp(t *testing.T) {
	for name, refusal := range map[string]error{
		"422 of a ValidatingAdmissionPolicy": apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil),
		"400 of a webhook without a code":    apierrors.NewBadRequest("admission webhook denied the request"),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.On("patch", "nodes", "", func() error { return refusal })
				w.addNode("n")
				w.addPod("patient", tolerating("off", 100))
				w.run()
				w.Taint("n", "off:NoExecute")
				for range 20 {
					w.Pass(30 * time.Second)
					w.missesAHeartbeat("n")
				}
				if at := w.Did("delete patient"); len(at) != 1 || at[0] < 99*time.Second || at[0] > late {
					t.Errorf("deleted at %v, want once when the 100 s are over", at)
				}
			})
		})
	}
}

// refuseStampOf refuses the patches of one node only.
func (w *world) refuseStampOf(name string) {
	w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtimeObject, error) {
		if action.(clienttesting.PatchAction).GetName() != name {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, name, nil)
	})
}

func TestANodeThatMayNotBeStampedDoesNotMakeTheTaintsOfOthersCountFromTooEarly(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.API.Watches("nodes")
		w.refuseStampOf("m")
		w.addNode("n")
		w.addNode("m")
		w.addPod("patient", tolerating("off", 100))
		w.run()
		w.Taint("n", "off:NoExecute")
		w.Pass(5 * time.Second) // n is stamped
		w.Taint("m", "off:NoExecute")
		w.Until(60 * time.Second)
		watch.Break()
		w.Taint("n", "off-")
		w.Heartbeat("n")
		w.Until(80 * time.Second)
		w.Taint("n", "off:NoExecute") // set again: counts from now
		w.Heartbeat("n")
		w.Heartbeat("n")
		w.Pass(time.Second)
		watch.Repair()
		w.Until(10 * time.Minute)
		if at := w.Did("delete patient"); len(at) != 1 || at[0] < 180*time.Second {
			t.Errorf("deleted at %v, want once, not before 180 s: the taint was set again at 80 s", at)
		}
	})
}

func TestStampsOfOtherNodesDoNotKeepATaintFromItsEndThatMayNotBeStamped(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.refuseStampOf("m")
		w.addNode("n")
		w.addNode("m")
		w.addPod("patient", tolerating("off", 100), func(p *corev1.Pod) { p.Spec.NodeName = "m" })
		w.run()
		w.Taint("m", "off:NoExecute")
		for i := range 40 {
			w.Pass(28 * time.Second)
			if i%2 == 0 {
				w.Taint("n", "other:NoExecute")
			} else {
				w.Taint("n", "other-")
			}
			w.Pass(time.Second)
			w.missesAHeartbeat("m")
		}
		if at := w.Did("delete patient"); len(at) != 1 || at[0] > late {
			t.Errorf("deleted at %v, want once when the 100 s are over", at)
		}
	})
}

func TestAnUntaintDuringTheReadForTheStampDoesNotSayThatStampingIsAllowed(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		var slow atomic.Bool
		w.Client.PrependReactor("get", "nodes", func(action clienttesting.Action) (bool, runtimeObject, error) {
			if action.(clienttesting.GetAction).GetName() == "n" && slow.CompareAndSwap(true, false) {
				w.hang(2 * time.Second)
			}
			return false, nil, nil
		})
		w.stampingRefused()
		w.addNode("n")
		w.addNode("m")
		w.addPod("patient", tolerating("off", 100), func(p *corev1.Pod) { p.Spec.NodeName = "m" })
		w.run()
		w.Taint("m", "off:NoExecute")
		w.Until(65 * time.Second)
		w.Taint("n", "other:NoExecute")
		slow.Store(true)
		w.Pass(time.Second) // the stamper reads n
		nodes := corev1.SchemeGroupVersion.WithResource("nodes")
		live, _ := w.Client.Tracker().Get(nodes, "", "n")
		bare := live.(*corev1.Node).DeepCopy()
		bare.Spec.Taints = nil
		w.UpdateNode(bare)
		w.Pass(2 * time.Second)
		w.missesAHeartbeat("m")
		w.Until(10 * time.Minute)
		if at := w.Did("delete patient"); len(at) != 1 || at[0] > late {
			t.Errorf("deleted at %v, want once when the 100 s are over", at)
		}
	})
}

func TestATimeAddedInTheFutureDoesNotTellOneSettingFromAnother(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.API.Watches("nodes")
		w.addNode("n")
		w.addPod("p", tolerating("k", 60))
		w.run()
		future := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: w.Start.Add(hour)}}
		w.SetTaints("n", future)
		w.Until(30 * sec)
		watch.Break()
		w.SetTaints("n")
		w.SetTaints("n", future)
		w.Heartbeat("n")
		w.Pass(sec)
		watch.Repair()
		w.Pass(hour)
		if at := w.Did("delete p"); len(at) != 1 || at[0] < 90*sec {
			t.Errorf("deleted at %v, want once, 60 s after the taint was set again", at)
		}
	})
}

// A taint that is set again with the timeAdded that overwrote an earlier one counts from that timeAdded, not from the
// earlier one.
func TestATaintSetAgainWithItsTimeAddedWhileTheWatchIsBrokenCountsFromThatTime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.API.Watches("nodes")
		w.addNode("n")
		w.addPod("p", tolerating("k", 100))
		w.On("patch", "nodes", "", func() error { // the earlier timeAdded is not written back
			if time.Since(w.Start) < 60*sec {
				return errors.New("no connection")
			}
			return nil
		})
		w.run()
		w.Until(10 * sec)
		w.taintedByServer(0)
		w.Until(40 * sec)
		w.taintedByServer(0)
		again := w.Node("n").Spec.Taints[0]
		w.Pass(sec)
		watch.Break()
		w.SetTaints("n")
		w.SetTaints("n", again)
		w.Heartbeat("n")
		w.Pass(sec)
		watch.Repair()
		w.Pass(hour)
		if at := w.Did("delete p"); len(at) != 1 || at[0] < 140*sec || at[0] > 141*sec {
			t.Errorf("the taint says that it has been there since 40 s, and is tolerated for 100 s; deleted at %v", at)
		}
	})
}

func TestAnEvictionThatWaitsForTheWatchIsTriedAgainAsSoonAsTheWatchBringsOtherTaints(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.API.Watches("nodes").Lag(10 * time.Second)
		w.addStampedNode("n", "off:NoExecute")
		w.addPod("patient", tolerating("off", 10))
		w.run()
		w.Until(8 * time.Second)
		node := w.Node("n")
		node.Spec.Taints = w.Edit(nil, "gone:NoExecute")
		w.UpdateNode(node)
		w.Until(time.Minute) // from 9 s to 18 s the pod is due according to the cache, but the live read says that it is not
		if at := w.Did("delete patient"); len(at) != 1 || at[0] < 18*time.Second || at[0] > 18500*time.Millisecond {
			t.Errorf("deleted at %v, want once, when the watch brings the taint at 18 s", at)
		}
	})
}

// etcd is restored from a backup made a moment ago: the pod is the same, and is no longer terminating.
func TestAPodThatDoesNotTerminateAnyMoreAfterARestoreLeaves(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", func(p *corev1.Pod) {
			p.Finalizers = []string{"example.com/f"}
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		})
		w.run()
		w.Taint("n", "k:NoExecute")
		w.Pass(sec)
		w.ChangePod("p", func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = nil, nil })
		w.Pass(hour)
		if at := w.Did("delete p"); len(at) != 1 {
			t.Errorf("deleted at %v, want once", at)
		}
	})
}

// A node that may not be stamped has a taint with a timeAdded. In a gap of the watch the taint goes and comes again
// with another timeAdded.
func TestATimeAddedThatSaysAfterAGapThatItIsAnotherTaintCountsWhereNodesAreNotStamped(t *testing.T) {
	for name, run := range map[string]func(w *world){
		"stamping refused": func(w *world) { w.stampingRefused(); w.run() },
		"never stamped":    func(w *world) { w.run(func(c *Config) { c.NeverStamp = true }) },
		"stamped":          func(w *world) { w.run() },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				watch := w.API.Watches("nodes")
				w.addNode("n")
				w.addPod("patient", tolerating("k", 100), tolerating("other", 100000))
				run(w)
				w.Until(10 * sec)
				// "other" has no timeAdded, so where stamping is refused, the node is known to be unstampable.
				w.SetTaints("n", noExecute("k"), corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute})
				w.Until(60 * sec)
				watch.Break()
				w.Until(61 * sec)
				w.SetTaints("n")
				w.Until(90 * sec)
				w.SetTaints("n", noExecute("k"))
				w.Until(91 * sec)
				watch.Repair()
				w.Until(10 * time.Minute)
				at := w.Did("delete patient")
				if len(at) != 1 || at[0] < 190*sec {
					t.Errorf("taint set at 90 s by its own timeAdded, tolerated for 100 s; deleted at %v, want not before 190 s", at)
				}
			})
		})
	}
}

// The API server has a bad half minute (500s), which is when watches break, too.
func TestABrownOutOfTheAPIServerMakesNoEvictionEarly(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.API.Watches("nodes")
		w.On("patch", "nodes", "", func() error { // nothing can be written in the first minute
			if time.Since(w.Start) < time.Minute {
				return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
			}
			return nil
		})
		w.addNode("n")
		w.addPod("patient", tolerating("k", 100))
		w.run()
		w.Until(5 * sec)
		w.SetTaints("n", corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}) // kubectl taint
		w.Until(40 * sec)
		watch.Break()
		w.Until(41 * sec)
		w.SetTaints("n")
		w.Until(50 * sec)
		w.SetTaints("n", corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute})
		w.Until(51 * sec)
		watch.Repair()
		w.Until(10 * time.Minute)
		at := w.Did("delete patient")
		if len(at) != 1 || at[0] < 150*sec {
			t.Errorf("taint set again at 50 s, tolerated for 100 s; deleted at %v, want not before 150 s", at)
		}
	})
}

// etcd is restored from a snapshot made before the taint, and its revisions go back: the taint that is set then has a
// version at which the node had the earlier taint. The watch has not noticed yet.
func TestATaintThatIsSetAfterARestoreIsNotTheOneOfBefore(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.API.Watches("nodes")
		w.addNode("n")
		w.addPod("patient", tolerating("k", 100))
		w.run()
		becomes := func(version int64, taints ...corev1.Taint) {
			w.API.RestoreTo(version - 1)
			w.SetTaints("n", taints...)
		}
		kubectl := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}
		w.Until(5 * sec)
		becomes(500, kubectl)
		w.Until(10 * sec)
		becomes(900, w.Node("n").Spec.Taints...)
		w.Until(40 * sec)
		watch.Break()
		becomes(400)
		w.Until(90 * sec)
		becomes(600, kubectl)
		w.Until(120 * sec)
		watch.Repair()
		w.Until(10 * time.Minute)
		at := w.Did("delete patient")
		if len(at) != 1 || at[0] < 190*sec {
			t.Errorf("the taint has been there since 90 s and is tolerated for 100 s; deleted at %v, want not before 190 s", at)
		}
	})
}
