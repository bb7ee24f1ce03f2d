// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// scene is a namespace and some nodes that one test has for itself.
type scene struct{ rig.Scene }

var scenes atomic.Int32

// newScene makes a namespace. When the test is over, whatever it put there goes, after a
// look at the audit log: whatever the test was about, no pod may have been deleted twice.
func newScene(t *testing.T) *scene {
	t.Helper()
	made, err := rig.New(t.Context(), admin, fmt.Sprintf("scene-%d", scenes.Add(1)))
	await.Must(t, err)
	s := &scene{made}
	t.Cleanup(func() {
		if err := s.Clear(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { s.checkDeletes(t) })
	return s
}

// checkDeletes checks what must be true of every delete.
func (s *scene) checkDeletes(t *testing.T) {
	t.Helper()
	auditlog.CheckSteps(t, audit.All(t, auditlog.In(s.Namespace)))
}

// node makes a node without a kubelet: a pod on it that is deleted keeps terminating.
func (s *scene) node(t *testing.T, name string) string {
	t.Helper()
	name, err := s.Node(t.Context(), name)
	await.Must(t, err)
	return name
}

// livelyNode makes a node that kwok plays: a pod on it that is deleted is gone at once.
func (s *scene) livelyNode(t *testing.T, name string) string {
	t.Helper()
	spec := localcluster.NodeSpec{Name: s.NodeName(name), Labels: s.Labels()}
	await.Must(t, cluster.AddNodes(t.Context(), spec))
	return spec.Name
}

// pod makes a pod that is bound to a node from the start.
func (s *scene) pod(t *testing.T, name, node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod, err := s.Pod(t.Context(), name, node, edits...)
	await.Must(t, err)
	return pod
}

// counts creates a pod that tolerates every taint for an hour. timeAdded is written where such a countdown runs.
func (s *scene) counts(t *testing.T, node string) {
	t.Helper()
	s.pod(t, "counts", node, rig.Tolerating("", 3600))
}

func (s *scene) pods(t *testing.T, count int, node string, edits ...func(*corev1.Pod)) []*corev1.Pod {
	t.Helper()
	pods, err := s.Pods(t.Context(), count, node, edits...)
	await.Must(t, err)
	return pods
}

// seen waits until the Evictor knows all pods that exist: a pod that came after them leaves.
func (s *scene) seen(t *testing.T) {
	t.Helper()
	node := s.node(t, "of-the-witness")
	witness := s.pod(t, "witness", node)
	came := taint(t, node, rig.NoExecute("gone"))
	leaves(t, witness, promised(t, witness, tainting{rig.NoExecute("gone"), came}))
}

// replace replaces a pod with another pod with the same name, as a StatefulSet would.
func (s *scene) replace(ctx context.Context, name, node string, edits ...func(*corev1.Pod)) (*corev1.Pod, error) {
	if err := s.Remove(ctx, name); err != nil {
		return nil, err
	}
	return s.Pod(ctx, name, node, edits...)
}

// span is between which two instants something took effect.
type span = rig.Span

// taint adds taints to a node as `kubectl taint` does, without a timeAdded.
func taint(t *testing.T, node string, taints ...corev1.Taint) span {
	t.Helper()
	took, err := rig.Taint(t.Context(), admin, node, taints...)
	await.Must(t, err)
	return took
}

// untaint takes the taints with a key from a node.
func untaint(t *testing.T, node, key string) span {
	t.Helper()
	took, err := rig.Untaint(t.Context(), admin, node, key)
	await.Must(t, err)
	return took
}

// tainting is a taint and when it came to a node.
type tainting struct {
	corev1.Taint
	span
}

// promise is between which instants a pod is due, by verdict's own arithmetic.
type promise struct{ earliest, latest time.Time }

// promised returns when a pod that was on its node before the taints came is due.
func promised(t *testing.T, pod *corev1.Pod, taintings ...tainting) promise {
	t.Helper()
	var early, late []verdict.Taint
	for _, came := range taintings {
		early = append(early, verdict.Taint{Taint: came.Taint, Since: came.From})
		late = append(late, verdict.Taint{Taint: came.Taint, Since: came.To})
	}
	judged := verdict.Pod{Tolerations: pod.Spec.Tolerations}
	first, last := verdict.Rule{}.Decide(judged, early), verdict.Rule{}.Decide(judged, late)
	if !first.Leaves || !last.Leaves {
		t.Fatalf("the test expects pod %s to leave, the rule does not", pod.Name)
	}
	return promise{first.Due, last.Due}
}

// afterRestart is how a promise changes when the instants at which taints came are known only from
// their timeAdded. It has a resolution of a second, and the pod gets the benefit.
func (p promise) afterRestart() promise { return promise{p.earliest, p.latest.Add(3 * time.Second)} }

// leaves waits until our user has deleted the pod, and checks that it did so once and when it was
// promised: no call about it before the earliest instant.
func leaves(t *testing.T, pod *corev1.Pod, due promise) call {
	t.Helper()
	var done []call
	await.Eventually(t, "pod "+pod.Name+" is deleted", func(context.Context) error {
		if done = audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.Of(pod.UID)); len(done) == 0 {
			return fmt.Errorf("no delete of %s was accepted; %s; calls %v", pod.UID, recorded.Of(pod.UID), audit.All(t, changesOfPods, auditlog.Of(pod.UID)))
		}
		return nil
	})
	checkNotBefore(t, pod, due.earliest)
	if late := done[0].Answered.Sub(due.latest); late > cluster.Stalls().Allowed(due.latest, done[0].Answered) {
		t.Errorf("pod %s was deleted %s after it was due", pod.Name, late)
	}
	return done[0]
}

// checkNotBefore checks that our user has not touched a pod before an instant.
func checkNotBefore(t *testing.T, pod *corev1.Pod, earliest time.Time) {
	t.Helper()
	earliest = earliest.Truncate(time.Microsecond) // as the audit log writes it
	for _, c := range audit.All(t, changesOfPods, auditlog.Of(pod.UID)) {
		if c.Received.Before(earliest) {
			t.Errorf("%s too early: %v", earliest.Sub(c.Received), c)
		}
	}
	if left, ok := recorded.Left(pod.UID); ok && left.Before(earliest) {
		t.Errorf("pod %s left %s too early", pod.Name, earliest.Sub(left))
	}
}

// stays checks that a pod is there, not terminating, and that our user never touched it.
func stays(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if calls := audit.All(t, changesOfPods, auditlog.Of(pod.UID)); len(calls) > 0 {
		t.Errorf("pod %s was to be left alone: %v", pod.Name, calls)
	}
	remains(t, pod)
}

// remains checks that a pod is there and not terminating.
func remains(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	found, err := admin.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	await.Must(t, err)
	if found.UID != pod.UID || found.DeletionTimestamp != nil {
		t.Errorf("pod %s: UID %s, deletionTimestamp %v; want %s, not terminating", pod.Name, found.UID, found.DeletionTimestamp, pod.UID)
	}
}

// gone waits until a pod is gone.
func gone(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	await.Eventually(t, "pod "+pod.Name+" is gone", func(ctx context.Context) error {
		found, err := admin.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && found.UID != pod.UID {
			return nil
		}
		return fmt.Errorf("found %s: %w", found.UID, err)
	})
}
