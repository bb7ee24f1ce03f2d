// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/internal/bubble"
)

// slowClient is a client whose calls about nodes may take their time, and lose their answers.
type slowClient struct {
	*fake.Clientset

	// read answers the live read of a lease; nil: as the clientset does.
	read func(ctx context.Context, name string) (*coordinationv1.Lease, error)
	// wrote is told of a patch of a node that was done, and says what its caller hears; nil: that it was.
	wrote func(ctx context.Context) error
}

// CoordinationV1 implements kubernetes.Interface.
func (c slowClient) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return slowCoordination{c.Clientset.CoordinationV1(), c}
}

// CoreV1 implements kubernetes.Interface.
func (c slowClient) CoreV1() coreclient.CoreV1Interface { return slowCore{c.Clientset.CoreV1(), c} }

type slowCoordination struct {
	coordinationclient.CoordinationV1Interface

	client slowClient
}

// Leases implements coordinationclient.CoordinationV1Interface.
func (c slowCoordination) Leases(namespace string) coordinationclient.LeaseInterface {
	return slowLeases{c.CoordinationV1Interface.Leases(namespace), c.client}
}

type slowLeases struct {
	coordinationclient.LeaseInterface

	client slowClient
}

// Get implements coordinationclient.LeaseInterface.
func (l slowLeases) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	if l.client.read == nil {
		return l.LeaseInterface.Get(ctx, name, options)
	}
	return l.client.read(ctx, name)
}

type slowCore struct {
	coreclient.CoreV1Interface

	client slowClient
}

// Nodes implements coreclient.CoreV1Interface.
func (c slowCore) Nodes() coreclient.NodeInterface {
	return slowNodes{c.CoreV1Interface.Nodes(), c.client}
}

type slowNodes struct {
	coreclient.NodeInterface

	client slowClient
}

// Patch implements coreclient.NodeInterface.
func (n slowNodes) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	changed, err := n.NodeInterface.Patch(ctx, name, kind, patch, options, subresources...)
	if err == nil && n.client.wrote != nil {
		err = n.client.wrote(ctx)
	}
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// readsTake makes live reads of leases take some time, each its own.
func (w *world) readsTake(d func(name string) time.Duration) {
	w.slow.read = func(ctx context.Context, name string) (*coordinationv1.Lease, error) {
		if err := takes(ctx, d(name)); err != nil {
			return nil, err
		}
		return w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
	}
}

// readsHang makes live reads of leases hang for as long as a switch is on, as when their etcd is away: they may have one
// of their own.
func (w *world) readsHang() *atomic.Bool {
	var hung atomic.Bool
	w.readsTake(func(string) time.Duration {
		if hung.Load() {
			return time.Hour
		}
		return 0
	})
	return &hung
}

// readsAway makes live reads of leases fail for as long as a switch is on, as when the API server has lost its etcd.
func (w *world) readsAway() *atomic.Bool {
	var away atomic.Bool
	w.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return away.Load(), nil, apierrors.NewInternalError(errors.New("etcdserver: no leader"))
	})
	return &away
}

// readsWait makes live reads of leases wait for as long as a switch is on, as the API server does without its etcd.
func (w *world) readsWait() *atomic.Bool {
	var away atomic.Bool
	w.slow.read = func(ctx context.Context, name string) (*coordinationv1.Lease, error) {
		for away.Load() {
			if err := takes(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
		}
		return w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
	}
	return &away
}

// readsFail makes live reads of leases fail from an instant on.
func (w *world) readsFail(from time.Duration, with error) {
	w.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return time.Since(w.start) > from, nil, with
	})
}

func takes(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// wantUntouched checks that nodes were not changed since the world began.
func (w *world) wantUntouched(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if at := w.did("patch nodes " + name + "/"); len(at) > 0 {
			w.t.Errorf("live node %s was changed at %v: it has %q", name, at, w.taints(name))
		}
	}
}

