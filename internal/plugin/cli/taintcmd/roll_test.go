// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

func readyPod(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func webSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(2))},
	}
}

// starts binds a pod of ReplicaSet web to another node after one time, and makes it ready after another.
func (s *taintScene) starts(bound, ready time.Duration, name string) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	s.later(bound, func() {
		if err := s.client.Tracker().Add(podOnNode("elsewhere", name, controlled("ReplicaSet", "web"))); err != nil {
			s.Error(err)
		}
	})
	s.later(ready, func() {
		pod := podOnNode("elsewhere", name, controlled("ReplicaSet", "web"), readyPod)
		if err := s.client.Tracker().Update(pods, pod, "default"); err != nil {
			s.Error(err)
		}
	})
}

// twoNodes are two nodes with a pod of ReplicaSet web each.
func twoNodes(more ...runtime.Object) []runtime.Object {
	return append(more, taintedNode("a"), taintedNode("b"),
		podOnNode("a", "web-a", controlled("ReplicaSet", "web"), readyPod), podOnNode("b", "web-b", controlled("ReplicaSet", "web"), readyPod))
}

func TestANodeIsTaintedWhenThePodsOfTheOneBeforeRunElsewhere(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.ends(9500*time.Millisecond, "web-a")
		s.starts(20*time.Second, 39500*time.Millisecond, "web-c")
		s.ends(49500*time.Millisecond, "web-b")
		s.starts(50*time.Second, 59500*time.Millisecond, "web-d")
		s.must(s.taint("a", "b", "m:NoExecute", "--yes", "--max-unavailable=1"))
		s.mustHave("a", "m:NoExecute +0s")
		s.mustHave("b", "m:NoExecute +40s")
		if took := time.Since(virtualStart); took != time.Minute {
			s.Errorf("it takes %s", took)
		}
		s.mustSay(s.err.String(), "Note: The plan assumes that all nodes change at once. --max-unavailable=1 taints 1 node at a time and waits",
			"Waiting: ReplicaSet default/web has 1 of 2 pods ready\n")
		s.mustSay(s.out.String(), "node/a tainted\nnode/b tainted\n")
	}, twoNodes(webSet())...)
}

func TestSoManyNodesAreTaintedAtATime(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.ends(9500*time.Millisecond, "web-a")
		s.ends(9500*time.Millisecond, "web-b")
		s.starts(10*time.Second, 19500*time.Millisecond, "web-c")
		s.starts(10*time.Second, 29500*time.Millisecond, "web-d")
		s.must(s.taint("a", "b", "c", "m:NoExecute", "--yes", "--max-unavailable=2"))
		s.mustHave("a", "m:NoExecute +0s")
		s.mustHave("b", "m:NoExecute +0s")
		s.mustHave("c", "m:NoExecute +30s")
	}, twoNodes(webSet(), taintedNode("c"))...)
}

func TestNoOtherNodeIsTaintedAfterOneWhosePodsRunNowhere(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.ends(9500*time.Millisecond, "web-a")
		s.starts(10*time.Second, time.Hour, "web-c")
		s.mustFail(s.taint("a", "b", "m:NoExecute", "--yes", "--max-unavailable=1", "--timeout=1m"),
			"after 1m0s, not all pods are running elsewhere, and the change is not undone\nReplicaSet default/web has 1 of 2 pods ready\n",
			"stopped: tainted: a; not tainted: b")
		s.mustHave("a", "m:NoExecute +0s")
		s.mustHave("b")
		if took := time.Since(virtualStart); took != time.Minute {
			s.Errorf("it takes %s", took)
		}
	}, twoNodes(webSet())...)
}

func TestAWaitThatCannotReadThePodsSaysThatItDoesNotKnow(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.ends(9500*time.Millisecond, "web-a")
		unread := func(action clienttesting.Action) bool {
			return action.GetNamespace() == "default" && time.Since(virtualStart) > 5*time.Second
		}
		s.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return unread(action), nil, errors.New("no answer")
		})
		s.client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
			return unread(action), nil, errors.New("no answer")
		})
		s.mustFail(s.taint("a", "b", "m:NoExecute", "--yes", "--max-unavailable=1", "--timeout=1m"),
			"after 1m0s, it is unknown whether all pods are running elsewhere, and the change is not undone\n", "no answer")
		s.mustHave("b")
	}, twoNodes(webSet())...)
}

