// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// nodeWatch is the watch of nodes, which can be broken: until it is mended nothing is listed and nothing watched.
type nodeWatch struct {
	broken atomic.Bool
	mu     sync.Mutex
	open   watch.Interface
}

func (w *world) breakableNodeWatch() *nodeWatch {
	n := &nodeWatch{}
	tooOld := apierrors.NewResourceExpired("too old")
	w.client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtimeObject, error) {
		return n.broken.Load(), nil, tooOld
	})
	w.client.PrependWatchReactor("nodes", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if n.broken.Load() {
			return true, nil, tooOld
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		var err error
		n.open, err = w.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		return true, n.open, err
	})
	return n
}

func (n *nodeWatch) breaks() {
	n.broken.Store(true)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open.Stop()
}

// heartbeat gives a node another version, and nothing else, as its kubelet does all the time.
func (w *world) heartbeat(name string) {
	w.t.Helper()
	node := w.node(name)
	version, _ := strconv.Atoi(node.ResourceVersion)
	node.ResourceVersion = strconv.Itoa(version + 1)
	w.updateNode(node)
}

// missesAHeartbeat breaks the watch for a second in which the node gets another version.
func (n *nodeWatch) missesAHeartbeat(w *world, name string) {
	w.t.Helper()
	n.breaks()
	w.heartbeat(name)
	w.pass(time.Second)
	n.broken.Store(false)
}

// stampingRefused is an API server that lets nobody patch a node.
func (w *world) stampingRefused() {
	w.on("patch", "nodes", "", func() error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", nil)
	})
}

// late is when 100 s are over, with the time for which client-go waits before it lists again, and for
// which the eviction waits until the list has brought what the live read shows.
const late = 145 * time.Second

func TestBreaksOfTheWatchDoNotKeepATaintFromCountingToItsEnd(t *testing.T) {
	for name, taint := range map[string]func(w *world){
		"stamped by us": func(w *world) {
			w.addNode("n")
			w.run()
			w.taint("n", "off:NoExecute")
		},
		"stamped beforehand": func(w *world) {
			w.addStampedNode("n", "off:NoExecute")
			w.run()
		},
		"stamping refused": func(w *world) {
			w.stampingRefused()
			w.addNode("n")
			w.run()
			w.taint("n", "off:NoExecute")
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) { //nolint:thelper // the test itself
				watch := w.breakableNodeWatch()
				w.addPod("patient", tolerating("off", 100))
				taint(w)
				for range 20 {
					w.pass(30 * time.Second)
					watch.missesAHeartbeat(w, "n")
				}
				if at := w.did("delete patient"); len(at) != 1 || at[0] < 99*time.Second || at[0] > late {
					t.Errorf("deleted at %v, want once when the 100 s are over", at)
				}
			})
		})
	}
}

func TestBreaksOfTheWatchDoNotKeepADryRunFromItsAnswer(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		w.addNode("n")
		w.addPod("patient", tolerating("off", 100))
		w.run(func(c *Config) { c.Mode = DryRun })
		w.taint("n", "off:NoExecute")
		for range 4 {
			w.pass(30 * time.Second)
			watch.missesAHeartbeat(w, "n")
		}
		w.wantMetric("taintkeeper_evictions_total", "dry_run", 1)
	})
}

func TestAListThatBringsNothingNewAndAHeartbeatDoNotBeginACountdownAnew(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		w.on("patch", "nodes", "", func() error { return apierrors.NewInternalError(errors.New("not now")) })
		w.addNode("n")
		w.heartbeat("n")
		w.addPod("patient", tolerating("off", 100))
		w.run()
		w.taint("n", "off:NoExecute")
		w.heartbeat("n")
		w.until(10 * time.Second)
		watch.breaks()
		w.until(20 * time.Second)
		watch.broken.Store(false)
		w.until(time.Minute)
		w.heartbeat("n")
		w.until(5 * time.Minute)
		w.wantDeletes(map[string]time.Duration{"patient": 100 * time.Second})
	})
}

