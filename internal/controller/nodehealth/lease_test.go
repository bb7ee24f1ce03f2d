// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func forbidden() error {
	return apierrors.NewForbidden(corev1.Resource("nodes"), "x", errors.New("a webhook says no"))
}

// refuses makes the API server refuse patches of one node.
func (w *world) refuses(node, subresource string) {
	w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p := action.(clienttesting.PatchActionImpl)
		if p.Name != node || p.GetSubresource() != subresource {
			return false, nil, nil
		}
		return true, nil, forbidden()
	})
}

func TestALiveNodeIsNotCalledSilentBecauseItsLeaseWasDeletedForAMoment(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.run()
		w.Until(125 * time.Second)
		leases := w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		w.Must(nil, leases.Delete(t.Context(), "a-0", metav1.DeleteOptions{}))
		synctest.Wait()
		w.ChangeNode("a-0", func(n *corev1.Node) { n.Labels["somebody"] = "looks" })
		w.Until(128 * time.Second) // the kubelet creates it again with its next renewal
		w.Must(leases.Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "a-0", Namespace: corev1.NamespaceNodeLease},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}},
		}, metav1.CreateOptions{}))
		w.Until(130 * time.Second)
		w.WantTaints("a-0")
	})
}

// The same without anybody's help: all leases are deleted every ten seconds, and kubelets make them again a second
// later.
func TestLiveNodesAreNotCalledSilentWhenAllLeasesAreDeleted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 4)
		w.addZone("b", 1)
		w.run()
		w.Until(63 * time.Second)
		leases := w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		for range 6 {
			for _, n := range nodes {
				w.Must(nil, leases.Delete(t.Context(), n, metav1.DeleteOptions{}))
			}
			w.Pass(9 * time.Second)
			for _, n := range nodes {
				w.Must(leases.Create(t.Context(), &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: n, Namespace: corev1.NamespaceNodeLease},
					Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}},
				}, metav1.CreateOptions{}))
			}
			w.Pass(time.Second)
		}
		for _, n := range nodes {
			w.WantTaints(n)
		}
	})
}

func TestAKubeletWhoseClockIsSetBackIsNotSilent(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.run()
		w.Until(35 * time.Second)
		w.falls("a-0") // its renewals come from here, an hour early
		leases := w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		for range 12 {
			w.Until(time.Since(w.Start) + 10*time.Second)
			lease, err := leases.Get(t.Context(), "a-0", metav1.GetOptions{})
			w.Must(nil, err)
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}
			w.Must(leases.Update(t.Context(), lease, metav1.UpdateOptions{}))
			synctest.Wait()
		}
		w.WantTaints("a-0")
	})
}

func TestANodeThatCannotBeChangedDoesNotStopItsZone(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 20)
		w.run()
		w.refuses("a-7", "status") // a webhook; or its status is invalid and every patch a 422
		w.falls("a-7")
		for _, name := range nodes[:9] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		w.Until(65 * time.Second)
		w.wantTainted(7, nodes[:7]...)
		w.Until(time.Hour)
		w.WantTaints("a-8", notReadyNoExecute, notReadyNoSchedule)
	})
}

func TestANodeThatSaysNothingDoesNotStopItsZone(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 20)
		w.run()
		for _, name := range nodes[:3] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		w.DeleteNode("a-1")
		w.AddNode("a-1", "a", func(n *corev1.Node) { // its kubelet has not reported yet
			n.UID = "another"
			n.Status.Conditions = nil
		})
		w.Until(40 * time.Second)
		w.WantTaints("a-2", notReadyNoExecute, notReadyNoSchedule)
	})
}

func TestTheRateOfAZoneHoldsAfterATimeInWhichNothingCouldBeWritten(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 40)
		w.run()
		var mended atomic.Bool
		w.On("patch", "nodes", "", func() error {
			if mended.Load() {
				return nil
			}
			return apierrors.NewInternalError(errors.New("etcdserver: no leader"))
		})
		for _, name := range nodes[:20] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		w.Until(205 * time.Second)
		mended.Store(true)
		w.Until(236 * time.Second) // 31 s at one in ten seconds
		if got := len(w.tainted(nodes...)); got > 5 {
			t.Errorf("%d nodes were tainted within 31 s, want 5 at most", got)
		}
	})
}