// The network to the API server is away for a while: what the watch kept back and the answer to the live read come together.
func TestALiveNodeIsNotCalledSilentWhenTheWatchBringsItsRenewalDuringTheLiveRead(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 3)
		leases := w.breakableLeases()
		w.readsTake(func(string) time.Duration { return 3 * time.Second })
		w.run()
		w.until(25 * time.Second) // the last renewal that is seen is at 20 s
		leases.hangs()
		w.until(71 * time.Second) // all renewed at 70 s
		leases.hung.Store(false)
		w.renewAll() // at 71 s, which the watch brings; the read, which is under way, ends at 73 s
		w.until(100 * time.Second)
		w.wantUntouched(nodes...)
	})
}

// What stands between us and the API server knows of nothing.
func TestALiveNodeIsNotCalledSilentBecauseOfA404ThatIsNotTheAPIServers(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 3)
		leases := w.breakableLeases()
		w.slow.read = func(context.Context, string) (*coordinationv1.Lease, error) {
			return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true)
		}
		w.run()
		w.until(25 * time.Second)
		leases.hangs()
		w.until(100 * time.Second)
		w.wantUntouched(nodes...)
	})
}

// While live reads are under way nobody knows whether the others are silent.
func TestALateWatchOfLeasesTakesNoTaintOffADeadNode(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 6)
		leases := w.breakableLeases()
		w.readsTake(func(name string) time.Duration {
			if name == "a-1" {
				return 0
			}
			return 50 * time.Millisecond
		})
		w.run()
		w.falls("a-0")
		w.until(125 * time.Second)
		w.wantTainted(1, nodes...)
		w.falls("a-1")
		leases.hangs()
		was := w.node("a-0").ResourceVersion
		w.until(200 * time.Second)
		if w.node("a-0").ResourceVersion != was {
			t.Errorf("dead node a-0 was changed at %v", w.did("patch nodes a-0/"))
		}
	})
}

func TestDeadNodesAreCalledSilentInTimeWhileTheWatchOfLeasesHangs(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 9)
		leases := w.breakableLeases()
		w.readsTake(func(string) time.Duration { return 50 * time.Millisecond })
		w.run()
		w.until(15 * time.Second)
		w.falls(nodes[:4]...)
		leases.hangs()
		w.until(15*time.Second + defaultGrace.Monitor + findAgain)
		for _, name := range nodes[:4] {
			if c := condition(w.node(name), corev1.NodeReady); c.Status != corev1.ConditionUnknown {
				t.Errorf("after %s node %s is not called silent", time.Since(w.start), name)
			}
		}
		w.wantUntouched(nodes[4:]...)
	})
}

// All nodes seem silent and no read is answered; a new node makes every zone fully disrupted, which asks for a look at all.
func TestLiveReadsThatHangDoNotKeepANodeThatReportsFromItsTaints(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 80)
		hung := w.readsHang()
		w.run()
		w.until(15 * time.Second)
		hung.Store(true)
		w.falls(nodes...) // their leases cannot be renewed
		w.until(65 * time.Second)
		w.addNode("new", "a", func(n *corev1.Node) { condition(n, corev1.NodeReady).Status = corev1.ConditionFalse })
		w.until(66 * time.Second)
		w.report("a-79", corev1.NodeReady, corev1.ConditionTrue)
		w.report("a-79", corev1.NodeDiskPressure, corev1.ConditionTrue)
		w.until(110 * time.Second)
		w.wantTaints("a-79", "disk-pressure:NoSchedule")
	})
}

func TestANodeWhoseLeaseCannotBeReadHasItsOtherTaints(t *testing.T) {
	for name, err := range map[string]error{
		"for want of a right": apierrors.NewForbidden(coordinationv1.Resource("leases"), "a-0", errors.New("no")),
		"for now":             apierrors.NewTooManyRequests("slow down", 1),
		"for an error":        apierrors.NewInternalError(errors.New("etcdserver: no leader")),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				w.addZone("a", 3)
				w.readsFail(15*time.Second, err)
				w.run()
				w.falls("a-0")
				w.until(80 * time.Second)
				w.update("a-0", func(n *corev1.Node) { n.Spec.Unschedulable = true })
				w.until(2 * time.Minute)
				w.wantTaints("a-0", "unschedulable:NoSchedule")
			})
		})
	}
}

