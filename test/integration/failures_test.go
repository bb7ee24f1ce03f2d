// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func TestAnOutageOfTheAPIServerLosesNoEvictionAndDoublesNone(t *testing.T) {
	s := newScene(t)
	busy, node := s.livelyNode(t, "busy"), s.livelyNode(t, "tainted")
	const many, few = 100, 20
	var interrupted, due []*corev1.Pod
	for i := range many {
		interrupted = append(interrupted, s.pod(t, fmt.Sprintf("interrupted-%d", i), busy))
	}
	for i := range few {
		due = append(due, s.pod(t, fmt.Sprintf("due-%d", i), node, rig.Tolerating("gone", 6)))
	}
	faults := &proxy.Faults{}
	faults.During(t, proxy.PodDeletes(s.Namespace), proxy.Delay(50*time.Millisecond))
	alone(t, faults, func(config *eviction.Config) { config.ConcurrentEvictions = 2 })

	later := taint(t, node, rig.NoExecute("gone"))
	waitStamped(t, node)
	atOnce := taint(t, busy, rig.NoExecute("gone"))
	await.Eventually(t, "some pods are deleted", func(context.Context) error {
		if done := audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.In(s.Namespace)); len(done) < 5 {
			return fmt.Errorf("%d are", len(done))
		}
		return nil
	})
	restart := stopAPIServer(t)
	over := promised(t, due[0], tainting{rig.NoExecute("gone"), later})
	if !time.Now().Before(over.earliest) {
		t.Logf("the API server took until %s after the due instant to stop", time.Since(over.earliest))
	}
	await.Until(t, over.latest.Add(time.Second))
	restart()

	back := time.Now().Add(lastBackoff)
	for _, pod := range interrupted {
		leaves(t, pod, promise{promised(t, pod, tainting{rig.NoExecute("gone"), atOnce}).earliest, back})
		gone(t, pod)
	}
	for _, pod := range due {
		leaves(t, pod, promise{over.earliest, back})
		gone(t, pod)
	}
}

// lastBackoff is the longest wait between two tries: an eviction may be that late after an outage.
const lastBackoff = 30 * time.Second

// stopAPIServer plays an outage until the function that it returns is called, or the test ends.
func stopAPIServer(t *testing.T) (restart func()) {
	t.Helper()
	await.Must(t, cluster.StopAPIServer(t.Context()))
	ctx := context.WithoutCancel(t.Context())
	restart = sync.OnceFunc(func() {
		if err := cluster.StartAPIServer(ctx); err != nil {
			t.Errorf("end the outage: %v", err)
		}
	})
	t.Cleanup(restart)
	return restart
}

func TestRetryAfterIsHonored(t *testing.T) {
	shared := resident(t)
	s := newScene(t)
	node := s.node(t, "tainted")
	pod := s.pod(t, "pod", node)
	calls := &proxy.Refusing{Times: 1, With: proxy.BusyFor(2 * time.Second)}
	shared.faults.During(t, proxy.PodDeletes(s.Namespace), calls.Answer)

	came := taint(t, node, rig.NoExecute("gone"))
	due := promised(t, pod, tainting{rig.NoExecute("gone"), came})
	due.latest = due.latest.Add(2 * time.Second)
	leaves(t, pod, due)
	at := calls.All()
	if len(at) != 2 || at[1].Sub(at[0]) < 2*time.Second {
		t.Errorf("deletes at %v, want two that are 2 s apart", at)
	}
}

func TestAnUntaintDuringRetryAfterEndsTheEviction(t *testing.T) {
	shared := resident(t)
	s := newScene(t)
	node := s.node(t, "tainted")
	pod := s.pod(t, "pod", node)
	calls := &proxy.Refusing{Times: 1, With: proxy.BusyFor(2 * time.Second)}
	shared.faults.During(t, proxy.PodDeletes(s.Namespace), calls.Answer)

	taint(t, node, rig.NoExecute("gone"))
	await.Eventually(t, "the delete is refused", func(context.Context) error {
		if len(calls.All()) == 0 {
			return errors.New("it was not tried")
		}
		return nil
	})
	untaint(t, node, "gone")
	await.Until(t, calls.All()[0].Add(2*time.Second+quiet))
	if again := len(calls.All()); again != 1 {
		t.Errorf("%d deletes, want the one before the untaint", again)
	}
	remains(t, pod)
}

func TestFailedDeletesAreRetriedWithDoublingWaits(t *testing.T) {
	shared := resident(t)
	s := newScene(t)
	node := s.node(t, "tainted")
	pod := s.pod(t, "pod", node)
	const failures = 5
	calls := &proxy.Refusing{Times: failures, With: proxy.Failing}
	shared.faults.During(t, proxy.PodDeletes(s.Namespace), calls.Answer)

	came := taint(t, node, rig.NoExecute("gone"))
	leaves(t, pod, promised(t, pod, tainting{rig.NoExecute("gone"), came}))
	at := calls.All()
	if len(at) != failures+1 {
		t.Fatalf("%d deletes, want %d", len(at), failures+1)
	}
	wait := 100 * time.Millisecond
	for i := range failures {
		if waited := at[i+1].Sub(at[i]); waited < wait*4/5 {
			t.Errorf("%s between tries %d and %d, want at least four fifths of %s", waited, i+1, i+2, wait)
		}
		wait *= 2
	}
	if marks := audit.All(t, auditlog.StatusPatches, auditlog.Of(pod.UID)); len(marks) != 1 {
		t.Errorf("the condition was set %d times, want once: %v", len(marks), marks)
	}
}

func TestAConditionThatCannotBeSetDoesNotBlockTheDelete(t *testing.T) {
	resident(t)
	for name, refusal := range map[string]proxy.Refusal{
		"an internal error": proxy.Failing,
		"no permission":     proxy.Forbidding,
		"an overload":       proxy.BusyFor(time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			shared := resident(t)
			s := newScene(t)
			node := s.node(t, "tainted")
			pod := s.pod(t, "pod", node)
			calls := &proxy.Refusing{Times: 1000, With: refusal}
			shared.faults.During(t, proxy.PodStatusPatches(s.Namespace), calls.Answer)

			came := taint(t, node, rig.NoExecute("gone"))
			leaves(t, pod, promised(t, pod, tainting{rig.NoExecute("gone"), came}))
			if tries := len(calls.All()); tries != 3 {
				t.Errorf("%d tries to set the condition, want 3", tries)
			}
			warning := waitWarning(t, pod)
			want := "Deleted Pod " + s.Namespace + "/pod without the condition DisruptionTarget, which could not be set: "
			if warning.Reason != "DisruptionTargetNotSet" || !strings.HasPrefix(warning.Message, want) || warning.Count != 1 {
				t.Errorf("warning %s %q, %d times; want DisruptionTargetNotSet %q…", warning.Reason, warning.Message, warning.Count, want)
			}
		})
	}
}

func waitWarning(t *testing.T, pod *corev1.Pod) *corev1.Event {
	t.Helper()
	var found *corev1.Event
	await.Eventually(t, "an event warns", func(context.Context) error {
		for _, event := range recorded.eventsOn(pod.UID) {
			if event.Type == corev1.EventTypeWarning {
				found = event
				return nil
			}
		}
		return fmt.Errorf("there are %v", recorded.eventsOn(pod.UID))
	})
	return found
}