func TestInADryRunEventsSaySoAndNoNodeIsRegistered(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 20)
		w.run(func(c *Config) { c.DryRun = true })
		for _, name := range nodes[:3] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		w.addNode("late", "a")
		w.Until(5 * time.Minute)
		calls := w.Book.Calls()
		if len(calls) == 0 {
			t.Error("no event says that a taint would be held back")
		}
		for _, c := range calls {
			if !strings.HasSuffix(c.What, " (dry run)") {
				t.Errorf("in a dry run: %s", c.What)
			}
		}
	})
}

func TestInADryRunANodeThatWasSilentAndRenewsItsLeaseIsReadyAgain(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		w.run(func(c *Config) { c.DryRun = true })
		w.falls("a-0")
		w.Until(5 * time.Minute)
		w.WantMetric("node_collector_unhealthy_nodes_in_zone", nil, 1)
		delete(w.Silent, "a-0") // its Ready condition was True all along
		w.Until(30 * time.Minute)
		w.WantMetric("node_collector_unhealthy_nodes_in_zone", nil, 0)
	})
}

func TestNoNodeIsPlannedAgainAndAgainWhileLeasesCannotBeSeen(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		leases := w.API.Watches("leases")
		w.run()
		w.falls("a-0")
		w.Until(50 * time.Second)
		before := w.looks()
		leases.Break()
		w.Until(10 * time.Minute)
		if got := w.looks() - before; got > 3 {
			t.Errorf("%d looks at three nodes about which nothing is known", got)
		}
	})
}

func (w *world) looks() uint64 {
	w.T.Helper()
	families, err := w.Registry.Gather()
	w.Must(nil, err)
	for _, family := range families {
		if family.GetName() == "node_collector_update_node_health_duration_seconds" {
			return family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}

func TestALivingKubeletIsNotFoughtOverItsPods(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.addPod("p", "a-0")
		w.run()
		// Its lease is renewed; its status was set to Unknown once, and the kubelet's patch of it is refused.
		w.Report("a-0", corev1.NodeReady, corev1.ConditionUnknown)
		for range 500 { // a kubelet reconciles what differs from what it knows at once
			w.Pass(20 * time.Millisecond)
			if w.podReady("p").Status == corev1.ConditionTrue {
				continue
			}
			pod, err := w.Client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
			w.Must(nil, err)
			pod.Status.Conditions[0].Status = corev1.ConditionTrue
			w.Must(w.Client.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}))
		}
		if got := len(w.Did("patch pods p/")); got > 15 {
			t.Errorf("%d patches of one pod within 10 s", got)
		}
	})
}

func TestAStandbyForgetsNodesThatWent(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		k, _ := w.health()
		bubble.Run(t, "the events", func(ctx context.Context) error { k.events.Run(ctx); return nil })
		bubble.Run(t, "the cache of nodes", k.nodes.Run)
		w.comeAndGo(100)
		if got := k.remembered(); got != 0 {
			t.Errorf("%d nodes that are gone are remembered", got)
		}
	})
}

func TestADryRunForgetsNodesThatWent(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		k, caches := w.health(func(c *Config) { c.DryRun = true })
		w.Run("the Controller", caches.With(k.Run))
		w.comeAndGo(20, func(n *corev1.Node) { readiness.Condition(n, corev1.NodeReady).Status = corev1.ConditionUnknown })
		if got := k.remembered(); got != 0 {
			t.Errorf("%d nodes that are gone are remembered", got)
		}
	})
}

// remembered returns how many nodes a Controller knows something about.
func (k *Controller) remembered() int {
	count := 0
	for _, known := range k.records.nodes {
		if known.seen {
			count++
		}
	}
	for _, zone := range k.records.status() {
		count += zone.Size
	}
	return count
}

// comeAndGo creates and removes the given number of nodes.
func (w *world) comeAndGo(count int, change ...func(*corev1.Node)) {
	for i := range count {
		name := fmt.Sprint("n-", i)
		w.addNode(name, "a", change...)
		synctest.Wait()
		w.Must(nil, w.Client.CoreV1().Nodes().Delete(w.T.Context(), name, metav1.DeleteOptions{}))
		synctest.Wait()
	}
}

func TestANodeWhoseConditionsCannotBeWrittenIsTaintedAllTheSame(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		w.run()
		w.refuses("a-0", "status")
		w.Report("a-0", corev1.NodeDiskPressure, corev1.ConditionFalse)
		w.falls("a-0")
		w.Until(2 * time.Minute)
		w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		w.Until(10 * time.Minute)
		w.WantTaints("a-0", "unreachable:NoExecute", "unreachable:NoSchedule", "unschedulable:NoSchedule")
	})
}

