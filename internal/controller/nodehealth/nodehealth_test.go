// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

const (
	unreachableNoSchedule = "unreachable:NoSchedule"
	unreachableNoExecute  = "unreachable:NoExecute"
	notReadyNoSchedule    = "not-ready:NoSchedule"
	notReadyNoExecute     = "not-ready:NoExecute"
)

func TestASilentNodeIsTaintedWhenItsGracePeriodIsOver(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.run()
		w.Until(35 * time.Second)
		w.falls("a-0") // its last renewal was at 30 s
		w.Until(80 * time.Second)
		w.WantTaints("a-0")
		w.Until(81 * time.Second)
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
		for _, kind := range []corev1.NodeConditionType{
			corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
		} {
			c := readiness.Condition(w.Node("a-0"), kind)
			if c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
				t.Errorf("condition %s is %s, %s, %q", kind, c.Status, c.Reason, c.Message)
			}
		}
		if patches := w.Did("patch nodes a-0/"); len(patches) != 2 {
			t.Errorf("patches at %v, want one of the conditions and one of both taints", patches)
		}
		if events := w.Did("event a-0 NodeNotReady Node a-0 status is now: NodeNotReady"); len(events) != 1 {
			t.Errorf("events at %v, want one", events)
		}
		w.WantTaints("a-1")
	})
}

func TestANodeThatNeverPostsItsStatusHasTheStartUpGracePeriod(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.run()
		w.Until(7 * time.Second)
		w.Must(w.Client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "new", CreationTimestamp: metav1.Now(), Labels: map[string]string{corev1.LabelTopologyZone: "a"}},
		}, metav1.CreateOptions{}))
		w.Until(66 * time.Second)
		w.WantTaints("new")
		w.Until(68 * time.Second)
		w.WantTaints("new", unreachableNoExecute, unreachableNoSchedule)
		if ready := readiness.Condition(w.Node("new"), corev1.NodeReady); ready.Reason != "NodeStatusNeverUpdated" || ready.Message != "Kubelet never posted node status." {
			t.Errorf("Ready is %+v", ready)
		}
		if events := w.Did("event new RegisteredNode Node new event: Registered Node new in Controller"); len(events) != 1 {
			t.Errorf("registered at %v, want once", events)
		}
	})
}

func TestConditionsBecomeNoScheduleTaints(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.run()
		for kind, key := range map[corev1.NodeConditionType]string{
			corev1.NodeMemoryPressure: "memory-pressure", corev1.NodeDiskPressure: "disk-pressure",
			corev1.NodePIDPressure: "pid-pressure", corev1.NodeNetworkUnavailable: "network-unavailable",
		} {
			w.Report("a-0", kind, corev1.ConditionTrue)
			w.WantTaints("a-0", key+":NoSchedule")
			if added := w.Node("a-0").Spec.Taints[0].TimeAdded; added == nil || time.Since(added.Time) > time.Second {
				t.Errorf("%s was added at %v, want now", key, added)
			}
			w.Report("a-0", kind, corev1.ConditionFalse)
			w.WantTaints("a-0")
		}
		w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		w.WantTaints("a-0", "unschedulable:NoSchedule")
		w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		w.WantTaints("a-0")
	})
}

func TestTaintsOfOthersAreNeverTouched(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		others := []corev1.Taint{
			{Key: "team", Value: "x", Effect: corev1.TaintEffectNoExecute},
			{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoExecute},
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectPreferNoSchedule},
			{Key: "node.kubernetes.io/out-of-service", Effect: corev1.TaintEffectNoSchedule},
		}
		w.addZone("a", 3)
		w.addNode("n", "a", func(n *corev1.Node) { n.Spec.Taints = others })
		w.run()
		w.falls("n")
		w.Until(time.Minute)
		w.resumes("n")
		w.WantTaints("n", "memory-pressure:NoExecute", "not-ready:PreferNoSchedule", "out-of-service:NoSchedule", "team=x:NoExecute")
	})
}

