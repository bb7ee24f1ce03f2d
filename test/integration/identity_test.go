// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// What happens to a pod between two calls of its eviction, at the worst possible moment.
func TestAPodThatIsReplacedDuringItsEvictionIsDone(t *testing.T) {
	resident(t)
	tests := map[string]struct {
		concerned func(namespace string) proxy.Calls
		replaced  int // how the API server refuses a call about a UID that is not the pod's any longer
	}{
		"before the patch":  {concerned: proxy.PodStatusPatches, replaced: http.StatusUnprocessableEntity},
		"before the delete": {concerned: proxy.PodDeletes, replaced: http.StatusConflict},
	}
	for when, test := range tests {
		t.Run(when+" by one on a healthy node", func(t *testing.T) {
			shared := resident(t)
			s := newScene(t)
			node, healthy := s.node(t, "tainted"), s.node(t, "healthy")
			pod, replacement := s.replaceDuring(t, shared, test.concerned(s.Namespace), node, healthy)
			await.Until(t, time.Now().Add(quiet))
			stays(t, replacement)
			checkOneRefusal(t, pod, test.replaced)
		})
		t.Run(when+" by one on the tainted node", func(t *testing.T) {
			shared := resident(t)
			s := newScene(t)
			node := s.node(t, "tainted")
			pod, replacement := s.replaceDuring(t, shared, test.concerned(s.Namespace), node, node)
			leaves(t, replacement, promise{replacement.CreationTimestamp.Time, time.Now()})
			checkOneRefusal(t, pod, test.replaced)
		})
		t.Run(when+" by nothing", func(t *testing.T) {
			shared := resident(t)
			s := newScene(t)
			node := s.node(t, "tainted")
			pod := s.pod(t, "web-0", node)
			happened := s.onFirst(t, shared, test.concerned(s.Namespace), func(ctx context.Context) error {
				return admin.CoreV1().Pods(s.Namespace).Delete(ctx, "web-0", rig.AtOnce())
			})
			taint(t, node, rig.NoExecute("gone"))
			await.Must(t, await.Receive(t, happened))
			await.Until(t, time.Now().Add(quiet))
			checkOneRefusal(t, pod, http.StatusNotFound)
		})
	}
}

// A pod cache that lags behind must not make it try again: the answer of the API server says enough.
func TestAPodWhoseReplacementIsNotSeenYetIsDoneAtTheFirstAnswer(t *testing.T) {
	tests := map[string]struct {
		concerned func(namespace string) proxy.Calls
		calls     int
	}{
		"before the patch":  {concerned: proxy.PodStatusPatches, calls: 1},
		"before the delete": {concerned: proxy.PodDeletes, calls: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			node, healthy := s.node(t, "tainted"), s.node(t, "healthy")
			watches, faults := &proxy.Gate{}, &proxy.Faults{}
			faults.During(t, proxy.WatchesOfPods, watches.Answer)
			e := alone(t, faults)
			t.Cleanup(watches.Release)
			pod := s.pod(t, "web-0", node)
			s.seen(t)

			watches.Hold()
			happened := s.onFirst(t, e, test.concerned(s.Namespace), func(ctx context.Context) error {
				_, err := s.replace(ctx, "web-0", healthy)
				return err
			})
			taint(t, node, rig.NoExecute("gone"))
			await.Must(t, await.Receive(t, happened))
			waitEvictions(t, e.metrics, "replaced", 1)
			await.Until(t, time.Now().Add(time.Second))
			if calls := audit.All(t, changesOfPods, auditlog.Of(pod.UID)); len(calls) != test.calls {
				t.Errorf("calls %v, want %d", calls, test.calls)
			}
			if events := recorded.eventsOn(pod.UID); len(events) != 1 {
				t.Errorf("events %v, want only that it was marked for deletion", events)
			}
		})
	}
}

// onFirst lets something happen just before the first call of a kind goes on to the API server.
func (s *scene) onFirst(t *testing.T, e *evictor, concerned proxy.Calls, do func(context.Context) error) <-chan error {
	t.Helper()
	happened := make(chan error, 1)
	var once sync.Once
	e.faults.During(t, concerned, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		once.Do(func() { happened <- do(request.Context()) })
		return next.RoundTrip(request)
	})
	return happened
}

// replaceDuring taints the node of a pod and replaces the pod when the first call of a kind about
// it is on its way.
func (s *scene) replaceDuring(t *testing.T, e *evictor, concerned proxy.Calls, node, onto string) (pod, replacement *corev1.Pod) {
	t.Helper()
	pod = s.pod(t, "web-0", node)
	happened := s.onFirst(t, e, concerned, func(ctx context.Context) error {
		var err error
		replacement, err = s.replace(ctx, "web-0", onto)
		return err
	})
	taint(t, node, rig.NoExecute("gone"))
	await.Must(t, await.Receive(t, happened))
	return pod, replacement
}

// checkOneRefusal checks that the last call about a pod was refused with a code, and that it was the
// only one that was: a pod that is gone is not tried again.
func checkOneRefusal(t *testing.T, pod *corev1.Pod, code int) {
	t.Helper()
	var refused []call
	await.Eventually(t, "the refusal is in the audit log", func(context.Context) error {
		if refused = audit.All(t, changesOfPods, auditlog.Refused, auditlog.Of(pod.UID)); len(refused) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	if len(refused) != 1 || refused[0].Code != code {
		t.Errorf("refusals %v, want one with code %d", refused, code)
	}
	if done := audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.Of(pod.UID)); len(done) > 0 {
		t.Errorf("deletes of a pod that was not there any more: %v", done)
	}
}

func TestManyReplacementsInARowAreEachJudgedForThemselves(t *testing.T) {
	resident(t)
	s := newScene(t)
	// Not a node that kwok plays: kwok deletes by name, and would take the next pod too.
	node := s.node(t, "tainted")
	taint(t, node, rig.NoExecute("gone"))
	for range 10 {
		created := time.Now()
		pod := s.pod(t, "web-0", node)
		leaves(t, pod, promised(t, pod, tainting{rig.NoExecute("gone"), span{From: created, To: time.Now()}}))
		await.Must(t, admin.CoreV1().Pods(s.Namespace).Delete(t.Context(), "web-0", rig.AtOnce()))
	}
}