func TestOneNodeThatFlapsDoesNotKeepItsZoneFromBeingTainted(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("b", 1)
		nodes := w.addZone("a", 10)
		w.run()
		for _, name := range nodes[:5] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		for range 150 { // twenty minutes; half of the time the zone is Normal
			w.Report("a-9", corev1.NodeReady, corev1.ConditionFalse)
			w.Until(time.Since(w.Start) + 4*time.Second)
			w.Report("a-9", corev1.NodeReady, corev1.ConditionTrue)
			w.Until(time.Since(w.Start) + 4*time.Second)
		}
		w.wantTainted(5, nodes[:5]...)
	})
}

func TestANodeThatNeverPostsIsCalledSilentThoughAnotherFlaps(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 1)
		w.run()
		w.Must(w.Client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "new", ResourceVersion: "1", CreationTimestamp: metav1.Now(), Labels: map[string]string{corev1.LabelTopologyZone: "a"}},
		}, metav1.CreateOptions{}))
		for range 30 {
			w.Report("a-0", corev1.NodeReady, corev1.ConditionFalse)
			w.Until(time.Since(w.Start) + 20*time.Second)
			w.Report("a-0", corev1.NodeReady, corev1.ConditionTrue)
			w.Until(time.Since(w.Start) + 20*time.Second)
		}
		if readiness.Condition(w.Node("new"), corev1.NodeReady) == nil {
			t.Errorf("after %s a node that never posted its status is not considered silent", time.Since(w.Start))
		}
	})
}

func TestShortSightsBetweenOutagesDoNotExcuseSilenceForever(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		leases := w.API.Watches("leases")
		w.run()
		w.falls("a-0")
		w.Until(15 * time.Second)
		for range 60 {
			leases.Break()
			w.Until(time.Since(w.Start) + 11*time.Second)
			leases.Repair()
			w.Until(time.Since(w.Start) + 49*time.Second)
		}
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

func TestRestartsGiveNoTokensToAZone(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 20)
		w.run()
		for _, name := range nodes[:8] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		for range 6 {
			w.Until(time.Since(w.Start) + time.Second)
			w.Stop()
			w.run()
		}
		if got := len(w.tainted(nodes...)); got > 2 {
			t.Errorf("%d nodes are tainted after %s", got, time.Since(w.Start))
		}
	})
}

func TestRestartsGiveNoTokensToALargeZoneInPartialDisruption(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("b", 1)
		nodes := w.addZone("a", 51)
		for _, name := range nodes[:30] {
			w.Report(name, corev1.NodeReady, corev1.ConditionFalse)
		}
		w.run()
		for range 9 {
			w.Until(time.Since(w.Start) + 11*time.Second)
			w.Stop()
			w.run()
		}
		if got := len(w.tainted(nodes...)); got > 2 {
			t.Errorf("%d nodes are tainted after %s, want 2 at most at one in 100 s", got, time.Since(w.Start))
		}
	})
}

func TestNodesWhoseConditionsCannotBeWrittenAreTaintedAtTheRateOfTheirZone(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 30)
		for _, name := range nodes[:10] {
			w.refuses(name, "status")
		}
		w.run()
		w.falls(nodes[:10]...)
		w.Until(60*time.Second + 110*time.Second)
		w.wantTainted(10, nodes...)
	})
}

// A node that has its token cannot be tainted. controller-runtime counts each try that failed, as our own metric does.
func TestWhatControllerRuntimeCountsAsErrorsIsTrue(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 5)
		w.On("patch", "nodes", "", func() error {
			if time.Since(w.Start) > 3*time.Minute {
				return nil
			}
			return apierrors.NewInternalError(errors.New("admission webhook: no endpoints"))
		})
		w.run()
		w.Until(7 * time.Second)
		before := bubble.ReconcileErrors(t, "node-health-taint")
		w.falls("a-0")
		w.Until(2 * time.Minute)
		failed := bubble.ReconcileErrors(t, "node-health-taint") - before
		if failed < 5 {
			t.Errorf("controller-runtime counts %v errors, want those of all tries", failed)
		}
		w.WantMetric("taintkeeper_node_health_retries_total", map[string]string{"reason": "InternalError"}, failed)
		w.Until(4 * time.Minute)
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

