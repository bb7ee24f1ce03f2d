// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// excluded is the label of upstream's scenario, by which nodes do not count when disruption is told.
const excluded = "node.kubernetes.io/exclude-disruption"

// The scenarios of upstream's TestTaintBasedEvictions (test/integration/node), with the instants that it
// does not look at, and the deadlines that are too short for it.
var tolerating = []struct {
	name        string
	seconds     int64
	tolerations func(key string) []corev1.Toleration
	// leaves says whether the pod leaves, after its seconds; the others are promised more than the test lasts.
	leaves bool
}{
	{"zero", 0, forSeconds(0), true},
	{"three", 3, forSeconds(3), true},
	{"long", 200, forSeconds(200), false},
	{"default", 300, func(string) []corev1.Toleration { return nil }, false}, // the API server's
	{"ever", 0, func(key string) []corev1.Toleration { return []corev1.Toleration{tolerate(key)} }, false},
}

func tolerate(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
}

func forSeconds(seconds int64) func(string) []corev1.Toleration {
	return func(key string) []corev1.Toleration {
		toleration := tolerate(key)
		toleration.TolerationSeconds = &seconds
		return []corev1.Toleration{toleration}
	}
}

func TestPodsLeaveANodeThatIsNotReadyOrSilentWhenTheirTolerationEnds(t *testing.T) {
	s := newScene(t)
	failing := s.node(t, "failing", "a", excluded)
	falling := s.node(t, "falling", "a", excluded)
	fine := s.node(t, "fine", "a", excluded)
	s.keep(t, "--controllers=*")
	onFailing := s.podsTolerating(t, failing, corev1.TaintNodeNotReady)
	onFalling := s.podsTolerating(t, falling, corev1.TaintNodeUnreachable)
	onFine := s.podsTolerating(t, fine, corev1.TaintNodeNotReady)

	last := falling.falls(t)
	posted := failing.posts(t, map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionFalse})
	s.becomes(t, failing, notReady)
	s.becomes(t, falling, unreachable)
	s.wantStory(t, failing, notReady)
	s.wantStory(t, falling, silent, unreachable)
	checkInstant(t, "node failing was tainted", s.writes(t, failing)[0].call, posted)
	s.calledSilent(t, falling, last.Add(grace))
	s.checkEvictions(t, onFailing, corev1.TaintNodeNotReady, s.writes(t, failing)[0].Received)
	s.checkEvictions(t, onFalling, corev1.TaintNodeUnreachable, s.writes(t, falling)[1].Received)

	// When the nodes come back, what was pending is cancelled.
	failing.posts(t, healthy)
	falling.returns(t)
	s.becomes(t, failing, untainted)
	s.becomes(t, falling, untainted)
	for _, pod := range []*corev1.Pod{onFailing["long"], onFalling["long"], onFalling["default"]} {
		says(t, pod.UID, "TaintManagerEviction", "Cancelling deletion of Pod default/"+pod.Name)
	}
	for _, pod := range onFine {
		stays(t, pod)
	}
	s.wantStory(t, fine)
}

func TestPodsLeaveANodeThatFellSilentAfterItWasNotReadyAsIfItHadOneTaint(t *testing.T) {
	s := newScene(t)
	k := s.node(t, "sick", "a", excluded)
	s.node(t, "fine", "a", excluded)
	s.keep(t, "--controllers=*")
	const seconds = 20
	pod := s.pod(t, "on-sick", k, append(forSeconds(seconds)(corev1.TaintNodeNotReady), forSeconds(seconds)(corev1.TaintNodeUnreachable)...)...)

	k.posts(t, map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionFalse})
	s.becomes(t, k, notReady)
	k.falls(t)
	s.becomes(t, k, unreachable)
	s.wantStory(t, k, notReady, silent, unreachable)
	first, swapped := s.writes(t, k)[0], s.writes(t, k)[2]
	if before, after := timeAdded(first), timeAdded(swapped); !after.Equal(before) {
		t.Errorf("the taint that took the place of one of %v was added at %v", before, after)
	}
	leaves(t, pod, first.Received.Truncate(time.Second).Add(seconds*time.Second))
}

// podsTolerating makes a pod for each way of tolerating a taint.
func (s *scene) podsTolerating(t *testing.T, k *kubelet, key string) map[string]*corev1.Pod {
	t.Helper()
	pods := map[string]*corev1.Pod{}
	for _, way := range tolerating {
		pods[way.name] = s.pod(t, k.node.Name+"-"+way.name, k, way.tolerations(key)...)
	}
	return pods
}

// checkEvictions checks which pods leave, and when, after a taint was written at an instant.
func (s *scene) checkEvictions(t *testing.T, pods map[string]*corev1.Pod, key string, tainted time.Time) {
	t.Helper()
	for _, way := range tolerating {
		if way.leaves {
			leaves(t, pods[way.name], tainted.Add(time.Duration(way.seconds)*time.Second))
		}
	}
	for _, way := range tolerating {
		if way.leaves {
			continue
		}
		stays(t, pods[way.name])
		if got := secondsTolerated(pods[way.name], key); got != way.seconds {
			t.Errorf("pod %s tolerates %s for %d s, want %d", pods[way.name].Name, key, got, way.seconds)
		}
	}
}

// secondsTolerated returns for how long a pod tolerates a NoExecute taint; 0 if there is no end to it.
func secondsTolerated(pod *corev1.Pod, key string) int64 {
	for _, toleration := range pod.Spec.Tolerations {
		if toleration.Key == key && toleration.TolerationSeconds != nil {
			return *toleration.TolerationSeconds
		}
	}
	return 0
}

func deletesOf(t *testing.T, uid types.UID) []call {
	t.Helper()
	return audit.All(t, func(c call) bool { return c.Verb == "delete" && c.Resource == "pods" && c.UID == uid })
}

// leaves waits until Taintkeeper has deleted a pod, and checks when, and that the pod says why.
func leaves(t *testing.T, pod *corev1.Pod, due time.Time) {
	t.Helper()
	var done []call
	await.Eventually(t, "pod "+pod.Name+" is deleted", func(context.Context) error {
		if done = deletesOf(t, pod.UID); len(done) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	checkInstant(t, "pod "+pod.Name+" was deleted", done[0], due)
	why := podCondition(look(t.Context(), t, pod), corev1.DisruptionTarget)
	if why.Status != corev1.ConditionTrue || why.Reason != "DeletionByTaintManager" {
		t.Errorf("the condition of pod %s that was evicted: %v", pod.Name, why)
	}
}

// stays checks that a pod is there and that nobody has begun to evict it.
func stays(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	found := look(t.Context(), t, pod)
	if found.UID != pod.UID || found.DeletionTimestamp != nil || podCondition(found, corev1.DisruptionTarget).Type != "" {
		t.Errorf("pod %s had to stay: deletionTimestamp %v, conditions %v", pod.Name, found.DeletionTimestamp, found.Status.Conditions)
	}
	if calls := deletesOf(t, pod.UID); len(calls) > 0 {
		t.Errorf("pod %s had to stay: %v", pod.Name, calls)
	}
}