func TestNothingIsTriedWithoutPauseWhileLiveReadsFail(t *testing.T) {
	for name, err := range map[string]error{
		"for want of a right": forbidden(),
		"with a foreign 404":  apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true),
		"without an answer":   errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				nodes := w.addZone("a", 20)
				w.addZone("b", 2)
				var reads atomic.Int32
				w.slow.read = func(context.Context, string) (*coordinationv1.Lease, error) {
					reads.Add(1)
					return nil, err
				}
				w.run()
				w.report(nodes[0], corev1.NodeReady, corev1.ConditionFalse)
				w.until(15 * time.Second)
				w.falls(nodes...)
				w.until(2 * time.Minute)
				readBefore, lookedBefore := reads.Load(), w.looks()
				w.until(32 * time.Minute)
				const nodesTimesBackoffs = 20 * 60 // a node and half a minute
				if got := reads.Load() - readBefore; got < nodesTimesBackoffs/2 || got > 2*nodesTimesBackoffs {
					t.Errorf("%d reads of 20 leases within half an hour, want some %d", got, nodesTimesBackoffs)
				}
				if got := w.looks() - lookedBefore; got > 4*nodesTimesBackoffs {
					t.Errorf("%d looks at 22 nodes within half an hour", got)
				}
			})
		})
	}
}

func TestAShutdownInTheMiddleOfReadsThatHangEnds(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 20)
		w.readsHang().Store(true)
		w.run()
		w.falls(nodes...)
		w.until(70 * time.Second)
		began := time.Now()
		w.stop()
		if took := time.Since(began); took > readLimit {
			t.Errorf("the shutdown took %s", took)
		}
	})
}

func TestUnderALimitOfCallsLiveNodesStayReadyWhileTheWatchOfLeasesHangs(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 60)
		w.addZone("b", 3)
		leases := w.breakableLeases()
		w.run(func(c *Config) { c.Limiter = rate.NewLimiter(5, 10) })
		w.until(35 * time.Second)
		w.falls(nodes[:3]...)
		leases.hangs()
		w.until(10 * time.Minute)
		w.wantUntouched(nodes[3:]...)
		w.wantTainted(3, nodes...)
	})
}

func TestADecisionToCallANodeSilentDoesNotGrowOldWhileItsCallWaits(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.run(func(c *Config) { c.Limiter = rate.NewLimiter(0.05, 1) }) // a call in 20 s
		w.falls("a-0")
		w.until(3 * time.Minute)
		if at := w.did("patch nodes a-0/status"); len(at) != 1 || at[0] > defaultGrace.Monitor+time.Millisecond {
			t.Errorf("node a-0 was called silent at %v, want once, at once after the live read", at)
		}
	})
}

func TestCallsThatAreNotMadeTakeNoTurnOfTheLimit(t *testing.T) {
	for name, dryRun := range map[string]bool{"the node lives": false, "in a dry run": true} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				nodes := w.addZone("a", 20)
				leases := w.breakableLeases()
				var reads atomic.Int32
				w.readsTake(func(string) time.Duration {
					reads.Add(1)
					return 0
				})
				const turns = 1000
				limiter := rate.NewLimiter(1e-9, turns)
				w.run(func(c *Config) { c.Limiter, c.DryRun = limiter, dryRun })
				if dryRun {
					w.falls(nodes[0])
				} else {
					w.until(25 * time.Second)
					leases.hangs()
				}
				w.until(2 * time.Minute)
				if spent := turns - int(limiter.Tokens()+0.5); spent == 0 || spent != int(reads.Load()) {
					t.Errorf("%d turns were spent on %d calls", spent, reads.Load())
				}
			})
		})
	}
}

