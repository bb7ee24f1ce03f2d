// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	// patience is how late something may be on a machine that is busy with other things. What has
	// to be prompt is measured elsewhere; here, late is what waits for something wrong.
	patience = 8 * time.Second
	// waitLimit is how long a test waits before it gives up.
	waitLimit = time.Minute
	// lookAgain is how often a test looks whether what it waits for has happened.
	lookAgain = 20 * time.Millisecond
)

// scene is a namespace and some nodes that one test has for itself.
type scene struct {
	namespace string
	nodes     []string
}

var scenes atomic.Int32

// newScene makes a namespace. When the test is over, whatever it put on the scene goes, after a
// look at the audit log: whatever the test was about, no pod may have been deleted twice.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{namespace: fmt.Sprintf("scene-%d", scenes.Add(1))}
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { s.clear(t) })
	t.Cleanup(func() { s.checkDeletes(t) })
	return s
}

// checkDeletes checks what is true of every delete there is.
func (s *scene) checkDeletes(t *testing.T) {
	t.Helper()
	done := map[types.UID]call{}
	for _, c := range audit.All(t, auditlog.Deletes, auditlog.In(s.namespace)) {
		if c.Code == http.StatusForbidden {
			continue // refused before its body was read
		}
		if c.UID == "" {
			t.Errorf("a delete without a UID: %v", c)
		}
		before, twice := done[c.UID]
		if twice && c.Accepted() {
			t.Errorf("deleted twice:\n%v\n%v", before, c)
		}
		if c.Accepted() {
			done[c.UID] = c
		}
	}
}

func (s *scene) clear(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, node := range s.nodes {
		if err := admin.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("clear up: %v", err)
		}
	}
	if err := admin.CoreV1().Pods(s.namespace).DeleteCollection(ctx, atOnce(), metav1.ListOptions{}); err != nil {
		t.Errorf("clear up: %v", err)
	}
}

func atOnce() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64)} }

// node makes a node without a kubelet: a pod on it that is deleted keeps terminating.
func (s *scene) node(t *testing.T, name string) string {
	t.Helper()
	name = s.namespace + "-" + name
	_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	s.nodes = append(s.nodes, name)
	return name
}

// livelyNode makes a node that kwok plays: a pod on it that is deleted is gone at once.
func (s *scene) livelyNode(t *testing.T, name string) string {
	t.Helper()
	name = s.namespace + "-" + name
	must(t, cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: name}))
	s.nodes = append(s.nodes, name)
	return name
}

// pod makes a pod that is bound to a node from the start.
func (s *scene) pod(t *testing.T, name, node string, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod, err := admin.CoreV1().Pods(s.namespace).Create(t.Context(), localcluster.NewPod(name, node, edits...), metav1.CreateOptions{})
	must(t, err)
	return pod
}

func (s *scene) pods(t *testing.T, count int, node string, edits ...func(*corev1.Pod)) []*corev1.Pod {
	t.Helper()
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = s.pod(t, fmt.Sprintf("pod-%d", i), node, edits...)
	}
	return pods
}

// tolerating lets a pod tolerate the NoExecute taints with a key for some seconds.
func tolerating(key string, seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
}

// replace puts another pod of the same name in the place of a pod, as a StatefulSet would.
func (s *scene) replace(ctx context.Context, name, node string, edits ...func(*corev1.Pod)) (*corev1.Pod, error) {
	if err := admin.CoreV1().Pods(s.namespace).Delete(ctx, name, atOnce()); err != nil {
		return nil, err
	}
	return admin.CoreV1().Pods(s.namespace).Create(ctx, localcluster.NewPod(name, node, edits...), metav1.CreateOptions{})
}

