// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// wantUntouched checks that nodes were not changed since the world began.
func (w *world) wantUntouched(names ...string) {
	w.T.Helper()
	for _, name := range names {
		if at := w.Did("patch nodes " + name + "/"); len(at) > 0 {
			w.T.Errorf("live node %s was changed at %v: it has %q", name, at, w.Taints(name))
		}
	}
}

// renewalsTake makes renewals of our own lease take some time.
func (w *world) renewalsTake(d time.Duration) {
	w.renewing = func(ctx context.Context) error { return bubble.Takes(ctx, d) }
}

// renewalRefused is the answer to a renewal of our own lease that is not allowed.
var renewalRefused = apierrors.NewForbidden(coordinationv1.Resource("leases"), OwnLease, errors.New("no"))

// renewalsRefused makes renewals of our own lease fail for good.
func (w *world) renewalsRefused() {
	w.renewing = func(context.Context) error { return renewalRefused }
}

func (w *world) wantUnknown(names ...string) {
	w.T.Helper()
	for _, name := range names {
		if c := readiness.Condition(w.Node(name), corev1.NodeReady); c == nil || c.Status != corev1.ConditionUnknown {
			w.T.Errorf("after %s node %s is not considered silent", time.Since(w.Start), name)
		}
	}
}

// silentBy is when a node that fell silent at an instant is called so at the latest: kubelets renew every 10 s, and
// echoes come once a second.
func silentBy(fell time.Duration) time.Duration { return fell + defaultGrace.Monitor + 2*renewEach }

// Reads work and writes do not: a policy on the namespace of the leases, or an etcd without space.
func TestNoNodeIsCalledSilentWhileLeasesCannotBeWritten(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 40)
		w.run()
		w.Until(25 * time.Second)
		w.NoLeases.Store(true)
		w.Until(10 * time.Minute)
		w.NoLeases.Store(false)
		w.Pass(9 * time.Second)
		w.RenewAll()
		w.Until(15 * time.Minute)
		w.wantUntouched(nodes...)
	})
}

func TestKubeletsHaveTimeToRenewAfterATimeInWhichLeasesCouldNotBeWritten(t *testing.T) {
	for _, end := range []time.Duration{63 * time.Second, 95 * time.Second, 137 * time.Second, 317 * time.Second} {
		t.Run(end.String(), func(t *testing.T) {
			play(t, func(_ *testing.T, w *world) {
				nodes := w.addZone("a", 40)
				w.run()
				w.Until(15 * time.Second)
				w.NoLeases.Store(true)
				w.falls(nodes...)
				w.Until(end)
				w.NoLeases.Store(false)
				w.Pass(19 * time.Second)
				clear(w.Silent)
				w.RenewAll()
				w.Until(8 * time.Minute)
				w.wantUntouched(nodes...)
			})
		})
	}
}

// The network to the API server is down for a while, or the connection hangs, and nothing says so.
func TestALateWatchOfLeasesCallsNoNodeSilentAndRemovesNoTaint(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 6)
		leases := w.API.Watches("leases")
		w.run()
		w.falls("a-0")
		w.Until(125 * time.Second)
		w.wantTainted(1, nodes...)
		leases.Hold()
		was := w.Node("a-0").ResourceVersion
		w.Until(10 * time.Minute)
		if w.Node("a-0").ResourceVersion != was {
			t.Errorf("dead node a-0 was changed at %v", w.Did("patch nodes a-0/"))
		}
		w.wantUntouched(nodes[1:]...)
	})
}

func TestAWatchOfLeasesThatHangsIsReconnectedAndDeadNodesAreFound(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 9)
		leases := w.API.Watches("leases")
		var reconnected []time.Duration
		w.run(func(c *Config) {
			c.Reconnect = func() {
				reconnected = append(reconnected, time.Since(w.Start))
				w.reconnects()
			}
		})
		w.Until(15 * time.Second)
		w.falls(nodes[:4]...)
		leases.Hold()
		w.Until(15*time.Second + defaultGrace.Monitor + readiness.ExtraGrace + hangsAfter)
		w.wantUnknown(nodes[:4]...)
		w.wantUntouched(nodes[4:]...)
		if len(reconnected) != 1 || reconnected[0] > 27*time.Second {
			t.Errorf("reconnected at %v, want once, 10 s after the last event", reconnected)
		}
	})
}

// The first connection is closed before the list is complete, and the second is given the time.
func TestAListThatTakesFifteenSecondsGetsThrough(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 3)
		var closed atomic.Pointer[context.CancelFunc]
		reconnected := 0
		slow := &bubble.Slow{Clientset: w.Client, Before: onRequest("list", "leases", func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			closed.Store(&cancel)
			return bubble.Takes(ctx, 15*time.Second)
		})}
		w.run(func(c *Config) {
			c.LeaseClient = slow
			c.Reconnect = func() {
				reconnected++
				(*closed.Load())()
			}
		})
		w.falls(nodes[0])
		w.Until(3 * time.Minute)
		w.wantUnknown(nodes[0])
		w.wantUntouched(nodes[1:]...)
		if reconnected != 1 {
			t.Errorf("reconnected %d times, want once", reconnected)
		}
	})
}