// Leases can be neither renewed nor read, and their watch says nothing. Then they can be.
func TestKubeletsHaveTimeToRenewAfterATimeInWhichNoLeaseCouldBeRead(t *testing.T) {
	for name, away := range map[string]func(*world) *atomic.Bool{"reads fail": (*world).readsAway, "reads hang": (*world).readsWait} {
		for _, end := range []time.Duration{63 * time.Second, 95 * time.Second, 137 * time.Second, 317 * time.Second} {
			t.Run(fmt.Sprintf("%s until %s", name, end), func(t *testing.T) {
				play(t, func(_ *testing.T, w *world) {
					nodes := w.addZone("a", 40) // more than there are workers
					away := away(w)
					w.run()
					w.until(15 * time.Second)
					away.Store(true)
					w.falls(nodes...)
					w.until(end)
					away.Store(false)
					w.sleep(9 * time.Second)
					clear(w.silent)
					w.renewAll()
					w.until(8 * time.Minute)
					w.wantUntouched(nodes...)
				})
			})
		}
	}
}

// A standby hears signs of life and reads nothing. In an outage of leases the leader loses its own.
func TestKubeletsHaveTimeToRenewWhenAStandbyBecomesTheLeader(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 40)
		leads := w.standsBy()
		w.until(15 * time.Second)
		w.falls(nodes...)
		w.until(87 * time.Second)
		leads()
		w.sleep(9 * time.Second)
		clear(w.silent)
		w.renewAll()
		w.until(5 * time.Minute)
		w.wantUntouched(nodes...)
	})
}

// replica is a manager of a replica: what runs everywhere, and what runs in the leader.
type replica struct {
	manager.Manager

	all []manager.Runnable
}

// Add implements manager.Manager.
func (r *replica) Add(runnable manager.Runnable) error {
	r.all = append(r.all, runnable)
	return nil
}

func (r *replica) run(ctx context.Context, leading bool) error {
	var group errgroup.Group
	for _, runnable := range r.all {
		elected, ok := runnable.(manager.LeaderElectionRunnable)
		if (!ok || elected.NeedLeaderElection()) == leading {
			group.Go(func() error { return runnable.Start(ctx) })
		}
	}
	return group.Wait()
}

// standsBy starts a Keeper in a replica that is not the leader, which it becomes by the function that is returned.
func (w *world) standsBy() (leads func()) {
	w.t.Helper()
	keeper, err := New(w.config())
	w.must(nil, err)
	standby := &replica{}
	w.must(nil, keeper.AddTo(standby))
	bubble.Run(w.t, "the standby", func(ctx context.Context) error { return standby.run(ctx, false) })
	return func() {
		bubble.Run(w.t, "the leader", func(ctx context.Context) error { return standby.run(ctx, true) })
	}
}

// cutOff makes nodes fall, the first two 5 s before the others. When it returns the first has had a turn, the second
// is next, in 10 s, and the others have not seemed silent yet.
func (w *world) cutOff(nodes []string) {
	w.falls(nodes...)
	w.sleep(5 * time.Second)
	for _, name := range nodes[2:] {
		w.renew(name)
	}
	w.until(54 * time.Second)
}

// A small zone is cut off, and for a while leases cannot be read. Nodes that have more time for that are no reason for turns.
func TestAZoneInPartialDisruptionHasNoTurnsWhenItsLeasesCanBeReadAgain(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 10)
		w.addZone("b", 3)
		away := w.readsAway()
		w.run()
		w.cutOff(nodes[:8])
		w.wantTainted(1, nodes...)
		away.Store(true)
		w.until(68 * time.Second)
		away.Store(false)
		for _, name := range nodes[2:8] {
			w.update(name, func(n *corev1.Node) { n.Labels["look"] = "again" }) // else within half a minute
		}
		w.until(5 * time.Minute)
		w.wantTainted(1, nodes...)
	})
}

