// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

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

// silentBy is when a node that fell silent at an instant is called so at the latest: kubelets renew every 10 s, and
// echoes come once a second.
func silentBy(fell time.Duration) time.Duration { return fell + defaultGrace.Monitor + 2*renewEach }

// What renewals and signs of life mean for the clock and for each node is tested in silence_test.go.
func TestEchoes(t *testing.T) { //nolint:gocyclo // a table: the stories add up, and each is simple
	stories := map[string]func(w *world){
		// What cost the leader its place may have cut off kubelets, too.
		"kubelets have time to renew when a standby becomes the leader": func(w *world) {
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
		},
		"while leases cannot be seen no node is called silent": func(w *world) {
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
		},
		"no node is planned again and again while leases cannot be seen": func(w *world) {
			w.addZone("a", 3)
			leases := w.API.Watches("leases")
			w.run()
			w.falls("a-0")
			w.Until(50 * time.Second)
			looks := func() uint64 {
				return w.Metrics("node_collector_update_node_health_duration_seconds", nil)[0].GetHistogram().GetSampleCount()
			}
			before := looks()
			leases.Break()
			w.Until(10 * time.Minute)
			if got := looks() - before; got > 3 {
				w.T.Errorf("%d looks at three nodes about which nothing is known", got)
			}
		},
		// A node that is really silent is called so, however often leases cannot be written in between.
		"times in which leases cannot be written do not excuse silence forever": func(w *world) {
			w.addZone("a", 3)
			w.run()
			w.falls("a-0")
			for at := 20 * time.Second; at < 5*time.Minute; at += 40 * time.Second {
				w.Until(at)
				w.NoLeases.Store(true)
				w.Until(at + 10*time.Second)
				w.NoLeases.Store(false)
			}
			w.wantReady("a-0", corev1.ConditionUnknown)
		},
		"a watch of leases that hangs is reconnected, and dead nodes are found": func(w *world) {
			nodes := w.addZone("a", 9)
			leases := w.API.Watches("leases")
			var reconnected []time.Duration
			w.run(func(c *Config) {
				c.Reconnect = func() {
					reconnected = append(reconnected, w.Now())
					w.reconnects()
				}
			})
			w.Until(15 * time.Second)
			w.falls(nodes[:4]...)
			leases.Hold()
			w.Until(15*time.Second + defaultGrace.Monitor + readiness.ExtraGrace + hangsAfter)
			w.wantReady("a-0", corev1.ConditionUnknown)
			w.wantReady("a-3", corev1.ConditionUnknown)
			w.wantUntouched(nodes[4:]...)
			if len(reconnected) != 1 || reconnected[0] > 27*time.Second {
				w.T.Errorf("reconnected at %v, want once, 10 s after the last event", reconnected)
			}
		},
		"a watch that keeps hanging is reconnected less and less often": func(w *world) {
			w.addZone("a", 3)
			leases := w.API.Watches("leases")
			reconnected := 0
			w.run(func(c *Config) { c.Reconnect = func() { reconnected++ } })
			leases.Hold()
			w.Until(time.Hour)
			if reconnected < 12 || reconnected > 17 { // after 10, 20, 40, 80, 160, and then every 300 s
				w.T.Errorf("reconnected %d times within an hour", reconnected)
			}
		},
		// The first connection is closed before the list is complete, and the second is given the time.
		"a list that takes fifteen seconds gets through": func(w *world) {
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
			w.wantReady(nodes[0], corev1.ConditionUnknown)
			w.wantUntouched(nodes[1:]...)
			if reconnected != 1 {
				w.T.Errorf("reconnected %d times, want once", reconnected)
			}
		},
		"our own lease may be deleted or copied": func(w *world) {
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
			w.wantReady(nodes[0], corev1.ConditionUnknown)
			w.wantUntouched(nodes[1:]...)
		},
		"a shutdown while renewals hang ends": func(w *world) {
			w.addZone("a", 20)
			w.renewalsTake(time.Hour)
			w.run()
			w.Until(30 * time.Second)
			began := time.Now()
			w.Stop()
			if took := time.Since(began); took > renewEach {
				w.T.Errorf("the shutdown took %s", took)
			}
		},
		// Both see the leases of both. A dry run never keeps what acts from acting, nor the other way round.
		"a dry run next to a process that acts changes nothing for it": func(w *world) {
			nodes := w.addZone("a", 10)
			w.run(func(c *Config) { c.DryRun = true })
			w.run()
			w.falls(nodes[0])
			w.Until(silentBy(0))
			w.WantTaints(nodes[0], unreachableNoExecute, unreachableNoSchedule)
			w.wantUntouched(nodes[1:]...)
			if got := w.renewals(); got < 104 {
				w.T.Errorf("%d renewals within %s, want one a second from each", got, w.Now())
			}
		},
		"a verdict that waits for its token is not carried out once the node is heard": func(w *world) {
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
		},
		"blindness is reported": func(w *world) {
			w.addZone("a", 3)
			w.run()
			w.Until(20 * time.Second)
			w.WantMetric("taintkeeper_node_health_seconds_since_echo", nil, 0)
			w.NoLeases.Store(true)
			w.Until(105 * time.Second)
			w.WantMetric("taintkeeper_node_health_seconds_since_echo", nil, 85)
			w.wantOnce("event " + OwnLease + " SilenceUnknown no renewal of our own lease")
			w.NoLeases.Store(false)
			w.Until(3 * time.Minute)
			w.wantOnce("event " + OwnLease + " SilenceKnown")
		},
	}
	for _, end := range []time.Duration{63 * time.Second, 137 * time.Second, 317 * time.Second} {
		stories[fmt.Sprintf("kubelets have time to renew after leases could not be written until %s", end)] = func(w *world) {
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
		}
	}
	// The watch of leases hangs, and a lease is deleted before its kubelet makes it again.
	for name, found := range map[string]bool{"and still hangs": false, "and was just found dead": true} {
		stories["a live node whose lease is deleted while the watch hangs is not called silent, "+name] = func(w *world) {
			w.addZone("a", 3)
			leases := w.API.Watches("leases")
			w.run()
			w.Until(25 * time.Second) // the last renewal that is seen is at 20 s
			leases.Hold()
			w.Until(30 * time.Second)
			w.Must(nil, w.API.Delete(bubble.Leases, corev1.NamespaceNodeLease, "a-0"))
			if found {
				leases.Break()
				leases.Repair()
			}
			w.Until(42 * time.Second)
			w.StartKubelet("a-0")
			w.Until(5 * time.Minute)
			w.wantUntouched("a-0")
		}
	}
	for dryRun, name := range map[bool]string{false: OwnLease, true: DryRunLease} {
		stories["one lease is renewed once a second: "+name] = func(w *world) {
			w.addZone("a", 3)
			w.run(func(c *Config) { c.DryRun = dryRun })
			w.Until(time.Minute)
			if got := w.renewals(); got != 61 {
				w.T.Errorf("%d renewals within a minute, want 61", got)
			}
			all, err := w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(w.T.Context(), metav1.ListOptions{})
			w.Must(nil, err)
			for _, lease := range all.Items {
				owners := lease.OwnerReferences
				if isOwn(&lease) && (lease.Name != name || len(owners) != 1 || owners[0].Kind != "Namespace" || owners[0].UID != "uid-of-the-namespace") {
					w.T.Errorf("lease %s is owned by %v, want %s that is owned by its namespace", lease.Name, owners, name)
				}
			}
		}
	}
	// Zones and echoes know this process's clock only.
	for _, ahead := range []time.Duration{4 * time.Second, time.Minute, -10 * time.Minute} {
		stories[fmt.Sprintf("a clock of the API server that differs by %s changes nothing for silent nodes", ahead)] = func(w *world) {
			clock := &timeline.Clock{}
			w.Client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				clock.Heard(time.Now().Add(ahead).Truncate(time.Second), time.Now())
				return false, nil, nil
			})
			w.addZone("a", 10)
			w.run(func(c *Config) { c.Clock = clock })
			w.Until(2 * time.Minute)
			w.falls("a-0", "a-1", "a-2")
			w.Until(3 * time.Minute)
			if got := w.tainted("a-0", "a-1", "a-2"); len(got) == 0 || len(got) == 3 {
				w.T.Errorf("a minute after three nodes fell silent %v are tainted, want some of them", got)
			}
			w.Until(4 * time.Minute)
			w.wantTainted(3, "a-0", "a-1", "a-2")
		}
	}
	playStories(t, stories)
}