func TestNoOtherNodeIsTaintedAfterOneThatPodsDoNotLeave(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.mustFail(s.taint("a", "b", "m:NoExecute", "--yes", "--max-unavailable=1", "--timeout=1m"),
			"after 1m0s, 1 pod has not left, and the change is not undone\n", "stopped: tainted: a; not tainted: b")
		s.mustHave("b")
	}, twoNodes(webSet())...)
}

func TestNoOtherNodeIsTaintedAfterOneThatCannotBe(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.refuses(0, "patch", 1, func(name string) error { return apierrors.NewForbidden(taintedNodes, name, errors.New("no")) })
		s.mustFail(s.taint("a", "b", "m:NoExecute", "--yes", "--max-unavailable=1"),
			"node a: the API server refused the change: ", "stopped: tainted: none; not tainted: a, b")
		s.mustHave("b")
	}, twoNodes(webSet())...)
}

func TestAnInterruptTakesEffectAfterTheNodeAtHand(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		ctx, stop := context.WithCancel(s.Context())
		s.later(5*time.Second, stop)
		s.ends(9500*time.Millisecond, "web-a")
		s.starts(20*time.Second, 39500*time.Millisecond, "web-c")
		err := s.run(ctx, (*options).taintCommand, []string{"a", "b", "m:NoExecute", "--yes", "--max-unavailable=1"})
		s.mustFail(err, "interrupted: tainted: a; not tainted: b")
		s.mustSay(s.err.String(), "Interrupted: the command ends when the pods of a run elsewhere (tainted: none; not tainted: b). Interrupt it again to end it now.\n")
		s.mustHave("a", "m:NoExecute +0s")
		s.mustHave("b")
		if took := time.Since(virtualStart); took != 40*time.Second {
			s.Errorf("it takes %s", took)
		}
	}, twoNodes(webSet())...)
}

func TestDrainAndTaintOneNodeAfterTheOther(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.drains(func(pod string) error {
			if pod == "web-a" && s.node("b").Spec.Unschedulable {
				s.Error("node b is cordoned before the pod of node a runs elsewhere")
			}
			return nil
		})
		s.starts(10*time.Second, 19500*time.Millisecond, "web-c")
		s.starts(20*time.Second, 29500*time.Millisecond, "web-d")
		s.must(s.taint("a", "b", "m:NoExecute", "--yes", "--drain", "--max-unavailable=1"))
		s.mustHave("a", "m:NoExecute +0s")
		s.mustHavePods("web-c", "web-d")
	}, twoNodes(webSet())...)
}

func TestOnlyPodsThatAreReplacedKeepTheNextNodeWaiting(t *testing.T) {
	controls := func(kind string) func(*corev1.Pod) { return controlled(kind, "one") }
	meta := metav1.ObjectMeta{Namespace: "default", Name: "one", UID: types.UID("one")}
	for name, test := range map[string]struct {
		edit  func(*corev1.Pod)
		owner runtime.Object
	}{
		"nothing controls it":       {func(*corev1.Pod) {}, nil},
		"a DaemonSet":               {controls("DaemonSet"), nil},
		"a ReplicaSet that is gone": {controls("ReplicaSet"), nil},
		"a ReplicaSet that wants none": {controls("ReplicaSet"),
			&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32)}}},
		"a StatefulSet that wants none": {controls("StatefulSet"),
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32)}}},
		"a Job that has ended": {controls("Job"), &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: new(int32(1))},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}}},
		"a Job that is suspended": {controls("Job"),
			&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: new(int32(1)), Suspend: new(true)}}},
		"a Job that has all completions": {controls("Job"), &batchv1.Job{ObjectMeta: meta,
			Spec: batchv1.JobSpec{Parallelism: new(int32(1)), Completions: new(int32(3))}, Status: batchv1.JobStatus{Succeeded: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{taintedNode("a"), taintedNode("b"), podOnNode("a", "p", test.edit, readyPod)}
			if test.owner != nil {
				objects = append(objects, test.owner)
			}
			playTaint(t, func(s *taintScene) {
				s.ends(9500*time.Millisecond, "p")
				s.must(s.taint("a", "b", "m:NoExecute", "--yes", "--max-unavailable=1", "--timeout=1m"))
				s.mustHave("b", "m:NoExecute +10s")
			}, objects...)
		})
	}
}