func TestATaintSetAgainWhileTheWatchIsBrokenCountsFromItsSecondSetting(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		w.addNode("n")
		w.addPod("patient", tolerating("off", 20))
		w.run()
		w.until(time.Second)
		w.taint("n", "off:NoExecute")
		w.until(5 * time.Second)
		watch.breaks()
		w.until(6 * time.Second)
		node := w.node("n")
		node.Spec.Taints, node.ResourceVersion = nil, "1"
		w.updateNode(node)
		w.until(15 * time.Second)
		node = w.node("n")
		node.Spec.Taints, node.ResourceVersion = w.edit(nil, "off:NoExecute"), "2"
		w.updateNode(node)
		w.until(16 * time.Second)
		watch.broken.Store(false)
		w.until(2 * time.Minute)
		if at := w.did("delete patient"); len(at) != 1 || at[0] < 35*time.Second {
			t.Errorf("deleted at %v, want once and not before 35 s", at)
		}
	})
}

// A timeAdded says it to the second: what was set again in the second of the first reads the same.
func TestATaintSetAgainWithinTheSameSecondWhileTheWatchIsBrokenCountsFromTheEndOfThatSecond(t *testing.T) {
	for name, mended := range map[string]time.Duration{
		"the watch is back before the pod is due": 5 * time.Second,
		"it is not, and the live read decides":    30 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) { //nolint:thelper // the test itself
				watch := w.breakableNodeWatch()
				w.addNode("n")
				w.addPod("patient", tolerating("off", 10))
				w.run()
				set := func() {
					node := w.node("n")
					node.Spec.Taints = w.edit(nil, "off:NoExecute")
					node.Spec.Taints[0].TimeAdded = &metav1.Time{Time: w.start.Add(time.Second)}
					w.updateNode(node)
				}
				w.until(1400 * time.Millisecond)
				set()
				w.until(1500 * time.Millisecond)
				watch.breaks()
				w.taint("n", "off:NoExecute-")
				w.until(1900 * time.Millisecond)
				set()
				w.heartbeat("n")
				w.until(mended)
				watch.broken.Store(false)
				w.until(time.Minute)
				if at := w.did("delete patient"); len(at) != 1 || at[0] < 11900*time.Millisecond || at[0] > 16*time.Second {
					t.Errorf("deleted at %v, want once and soon after 11.9 s", at)
				}
			})
		})
	}
}

func TestWaitingForTheWatchDoesNotLengthenTheBackoffOfAFailedCall(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		var tries atomic.Int32
		w.on("delete", "pods", "", func() error {
			if tries.Add(1) == 1 {
				return apierrors.NewInternalError(errors.New("once"))
			}
			return nil
		})
		w.addStampedNode("n", "off:NoExecute")
		w.addPod("patient", tolerating("off", 6))
		w.run()
		stamped := w.node("n").Spec.Taints
		w.until(4 * time.Second)
		watch.breaks()
		w.taint("n", "off:NoExecute-")
		w.until(14 * time.Second) // since 6 s the pod is due by the cache, and the live read says that it is not
		node := w.node("n")
		node.Spec.Taints = stamped
		w.updateNode(node)
		w.until(time.Minute)
		if at := w.did("delete patient"); len(at) != 2 || at[1]-at[0] > time.Second {
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
				watch := w.breakableNodeWatch()
				w.on("patch", "nodes", "", func() error { return refusal })
				w.addNode("n")
				w.addPod("patient", tolerating("off", 100))
				w.run()
				w.taint("n", "off:NoExecute")
				for range 20 {
					w.pass(30 * time.Second)
					watch.missesAHeartbeat(w, "n")
				}
				if at := w.did("delete patient"); len(at) != 1 || at[0] < 99*time.Second || at[0] > late {
					t.Errorf("deleted at %v, want once when the 100 s are over", at)
				}
			})
		})
	}
}

// refuseStampOf refuses the patches of one node only.
func (w *world) refuseStampOf(name string) {
	w.client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtimeObject, error) {
		if action.(clienttesting.PatchAction).GetName() != name {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, name, nil)
	})
}

func TestANodeThatMayNotBeStampedDoesNotMakeTheTaintsOfOthersCountFromTooEarly(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		w.refuseStampOf("m")
		w.addNode("n")
		w.addNode("m")
		w.addPod("patient", tolerating("off", 100))
		w.run()
		w.taint("n", "off:NoExecute")
		w.pass(5 * time.Second) // n is stamped
		w.taint("m", "off:NoExecute")
		w.until(60 * time.Second)
		watch.breaks()
		w.taint("n", "off-")
		w.heartbeat("n")
		w.until(80 * time.Second)
		w.taint("n", "off:NoExecute") // set again: counts from now
		w.heartbeat("n")
		w.heartbeat("n")
		w.pass(time.Second)
		watch.broken.Store(false)
		w.until(10 * time.Minute)
		if at := w.did("delete patient"); len(at) != 1 || at[0] < 180*time.Second {
			t.Errorf("deleted at %v, want once, not before 180 s: the taint was set again at 80 s", at)
		}
	})
}