func noExecute(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

// span is between which two instants something took effect: just before the call, and just after
// it was answered.
type span struct{ from, to time.Time }

// taint adds taints to a node as `kubectl taint` does, without a timeAdded.
func taint(t *testing.T, node string, taints ...corev1.Taint) span {
	t.Helper()
	return changeTaints(t, node, func(all []corev1.Taint) []corev1.Taint { return append(all, taints...) })
}

// untaint takes the taints with a key from a node.
func untaint(t *testing.T, node, key string) span {
	t.Helper()
	return changeTaints(t, node, func(all []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(all, func(taint corev1.Taint) bool { return taint.Key == key })
	})
}

func changeTaints(t *testing.T, node string, change func([]corev1.Taint) []corev1.Taint) span {
	t.Helper()
	took, err := tryChangeTaints(t.Context(), node, change)
	must(t, err)
	return took
}

func tryChangeTaints(ctx context.Context, name string, change func([]corev1.Taint) []corev1.Taint) (span, error) {
	var took span
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		took.from = time.Now()
		_, err = admin.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		took.to = time.Now()
		return err
	})
	return took, err
}

// tainting is a taint and when it came to a node.
type tainting struct {
	corev1.Taint
	span
}

// promise is between which instants a pod is due, by verdict's own arithmetic.
type promise struct{ earliest, latest time.Time }

// promised returns when a pod is due that was on its node before the taints came.
func promised(t *testing.T, pod *corev1.Pod, taintings ...tainting) promise {
	t.Helper()
	var early, late []verdict.Taint
	for _, came := range taintings {
		early = append(early, verdict.Taint{Taint: came.Taint, Since: came.from})
		late = append(late, verdict.Taint{Taint: came.Taint, Since: came.to})
	}
	judged := verdict.Pod{Tolerations: pod.Spec.Tolerations}
	first, last := verdict.Rule{}.Decide(judged, early), verdict.Rule{}.Decide(judged, late)
	if !first.Leaves || !last.Leaves {
		t.Fatalf("the test expects pod %s to leave, the rule does not", pod.Name)
	}
	return promise{first.Due, last.Due}
}

// afterRestart is what becomes of a promise when the instants at which taints came are known from
// their timeAdded alone: that has a resolution of a second, which is given to the pod.
func (p promise) afterRestart() promise { return promise{p.earliest, p.latest.Add(time.Second)} }

// leaves waits until our user has deleted the pod, and checks that it did so once and when it was
// promised: no call about it before the earliest instant.
func leaves(t *testing.T, pod *corev1.Pod, due promise) call {
	t.Helper()
	var done []call
	eventually(t, "pod "+pod.Name+" is deleted", func(context.Context) error {
		if done = audit.All(t, auditlog.Deletes, auditlog.Accepted, auditlog.Of(pod.UID)); len(done) == 0 {
			return fmt.Errorf("no delete of %s was accepted; %s; calls %v", pod.UID, recorded.history(pod.UID), audit.All(t, changesOfPods, auditlog.Of(pod.UID)))
		}
		return nil
	})
	checkNotBefore(t, pod, due.earliest)
	if late := done[0].Answered.Sub(due.latest); late > patience {
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
	if left, ok := recorded.left(pod.UID); ok && left.Before(earliest) {
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
	must(t, err)
	if found.UID != pod.UID || found.DeletionTimestamp != nil {
		t.Errorf("pod %s: UID %s, deletionTimestamp %v; want %s, not terminating", pod.Name, found.UID, found.DeletionTimestamp, pod.UID)
	}
}

// gone waits until a pod is no longer there.
func gone(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "pod "+pod.Name+" is gone", func(ctx context.Context) error {
		found, err := admin.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && found.UID != pod.UID {
			return nil
		}
		return fmt.Errorf("found %s: %w", found.UID, err)
	})
}

// eventually waits for something that cannot be subscribed to.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := poll(t.Context(), check); err != nil {
		t.Fatalf("waited in vain until %s: %v", what, err)
	}
}

// poll looks again and again until there is no error, and returns the last one after waitLimit.
func poll(ctx context.Context, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, lookAgain, waitLimit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err == nil {
		return nil
	}
	return cmp.Or(last, err)
}

// until lets real time pass to an instant, to see that nothing happens before it.
func until(t *testing.T, at time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

// receive waits for what a fault has to tell.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(waitLimit)
	defer timer.Stop()
	select {
	case told := <-from:
		return told
	case <-timer.C:
		t.Fatal("waited in vain for a call that was expected")
		panic("unreachable")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