// An admission policy refuses changes of node labels.
func TestALabelThatIsRefusedDoesNotKeepANodeFromItsTaints(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.addNode("n", "a", func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" })
		w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return strings.Contains(string(action.(clienttesting.PatchActionImpl).Patch), "beta.kubernetes.io/os"), nil, forbidden()
		})
		w.run()
		w.falls("n")
		w.Until(2 * time.Minute)
		w.WantTaints("n", unreachableNoExecute, unreachableNoSchedule)
	})
}

// statusFailsFor makes an admission webhook for the status of a node fail.
func (w *world) statusFailsFor(node string) {
	w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchActionImpl)
		return patch.Name == node && patch.GetSubresource() == "status", nil, apierrors.NewInternalError(errors.New("failed calling webhook"))
	})
}

func TestTaintsAreTakenOffInFullDisruptionThoughTheConditionsOfANodeCannotBeWrittenForNow(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 4)
		w.statusFailsFor("a-3")
		w.run()
		w.falls("a-0")
		w.Until(80 * time.Second)
		w.wantTainted(1, nodes...)
		w.falls(nodes...)
		w.Until(4 * time.Minute)
		w.wantTainted(0, nodes...)
	})
}

// Its kubelet has no lease, and is back just when it is considered silent; the watch of nodes is late.
func TestAConflictMeansALiveReadThatMayBeASignOfLife(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		late := w.API.Watches("nodes")
		w.run()
		w.Must(nil, w.API.Delete(bubble.Leases, corev1.NamespaceNodeLease, "a-0"))
		w.Until(45 * time.Second)
		late.Hold()
		w.Report("a-0", corev1.NodeReady, corev1.ConditionTrue)
		w.Until(90 * time.Second)
		late.Release()
		w.Pass(time.Second)
		if c := readiness.Condition(w.Node("a-0"), corev1.NodeReady); c.Status != corev1.ConditionTrue {
			t.Errorf("Ready is %s", c.Status)
		}
		w.WantTaints("a-0")
	})
}

// Another client writes the node all the time, and the watch lags.
func TestADeadNodeWhoseObjectOthersChangeFasterThanTheWatchBringsItIsCalledSilent(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		late := w.API.Watches("nodes")
		w.run()
		w.falls("a-0")
		w.Until(40 * time.Second)
		late.Hold()
		for second := 41; second <= 60; second++ {
			w.ChangeNode("a-0", func(n *corev1.Node) { n.Labels["written"] = strconv.Itoa(second) })
			w.Until(time.Duration(second) * time.Second)
		}
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
		late.Release()
		w.Pass(time.Second)
	})
}

func TestANodeThatIsDeletedWhileTheWatchIsInterruptedIsReportedAsGone(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		late := w.API.Watches("nodes")
		w.run()
		w.Until(5 * time.Second)
		late.Hold()
		w.Must(nil, w.Client.CoreV1().Nodes().Delete(t.Context(), "a-0", metav1.DeleteOptions{}))
		late.Expire()
		w.Until(time.Minute)
		if said := w.Did("event a-0 RemovingNode"); len(said) != 1 {
			t.Errorf("%d events say that node a-0 is gone, want 1", len(said))
		}
	})
}

// An API server that has just started can say so.
func TestANodeThatAPatchDoesNotFindIsLookedAtAgain(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		var said atomic.Bool
		w.On("patch", "nodes", "status", func() error {
			if said.Swap(true) {
				return nil
			}
			return apierrors.NewNotFound(corev1.Resource("nodes"), "a-0")
		})
		w.run()
		w.falls("a-0")
		w.Until(2 * time.Minute)
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

// The watch of leases hangs, and a lease is deleted before its kubelet makes it again.
func TestALiveNodeWhoseLeaseIsDeletedWhileTheWatchHangsIsNotCalledSilent(t *testing.T) {
	for name, found := range map[string]bool{"and still hangs": false, "and was just found dead": true} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.addZone("a", 3)
				leases := w.API.Watches("leases")
				w.run()
				w.Until(25 * time.Second) // the last renewal that is seen is at 20 s
				leases.Hold()
				w.Until(30 * time.Second)
				w.Must(nil, w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(t.Context(), "a-0", metav1.DeleteOptions{}))
				if found {
					leases.Break()
					leases.Repair()
				}
				w.Until(42 * time.Second)
				w.Must(w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: "a-0", Namespace: corev1.NamespaceNodeLease},
					Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now()}},
				}, metav1.CreateOptions{}))
				w.Until(5 * time.Minute)
				w.WantTaints("a-0")
				if got := w.Did("patch nodes a-0/"); len(got) != 0 {
					t.Errorf("patches at %v, want none", got)
				}
			})
		})
	}
}