func TestNotReadyAndUnreachableTakeEachOthersPlaceAtOnce(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		w.run()
		w.Report("a-0", corev1.NodeReady, corev1.ConditionFalse)
		w.WantTaints("a-0", notReadyNoExecute, notReadyNoSchedule)
		w.Report("a-1", corev1.NodeReady, corev1.ConditionFalse) // waits for the zone's rate
		w.WantTaints("a-1", notReadyNoSchedule)
		w.falls("a-0")
		w.Until(55 * time.Second)
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

// noExecuteSince returns the timeAdded of a node's NoExecute taint with a key, and fails if the node has no such taint.
func (w *world) noExecuteSince(name, key string) time.Duration {
	w.T.Helper()
	for _, taint := range w.Node(name).Spec.Taints {
		if taint.Key == key && taint.Effect == corev1.TaintEffectNoExecute && taint.TimeAdded != nil {
			return taint.TimeAdded.Sub(w.Start)
		}
	}
	w.T.Errorf("after %s node %s has no taint %s:NoExecute with a timeAdded: %v", time.Since(w.Start), name, key, w.Node(name).Spec.Taints)
	return 0
}

func TestTheCountdownOfPodsContinuesWhenNotReadyAndUnreachableReplaceEachOther(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 5)
		w.run()
		w.Until(12 * time.Second)
		w.Report("a-0", corev1.NodeReady, corev1.ConditionFalse)
		want := w.noExecuteSince("a-0", corev1.TaintNodeNotReady)
		wants := func(key string) {
			t.Helper()
			if got := w.noExecuteSince("a-0", key); got != want {
				t.Errorf("after %s taint %s:NoExecute says that it was added at %s, want %s", time.Since(w.Start), key, got, want)
			}
		}
		w.falls("a-0")
		w.Until(2 * time.Minute)
		wants(corev1.TaintNodeUnreachable)
		w.Report("a-0", corev1.NodeReady, corev1.ConditionFalse) // its kubelet is back for a moment
		wants(corev1.TaintNodeNotReady)
		w.Stop()
		w.run(func(c *Config) { c.DryRun = true })
		w.Until(3 * time.Minute)
		wants(corev1.TaintNodeNotReady)
		w.Stop()
		w.run()
		w.Until(5 * time.Minute)
		wants(corev1.TaintNodeUnreachable)

		w.resumes("a-0")
		w.WantTaints("a-0")
		w.Until(6 * time.Minute)
		w.Report("a-0", corev1.NodeReady, corev1.ConditionFalse)
		want = 6 * time.Minute // it was ready in between
		wants(corev1.TaintNodeNotReady)
		w.Stop()
		w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Taints = nil }) // an administrator
		w.Until(7 * time.Minute)
		w.run()
		want = 7 * time.Minute
		wants(corev1.TaintNodeNotReady)
	})
}

func TestNodesAreTaintedAtTheRateOfTheirZoneInTheOrderInWhichTheyFell(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 10)
		w.run()
		for _, name := range nodes[:4] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		for i := range 4 {
			w.Until(time.Duration(i)*10*time.Second + time.Second)
			w.wantTainted(i+1, nodes...)
			w.wantTainted(i+1, nodes[:i+1]...)
		}
		if events := w.Did("event a-2 NoExecuteTaintHeld Taint node.kubernetes.io/not-ready:NoExecute is held back: zone /a has the state Normal"); len(events) != 1 {
			t.Errorf("told at %v that a-2 is held back, want once", events)
		}
		w.WantMetric("node_collector_evictions_total", nil, 4)
	})
}

func TestARecoveredNodeGivesUpItsToken(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 10)
		w.run()
		for _, name := range nodes[:3] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		w.Report("a-1", corev1.NodeReady, corev1.ConditionTrue)
		w.Until(11 * time.Second)
		w.WantTaints("a-1")
		w.WantTaints("a-2", notReadyNoExecute, notReadyNoSchedule)
	})
}