func TestAWatchThatKeepsHangingIsReconnectedLessAndLessOften(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		leases := w.API.Watches("leases")
		reconnected := 0
		w.run(func(c *Config) { c.Reconnect = func() { reconnected++ } })
		leases.Hold()
		w.Until(time.Hour)
		if reconnected < 12 || reconnected > 17 { // after 10, 20, 40, 80, 160, and then every 300 s
			t.Errorf("reconnected %d times within an hour", reconnected)
		}
	})
}

// Each renewal takes longer than a verdict lasts. Such a cluster allows no verdict.
func TestNoNodeIsCalledSilentWhileRenewalsTakeSevenSeconds(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 10)
		w.renewalsTake(7 * time.Second)
		w.run()
		w.falls(nodes[0])
		w.Until(10 * time.Minute)
		w.wantUntouched(nodes...)
	})
}

func TestADeadNodeIsFoundWhileRenewalsTakeTwoSeconds(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 10)
		w.renewalsTake(2 * time.Second)
		w.run()
		w.falls(nodes[0])
		w.Until(silentBy(0) + 3*time.Second) // it was first seen after the first renewal began
		w.wantUnknown(nodes[0])
		w.wantUntouched(nodes[1:]...)
	})
}

// Our own right is missing, and kubelets renew.
func TestWithoutRenewalsOfOurOwnNoNodeIsCalledSilentAndThatIsReported(t *testing.T) {
	for name, change := range map[string]func(*world){
		"refused":   (*world).renewalsRefused,
		"they hang": func(w *world) { w.renewalsTake(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				nodes := w.addZone("a", 10)
				change(w)
				w.run()
				w.Until(25 * time.Second)
				w.falls(nodes[0])
				w.Until(5 * time.Minute)
				w.falls(nodes[1:7]...)
				w.Until(time.Hour - bubble.RenewEvery)
				w.wantUntouched(nodes...)
				said := w.Did("event " + OwnLease + " SilenceUnknown no renewal of our own lease")
				if len(said) != 1 || said[0] > 80*time.Second {
					t.Errorf("events about blindness at %v, want one in time", said)
				}
			})
		})
	}
}

func TestOurOwnLeaseMayBeDeletedOrCopied(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 3)
		w.run()
		w.falls(nodes[0])
		for at := 5 * time.Second; at < silentBy(0); at += 5 * time.Second {
			w.Until(at)
			object, err := w.API.Get(bubble.Leases, corev1.NamespaceNodeLease, OwnLease)
			w.Must(nil, err)
			copied := object.(*coordinationv1.Lease).DeepCopy()
			copied.Name, copied.ResourceVersion = nodes[0], ""
			w.Must(nil, w.API.Update(bubble.Leases, copied, copied.Namespace))
			w.Must(nil, w.API.Delete(bubble.Leases, corev1.NamespaceNodeLease, OwnLease))
		}
		w.Until(50*time.Second + silentBy(0))
		w.wantUnknown(nodes[0])
		w.wantUntouched(nodes[1:]...)
	})
}

func TestAShutdownWhileRenewalsHangEnds(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 20)
		w.renewalsTake(time.Hour)
		w.run()
		w.Until(30 * time.Second)
		began := time.Now()
		w.Stop()
		if took := time.Since(began); took > renewEach {
			t.Errorf("the shutdown took %s", took)
		}
	})
}

func TestOneLeaseIsRenewedOnceASecondAndAnotherOneInADryRun(t *testing.T) {
	for dryRun, name := range map[bool]string{false: OwnLease, true: DryRunLease} {
		t.Run(fmt.Sprintf("dry run %t", dryRun), func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.addZone("a", 3)
				w.run(func(c *Config) { c.DryRun = dryRun })
				w.Until(time.Minute)
				if got := w.renewals(); got != 61 {
					t.Errorf("%d renewals within a minute, want 61", got)
				}
				leases, err := w.API.List(bubble.Leases, coordinationv1.SchemeGroupVersion.WithKind("Lease"), corev1.NamespaceNodeLease)
				w.Must(nil, err)
				for _, lease := range leases.(*coordinationv1.LeaseList).Items {
					owners := lease.OwnerReferences
					if isOwn(&lease) && (lease.Name != name || len(owners) != 1 || owners[0].Kind != "Namespace" || owners[0].UID != "uid-of-the-namespace") {
						t.Errorf("lease %s is owned by %v, want %s that is owned by its namespace", lease.Name, owners, name)
					}
				}
			})
		})
	}
}

// Both see the leases of both. A dry run never keeps what acts from acting, nor the other way round.
func TestADryRunNextToAProcessThatActsChangesNothingForIt(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		nodes := w.addZone("a", 10)
		w.run(func(c *Config) { c.DryRun = true })
		w.run()
		w.falls(nodes[0])
		w.Until(silentBy(0))
		w.WantTaints(nodes[0], unreachableNoExecute, unreachableNoSchedule)
		w.wantUntouched(nodes[1:]...)
		if got := w.renewals(); got < 104 {
			t.Errorf("%d renewals within %s, want one a second from each", got, time.Since(w.Start))
		}
	})
}