func TestStampsOfOtherNodesDoNotKeepATaintFromItsEndThatMayNotBeStamped(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		w.refuseStampOf("m")
		w.addNode("n")
		w.addNode("m")
		w.addPod("patient", tolerating("off", 100), func(p *corev1.Pod) { p.Spec.NodeName = "m" })
		w.run()
		w.taint("m", "off:NoExecute")
		for i := range 40 {
			w.pass(28 * time.Second)
			if i%2 == 0 {
				w.taint("n", "other:NoExecute")
			} else {
				w.taint("n", "other-")
			}
			w.pass(time.Second)
			watch.missesAHeartbeat(w, "m")
		}
		if at := w.did("delete patient"); len(at) != 1 || at[0] > late {
			t.Errorf("deleted at %v, want once when the 100 s are over", at)
		}
	})
}

func TestAnUntaintDuringTheReadForTheStampDoesNotSayThatStampingIsAllowed(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		var slow atomic.Bool
		w.client.PrependReactor("get", "nodes", func(action clienttesting.Action) (bool, runtimeObject, error) {
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
		w.taint("m", "off:NoExecute")
		w.until(65 * time.Second)
		w.taint("n", "other:NoExecute")
		slow.Store(true)
		w.pass(time.Second) // the stamper reads n
		nodes := corev1.SchemeGroupVersion.WithResource("nodes")
		live, _ := w.client.Tracker().Get(nodes, "", "n")
		bare := live.(*corev1.Node).DeepCopy()
		bare.Spec.Taints = nil
		w.updateNode(bare)
		w.pass(2 * time.Second)
		watch.missesAHeartbeat(w, "m")
		w.until(10 * time.Minute)
		if at := w.did("delete patient"); len(at) != 1 || at[0] > late {
			t.Errorf("deleted at %v, want once when the 100 s are over", at)
		}
	})
}

func TestATimeAddedInTheFutureDoesNotTellOneSettingFromAnother(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		w.addNode("n")
		w.addPod("p", tolerating("k", 60))
		w.run()
		future := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: w.start.Add(hour)}}
		w.setTaints("n", future)
		w.until(30 * sec)
		watch.breaks()
		w.setTaints("n")
		w.setTaints("n", future)
		w.heartbeat("n")
		w.pass(sec)
		watch.broken.Store(false)
		w.pass(hour)
		if at := w.did("delete p"); len(at) != 1 || at[0] < 90*sec {
			t.Errorf("deleted at %v, want once, 60 s after the taint was set again", at)
		}
	})
}

// What a timeAdded that was written over said before is not known of a taint that was set again with the same.
func TestATaintSetAgainWithItsTimeAddedWhileTheWatchIsBrokenCountsFromThatTime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		w.addNode("n")
		w.addPod("p", tolerating("k", 100))
		w.on("patch", "nodes", "", func() error { // the earlier timeAdded is not written back
			if time.Since(w.start) < 60*sec {
				return errors.New("no connection")
			}
			return nil
		})
		w.run()
		w.until(10 * sec)
		w.taintedByServer(0)
		w.until(40 * sec)
		w.taintedByServer(0)
		again := w.node("n").Spec.Taints[0]
		w.pass(sec)
		watch.breaks()
		w.setTaints("n")
		w.setTaints("n", again)
		w.heartbeat("n")
		w.pass(sec)
		watch.broken.Store(false)
		w.pass(hour)
		if at := w.did("delete p"); len(at) != 1 || at[0] < 140*sec || at[0] > 141*sec {
			t.Errorf("the taint says that it is there since 40 s, and is tolerated for 100 s; deleted at %v", at)
		}
	})
}