func TestASmallZoneInPartialDisruptionIsLeftAlone(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("b", 1)
		nodes := w.addZone("a", 10)
		w.run()
		w.falls(nodes[:6]...)
		w.Until(10 * time.Minute)
		w.wantTainted(0, nodes...)
		w.WantTaints("a-0", unreachableNoSchedule)
		w.WantMetric("taintkeeper_zone_state", map[string]string{"zone": "/a", "state": "PartialDisruption"}, 1)
		w.WantMetric("taintkeeper_zone_taint_rate", map[string]string{"zone": "/a"}, 0)
		w.WantMetric("taintkeeper_zone_held_nodes", map[string]string{"zone": "/a"}, 6)
		w.WantMetric("node_collector_zone_health", map[string]string{"zone": ":\x00:a"}, 40)
		if events := w.Did("event a-5 NoExecuteTaintHeld"); len(events) == 0 {
			t.Error("no event says why a-5 is not tainted")
		}
		w.resumes("a-0")
		w.Until(10*time.Minute + 45*time.Second) // 5 of 10: the zone is Normal again
		w.wantTainted(4, nodes...)
	})
}

func TestALargeZoneInPartialDisruptionIsTaintedAtTheSecondaryRate(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("b", 1)
		nodes := w.addZone("a", 51)
		w.run()
		w.falls(nodes[:30]...)
		w.Until(55 * time.Second)
		w.wantTainted(1, nodes...)
		w.Until(160 * time.Second)
		w.wantTainted(2, nodes...)
	})
}

func TestAZoneInFullDisruptionIsTaintedAtItsRateWhileAnotherIsNot(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("b", 1)
		nodes := w.addZone("a", 4)
		w.run()
		w.falls(nodes...)
		w.Until(80 * time.Second) // the first after 51 or 52 s: an echo is 1 s old
		w.wantTainted(3, nodes...)
		w.Until(85 * time.Second)
		w.wantTainted(4, nodes...)
	})
}

func TestTheRateOfFullyDisruptedZonesCanBeSet(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("b", 1)
		nodes := w.addZone("a", 4)
		w.run(func(c *Config) { c.Policy.FullDisruptionRate = 0 })
		w.falls(nodes...)
		w.Until(5 * time.Minute)
		w.wantTainted(0, nodes...)
	})
}

func TestWhenTheLastFullDisruptionEndsEveryNodeHasItsGracePeriodAgain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 3)
		w.run()
		w.falls(nodes...)
		w.Until(30 * time.Second)
		w.Report("a-2", corev1.NodeReady, corev1.ConditionFalse) // its last sign of life
		w.Until(70 * time.Second)
		w.resumes("a-0")
		w.Until(70*time.Second + defaultGrace.Monitor - time.Second)
		if got := readiness.Condition(w.Node("a-2"), corev1.NodeReady).Status; got != corev1.ConditionFalse {
			t.Errorf("Ready is %s, want what its kubelet posted", got)
		}
		w.Until(silentBy(70 * time.Second))
		if got := readiness.Condition(w.Node("a-2"), corev1.NodeReady).Status; got != corev1.ConditionUnknown {
			t.Errorf("Ready is %s, want Unknown", got)
		}
	})
}

func TestNoNodeIsTaintedWhenEveryNodeFallsSilentAtTheSameMoment(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := append(w.addZone("a", 20), w.addZone("b", 20)...)
		w.run()
		w.falls(nodes...)
		w.Until(2 * time.Minute)
		w.wantTainted(0, nodes...)
		for _, name := range nodes {
			if patches := w.Did("patch nodes " + name + "/"); len(patches) != 2 {
				t.Fatalf("%s was patched at %v, want its conditions and its NoSchedule taint once", name, patches)
			}
		}
	})
}

