// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// stopsWithin is how long after an accepted untaint the last delete may be made: as long as a live read of a node is
// valid, plus a call in flight.
const stopsWithin = time.Second

func TestAnUntaintStopsTheEvictionsThatAreStillWaiting(t *testing.T) {
	const count, already, inFlight = 200, 10, 2
	s := newScene(t)
	node := s.livelyNode(t, "tainted")
	pods := s.pods(t, count, node)
	slow := alone(t, &proxy.Faults{}, func(config *eviction.Config) { config.ConcurrentEvictions = inFlight })
	slow.faults.During(t, proxy.PodDeletes(s.Namespace), proxy.Delay(50*time.Millisecond))

	taint(t, node, rig.NoExecute("gone"))
	await.Eventually(t, "some pods are deleted", func(context.Context) error {
		if done := len(audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.In(s.Namespace))); done < already {
			return fmt.Errorf("%d are", done)
		}
		return nil
	})
	untainted := untaint(t, node, "gone")
	await.Until(t, untainted.To.Add(stopsWithin+quiet))

	tooLate := func(c call) bool {
		return c.Received.Sub(untainted.To) > stopsWithin+cluster.Stalls().In(untainted.To, c.Received)
	}
	if more := audit.All(t, auditlog.Deletes, auditlog.In(s.Namespace), tooLate); len(more) > 0 {
		t.Errorf("%d deletes later than %s after the untaint, the first %v", len(more), stopsWithin, more[0])
	}
	left := 0
	for _, pod := range pods {
		sent := audit.All(t, auditlog.Deletes, auditlog.Of(pod.UID))
		switch {
		case len(sent) == 0:
			remains(t, pod)
		case len(auditlog.Choose(sent, auditlog.Accepted)) > 0:
			left++
		default: // the untaint cancelled the call, and the API server may have carried it out
		}
	}
	if left < already || left > count/2 {
		t.Errorf("%d of %d pods left: the test wants to see the middle of it", left, count)
	}
	t.Logf("%d of %d pods had left", left, count)
}

func TestAPodCacheThatIsAheadOfTheNodeCacheEvictsNothing(t *testing.T) {
	s := newScene(t)
	node := s.node(t, "untainted")
	watches := &proxy.Gate{}
	faults := &proxy.Faults{}
	faults.During(t, proxy.WatchesOfNodes, watches.Answer)
	behind := alone(t, faults)
	t.Cleanup(watches.Release)

	witness := s.pod(t, "witness", node)
	s.counts(t, node)
	came := taint(t, node, rig.NoExecute("gone"))
	leaves(t, witness, promised(t, witness, tainting{rig.NoExecute("gone"), came}))
	waitStamped(t, node)

	watches.Hold()
	untaint(t, node, "gone")
	reads := len(audit.All(t, nodeReads, auditlog.Named(node)))
	bound := s.pod(t, "bound", node)
	await.Until(t, time.Now().Add(quiet))
	stays(t, bound)
	if more := len(audit.All(t, nodeReads, auditlog.Named(node))); more == reads {
		t.Error("the node was not read: the test does not show what it is about")
	}
	if due := gauge(t, behind.metrics, "taintkeeper_due_evictions"); due != 1 {
		t.Errorf("%v evictions are due, want 1: the cached node is tainted", due)
	}

	watches.Release()
	await.Eventually(t, "the caches agree that nothing is due", func(context.Context) error {
		if due := gauge(t, behind.metrics, "taintkeeper_due_evictions"); due != 0 {
			return fmt.Errorf("%v are", due)
		}
		return nil
	})
	await.Until(t, time.Now().Add(stopsWithin))
	stays(t, bound)
	again := taint(t, node, rig.NoExecute("again"))
	leaves(t, bound, promised(t, bound, tainting{rig.NoExecute("again"), again}))
}

func TestAPodWhoseNewTolerationIsNotSeenYetIsNotDeleted(t *testing.T) {
	s := newScene(t)
	node := s.node(t, "tainted")
	watches, faults := &proxy.Gate{}, &proxy.Faults{}
	faults.During(t, proxy.WatchesOfPods, watches.Answer)
	behind := alone(t, faults)
	t.Cleanup(watches.Release)
	pod := s.pod(t, "patient", node, rig.Tolerating("gone", 1))
	s.seen(t)

	watches.Hold()
	setTolerationSeconds(t, pod, new(int64(600)))
	taint(t, node, rig.NoExecute("gone"))
	await.Eventually(t, "it is due according to what was seen of it", func(context.Context) error {
		if len(audit.All(t, changesOfPods, auditlog.Of(pod.UID))) == 0 {
			return errors.New("there was no call")
		}
		return nil
	})
	await.Until(t, time.Now().Add(quiet))
	remains(t, pod)

	watches.Release()
	waitPending(t, behind.metrics, 1)
	if tries := audit.All(t, auditlog.Deletes, auditlog.Of(pod.UID)); len(tries) > 0 {
		t.Errorf("calls %v, want no delete", tries)
	}
}