func TestAVerdictThatWaitsForItsTokenIsNotCarriedOutOnceTheNodeIsHeard(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 20)
		w.run(func(c *Config) { c.Limiter = rate.NewLimiter(0.1, 1) }) // one call in ten seconds
		w.falls(nodes...)
		w.addZone("b", 30)
		w.Until(silentBy(0))
		clear(w.Silent)
		w.RenewAll()
		w.Until(10 * time.Minute)
		called := 0
		for _, name := range nodes {
			called += len(w.Did("patch nodes " + name + "/status"))
		}
		if called > 1 {
			w.T.Errorf("%d nodes were considered silent, of which all but one were heard before their token came", called)
		}
	})
}

// What cost the leader its place may have cut off kubelets, too.
func TestKubeletsHaveTimeToRenewWhenAStandbyBecomesTheLeader(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 40)
		leads := w.standsBy()
		w.Until(15 * time.Second)
		w.NoLeases.Store(true)
		w.falls(nodes...)
		w.Until(70 * time.Second)
		w.NoLeases.Store(false)
		leads()
		w.Pass(19 * time.Second)
		clear(w.Silent)
		w.RenewAll()
		w.Until(5 * time.Minute)
		w.wantUntouched(nodes...)
	})
}

// standsBy starts a Controller in a replica that is not the leader. The returned function makes it the leader.
func (w *world) standsBy() (leads func()) {
	w.T.Helper()
	health, caches := w.health()
	standby := &bubble.Replica{}
	w.Must(nil, caches.AddTo(standby))
	w.Must(nil, health.AddTo(standby))
	return standby.StandsBy(w.T)
}

// cutOff makes nodes fall, the first two 5 s before the others. When it returns the first has had a token, the second
// is next, in 10 s, and the others have not seemed silent yet.
func (w *world) cutOff(nodes []string) {
	w.falls(nodes...)
	w.Pass(5 * time.Second)
	for _, name := range nodes[2:] {
		w.Renew(name)
	}
	w.Until(54 * time.Second)
}

func TestAZoneInPartialDisruptionHasNoTokensWhenAStandbyBecomesTheLeader(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		nodes := w.addZone("a", 10)
		w.addZone("b", 3)
		leads := w.standsBy()
		w.run()
		w.cutOff(nodes[:8])
		w.wantTainted(1, nodes...)
		w.Stop()
		w.Until(69 * time.Second)
		leads()
		w.Until(5 * time.Minute)
		w.wantTainted(1, nodes...)
	})
}

// The watches of a large cluster take a while to bring their first lists.
func TestAProcessThatHasJustStartedGivesNoNodeMoreTimeThanTheGracePeriod(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.falls("a-0")
		leads := w.standsBy()
		w.Pass(3 * time.Second)
		leads()
		w.Until(silentBy(0))
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
	})
}

func TestANodeThatWasNeverHeardHasNoMoreTimeAfterARestart(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.addNode("mute", "a", func(n *corev1.Node) { n.Status.Conditions = nil })
		w.Must(nil, w.API.Delete(bubble.Leases, corev1.NamespaceNodeLease, "mute"))
		w.Until(15 * time.Second)
		clock := &timeline.Clock{}
		bubble.Tell(clock) // the API server's time, which is the time of creation of nodes
		w.run(func(c *Config) { c.Clock = clock })
		w.Until(defaultGrace.Startup + time.Second + 3*renewEach) // its creation is known to the second, and echoes come every second
		if c := readiness.Condition(w.Node("mute"), corev1.NodeReady); c == nil || c.Status != corev1.ConditionUnknown {
			w.T.Errorf("the condition Ready is %v, want Unknown", c)
		}
	})
}

// A node that is really silent is called so, however often leases cannot be written in between.
func TestTimesInWhichLeasesCannotBeWrittenDoNotExcuseSilenceForever(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 3)
		w.run()
		w.falls("a-0")
		for at := 20 * time.Second; at < 5*time.Minute; at += 40 * time.Second {
			w.Until(at)
			w.NoLeases.Store(true)
			w.Until(at + 10*time.Second)
			w.NoLeases.Store(false)
		}
		w.wantUnknown("a-0")
	})
}

func TestBlindnessIsReported(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.run()
		w.Until(20 * time.Second)
		w.WantMetric("taintkeeper_node_health_seconds_since_echo", nil, 0)
		w.NoLeases.Store(true)
		w.Until(105 * time.Second)
		w.WantMetric("taintkeeper_node_health_seconds_since_echo", nil, 85)
		said := w.Did("event " + OwnLease + " SilenceUnknown no renewal of our own lease")
		if len(said) != 1 || said[0] > 110*time.Second {
			t.Errorf("events about blindness at %v, want one in time", said)
		}
		w.NoLeases.Store(false)
		w.Until(3 * time.Minute)
		if said := w.Did("event " + OwnLease + " SilenceKnown"); len(said) != 1 {
			t.Errorf("events SilenceKnown at %v, want one", said)
		}
	})
}