func TestExcludedNodesDoNotCount(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("b", 1)
		nodes := w.addZone("a", 10)
		for _, name := range nodes[5:] {
			w.ChangeNode(name, func(n *corev1.Node) { n.Labels["node.kubernetes.io/exclude-disruption"] = "" })
		}
		w.run()
		w.falls(nodes[:3]...) // 3 of 5 that count: a small zone in partial disruption
		w.Until(3 * time.Minute)
		w.wantTainted(0, nodes...)
	})
}

func TestAConflictIsTriedAgainUntilItSucceeds(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		var tries atomic.Int32
		w.On("patch", "nodes", "", func() error {
			if tries.Add(1) < 20 {
				return apierrors.NewConflict(corev1.Resource("nodes"), "a-0", errors.New("changed"))
			}
			return nil
		})
		w.run()
		w.falls("a-0")
		w.Until(20 * time.Minute)
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

func TestThePodsOfASilentNodeAreMarkedNotReadyUntilAllAreDone(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addPod("p", "a-0")
		w.addPod("q", "a-0")
		w.addPod("other", "a-1")
		var refused atomic.Int32
		w.On("patch", "pods", "status", func() error {
			if refused.Add(1) < 10 {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		w.run()
		w.falls("a-0")
		w.Until(2 * time.Minute)
		for _, name := range []string{"p", "q"} {
			c := w.podReady(name)
			if c.Status != corev1.ConditionFalse || c.Reason != "Told" || c.LastTransitionTime.IsZero() {
				t.Errorf("pod %s: %+v, want False with the reason that it had", name, c)
			}
			if events := w.Did("event " + name + " NodeNotReady Node is not ready"); len(events) != 1 {
				t.Errorf("events at %v, want one", events)
			}
		}
		if c := w.podReady("other"); c.Status != corev1.ConditionTrue {
			t.Errorf("the pod of another node: %+v", c)
		}
		w.addPod("late", "a-0")
		if c := w.podReady("late"); c.Status != corev1.ConditionFalse {
			t.Errorf("a pod that was bound to a silent node: %+v", c)
		}
	})
}

func TestPodsThatCannotBeMarkedAreTriedLessAndLessOftenAndOthersAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		answer         error
		most           time.Duration // between two tries
		fewest, mostly int           // tries of one pod within an hour
	}{
		"refused":    {forbidden(), 5 * time.Minute, 12, 30},
		"not at all": {apierrors.NewInternalError(errors.New("not now")), 30 * time.Second, 110, 200},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.addZone("a", 5)
				var mended atomic.Bool
				for i := range 10 {
					w.addPod(fmt.Sprint("p", i), "a-0")
				}
				w.Client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if pod := action.(clienttesting.PatchAction).GetName(); mended.Load() || !strings.HasPrefix(pod, "p") {
						return false, nil, nil
					}
					w.Book.Note(action)
					return true, nil, test.answer
				})
				w.run()
				w.falls("a-0")
				w.Until(30 * time.Minute)
				w.addPod("late", "a-0")
				if c := w.podReady("late"); c.Status != corev1.ConditionFalse {
					t.Errorf("a pod that can be marked waits for those that cannot: %+v", c)
				}
				w.Until(61 * time.Minute)
				together := map[time.Duration]int{}
				for i := range 10 {
					tries := w.Did(fmt.Sprintf("patch pods p%d/", i))
					if got := len(tries); got < test.fewest || got > test.mostly {
						t.Errorf("pod p%d was tried %d times within an hour, want %d to %d", i, got, test.fewest, test.mostly)
					}
					together[tries[len(tries)-1]]++
				}
				if len(together) < 5 {
					t.Errorf("the last tries of ten pods were at %v, want them apart", together)
				}
				mended.Store(true)
				w.Until(61*time.Minute + test.most)
				for i := range 10 {
					if c := w.podReady(fmt.Sprint("p", i)); c.Status != corev1.ConditionFalse {
						t.Errorf("pod p%d %s after it could be marked: %+v", i, test.most, c)
					}
				}
			})
		})
	}
}