func TestAnEvictionThatWaitsForTheWatchIsTriedAgainAsSoonAsTheWatchBringsOtherTaints(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.laggingNodeWatch(10 * time.Second)
		w.addStampedNode("n", "off:NoExecute")
		w.addPod("patient", tolerating("off", 10))
		w.run()
		w.until(8 * time.Second)
		node := w.node("n")
		node.Spec.Taints = w.edit(nil, "gone:NoExecute")
		w.updateNode(node)
		w.until(time.Minute) // from 9 s to 18 s the pod is due by the cache, and the live read says that it is not
		if at := w.did("delete patient"); len(at) != 1 || at[0] < 18*time.Second || at[0] > 18500*time.Millisecond {
			t.Errorf("deleted at %v, want once, when the watch brings the taint at 18 s", at)
		}
	})
}

// etcd is restored from a backup of a moment ago: the pod is the same, and does not terminate any more.
func TestAPodThatDoesNotTerminateAnyMoreAfterARestoreLeaves(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n")
		w.addPod("p", func(p *corev1.Pod) {
			p.Finalizers = []string{"example.com/f"}
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		})
		w.run()
		w.taint("n", "k:NoExecute")
		w.pass(sec)
		w.changePod("p", func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = nil, nil })
		w.pass(hour)
		if at := w.did("delete p"); len(at) != 1 {
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
				watch := w.breakableNodeWatch()
				w.addNode("n")
				w.addPod("patient", tolerating("k", 100), tolerating("other", 100000))
				run(w)
				w.until(10 * sec)
				// "other" has no timeAdded, so where that is refused the node is known as unstampable.
				w.setTaints("n", noExecute("k"), corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute})
				w.until(60 * sec)
				watch.breaks()
				w.until(61 * sec)
				node := w.node("n")
				node.Spec.Taints, node.ResourceVersion = nil, "100"
				w.updateNode(node)
				w.until(90 * sec)
				node = w.node("n")
				node.Spec.Taints, node.ResourceVersion = []corev1.Taint{noExecute("k")}, "101"
				w.updateNode(node)
				w.until(91 * sec)
				watch.broken.Store(false)
				w.until(10 * time.Minute)
				at := w.did("delete patient")
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
		watch := w.breakableNodeWatch()
		w.on("patch", "nodes", "", func() error { // nothing can be written in the first minute
			if time.Since(w.start) < time.Minute {
				return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
			}
			return nil
		})
		w.addNode("n")
		w.addPod("patient", tolerating("k", 100))
		w.run()
		w.until(5 * sec)
		w.setTaints("n", corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}) // kubectl taint
		w.until(40 * sec)
		watch.breaks()
		w.until(41 * sec)
		node := w.node("n")
		node.Spec.Taints, node.ResourceVersion = nil, "100"
		w.updateNode(node)
		w.until(50 * sec)
		node = w.node("n")
		node.Spec.Taints, node.ResourceVersion = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}, "101"
		w.updateNode(node)
		w.until(51 * sec)
		watch.broken.Store(false)
		w.until(10 * time.Minute)
		at := w.did("delete patient")
		if len(at) != 1 || at[0] < 150*sec {
			t.Errorf("taint set again at 50 s, tolerated for 100 s; deleted at %v, want not before 150 s", at)
		}
	})
}

// etcd is restored from a snapshot of before the taint, and its revisions go back: the taint that is set then has a
// version in which the node had the taint of before. The watch has not noticed yet.
func TestATaintThatIsSetAfterARestoreIsNotTheOneOfBefore(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := w.breakableNodeWatch()
		w.addNode("n")
		w.addPod("patient", tolerating("k", 100))
		w.run()
		becomes := func(version string, taints ...corev1.Taint) {
			node := w.node("n")
			node.Spec.Taints, node.ResourceVersion = taints, version
			w.updateNode(node)
		}
		kubectl := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoExecute}
		w.until(5 * sec)
		becomes("500", kubectl)
		w.until(10 * sec)
		becomes("900", w.node("n").Spec.Taints...)
		w.until(40 * sec)
		watch.breaks()
		becomes("400")
		w.until(90 * sec)
		becomes("600", kubectl)
		w.until(120 * sec)
		watch.broken.Store(false)
		w.until(10 * time.Minute)
		at := w.did("delete patient")
		if len(at) != 1 || at[0] < 190*sec {
			t.Errorf("the taint is there since 90 s and tolerated for 100 s; deleted at %v, want not before 190 s", at)
		}
	})
}