func TestAZoneInPartialDisruptionHasNoTurnsWhenAStandbyBecomesTheLeader(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 10)
		w.addZone("b", 3)
		leads := w.standsBy()
		w.run()
		w.cutOff(nodes[:8])
		w.wantTainted(1, nodes...)
		w.stop()
		w.until(69 * time.Second)
		leads()
		w.until(5 * time.Minute)
		w.wantTainted(1, nodes...)
	})
}

// The watches of a large cluster take a while to bring their first lists.
func TestAProcessThatHasJustStartedGivesNobodyMoreTimeThanTheGracePeriod(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.falls("a-0")
		leads := w.standsBy()
		w.sleep(3 * time.Second)
		leads()
		w.until(defaultGrace.Monitor + time.Second)
		w.wantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

func TestANodeOfWhichNothingWasHeardHasNoMoreTimeAfterARestart(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.addNode("mute", "a", func(n *corev1.Node) { n.Status.Conditions = nil })
		w.must(nil, w.leases.Delete(leasesResource, corev1.NamespaceNodeLease, "mute"))
		w.until(15 * time.Second)
		w.run()
		w.until(defaultGrace.Startup + time.Second)
		if c := condition(w.node("mute"), corev1.NodeReady); c == nil || c.Status != corev1.ConditionUnknown {
			w.t.Errorf("the condition Ready is %v, want Unknown", c)
		}
	})
}

func TestNoCallBeginsAfterAShutdownDuringALiveRead(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.readsTake(func(string) time.Duration { return promptly })
		w.run()
		w.falls("a-0")
		w.until(defaultGrace.Monitor + promptly/2)
		w.stop()
		w.wantUntouched("a-0")
	})
}

// A node that is really silent is called so, however often its lease cannot be read in between.
func TestTimesInWhichNoLeaseCouldBeReadDoNotForgiveSilenceForEver(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		away := w.readsAway()
		w.run()
		w.falls("a-0")
		w.until(49 * time.Second)
		away.Store(true)
		w.until(69 * time.Second)
		away.Store(false)
		w.update("a-0", func(n *corev1.Node) { n.Labels["look"] = "again" }) // else within half a minute
		w.until(69*time.Second + findAgain - time.Second)
		w.wantTaints("a-0")
		away.Store(true)
		w.until(69*time.Second + findAgain + 15*time.Second)
		away.Store(false)
		w.update("a-0", func(n *corev1.Node) { n.Labels["look"] = "once more" })
		w.wantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

func TestATimeInWhichALeaseCouldNotBeReadIsOverWithTheNextSignOfLife(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		away := w.readsAway()
		w.run()
		w.falls("a-0")
		w.until(49 * time.Second)
		away.Store(true)
		w.until(65 * time.Second)
		delete(w.silent, "a-0")
		w.renew("a-0")
		away.Store(false)
		w.until(75 * time.Second) // it renewed its lease at 70 s
		w.falls("a-0")
		w.until(70*time.Second + defaultGrace.Monitor + time.Second)
		w.wantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

// Nobody else falls, so no other look counts it.
func TestANodeWhoseLeaseCannotBeReadCountsAsNotReady(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 1)
		w.addZone("b", 2)
		w.readsAway().Store(true)
		w.run()
		w.falls("a-0")
		w.until(time.Minute)
		w.wantMetric("taintkeeper_zone_state", map[string]string{"zone": "/a", "state": "FullDisruption"}, 1)
		w.wantUntouched("a-0")
	})
}

func TestANodeThatIsNotReadyHasItsTurnThoughItsLeaseCannotBeRead(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 5)
		w.readsAway().Store(true)
		w.run(func(c *Config) { c.Policy.Rate = 1.0 / 60 })
		w.falls(nodes[:2]...)
		w.until(5 * time.Second)
		w.report(nodes[0], corev1.NodeReady, corev1.ConditionFalse)
		w.report(nodes[1], corev1.NodeReady, corev1.ConditionFalse)
		w.until(64 * time.Second) // both seem silent for nine seconds
		w.wantTainted(1, nodes...)
		w.until(66 * time.Second)
		w.wantTainted(2, nodes...)
	})
}