func TestEachFailedTryToMarkAPodIsAReconcileError(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 5)
		w.addPod("p", "a-0")
		var tried atomic.Int32
		w.On("patch", "pods", "status", func() error {
			if tried.Add(1) <= 3 {
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		})
		before := bubble.ReconcileErrors(t, "node-health-mark")
		w.run()
		w.falls("a-0")
		w.Until(2 * time.Minute)
		if c := w.podReady("p"); c.Status != corev1.ConditionFalse {
			t.Errorf("pod p: %+v", c)
		}
		if failed := bubble.ReconcileErrors(t, "node-health-mark") - before; failed != 3 {
			t.Errorf("controller-runtime counts %v errors, want 3", failed)
		}
	})
}

func TestARestartChangesNothingAndDelaysASilentNodeByOneGracePeriodAtMost(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 5)
		w.run()
		w.falls("a-0")
		w.Until(time.Minute)
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
		w.falls("a-1")
		w.Until(90 * time.Second)
		w.Stop()
		patches := len(w.Did("patch nodes"))
		w.run()
		w.Until(139 * time.Second)
		if now := len(w.Did("patch nodes")); now != patches {
			t.Errorf("%d patches after the restart, want none", now-patches)
		}
		w.Until(silentBy(90 * time.Second))
		w.WantTaints("a-1", unreachableNoExecute, unreachableNoSchedule)
		w.WantTaints("a-2")
	})
}

func TestWhileLeasesCannotBeSeenNoNodeIsCalledSilent(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 5)
		leases := w.API.Watches("leases")
		w.run()
		w.falls("a-0")
		w.Until(20 * time.Second)
		leases.Break()
		w.Until(5 * time.Minute)
		w.wantTainted(0, nodes...)
		leases.Repair()
		w.Until(5*time.Minute + 24*time.Second) // 20 s of its grace period were over, and the gap counts as 5 s
		w.wantTainted(0, nodes...)
		w.Until(7 * time.Minute) // the watch does not come back at once
		w.wantTainted(1, nodes...)
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

func TestADryRunChangesNothing(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addPod("p", "a-0")
		w.run(func(c *Config) { c.DryRun = true })
		w.falls("a-0")
		w.Report("a-1", corev1.NodeDiskPressure, corev1.ConditionTrue)
		w.Until(5 * time.Minute)
		if patches := w.Did("patch"); len(patches) != 0 {
			t.Errorf("patches at %v in a dry run", patches)
		}
	})
}

func TestTheLegacyLabelsFollowTheStableOnes(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addNode("n", "a", func(n *corev1.Node) {
			n.Labels[corev1.LabelOSStable] = "linux"
			n.Labels[corev1.LabelArchStable] = "arm64"
			n.Labels["beta.kubernetes.io/arch"] = "amd64"
		})
		w.run()
		labels := w.Node("n").Labels
		if labels["beta.kubernetes.io/os"] != "linux" || labels["beta.kubernetes.io/arch"] != "arm64" {
			t.Errorf("labels are %v", labels)
		}
	})
}

func TestAPodsMarkIsDecidedAboutOnceItHasItsToken(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		for i := range 6 {
			w.addPod(fmt.Sprint("p", i), "a-0")
		}
		w.run(func(c *Config) { c.Limiter = rate.NewLimiter(0.1, 1) }) // one call in ten seconds
		w.Pass(time.Minute)
		w.falls("a-0")
		for len(w.Did("patch pods p")) < 2 && w.Now() < 10*time.Minute {
			w.Pass(time.Second)
		}
		w.Pass(2 * time.Second)
		w.resumes("a-0")
		heard := w.Now()
		w.Pass(time.Minute)
		marked := w.Did("patch pods p")
		if len(marked) < 2 || marked[len(marked)-1] > heard {
			t.Errorf("the node was heard at %s, and its pods are marked at %v", heard, marked)
		}
	})
}
