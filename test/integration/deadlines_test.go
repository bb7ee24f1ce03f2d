// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func TestAMissingTimeAddedIsWrittenAndNothingElse(t *testing.T) {
	resident(t)
	s := newScene(t)
	node := s.node(t, "tainted")
	s.counts(t, node)
	old := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	others := []corev1.Taint{
		{Key: "not-ours", Value: "x", Effect: corev1.TaintEffectNoSchedule},
		{Key: "preferred", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: "dated", Value: "y", Effect: corev1.TaintEffectNoExecute, TimeAdded: &old},
	}
	came := taint(t, node, append(others, corev1.Taint{Key: "bare", Value: "z", Effect: corev1.TaintEffectNoExecute})...)

	written := waitStamped(t, node)
	if !slices.EqualFunc(written[:3], others, equalTaints) {
		t.Errorf("the other taints are %v, want %v", written[:3], others)
	}
	bare := written[3]
	if bare.Key != "bare" || bare.Value != "z" || bare.Effect != corev1.TaintEffectNoExecute {
		t.Errorf("the taint became %v", bare)
	}
	// What is written is the latest time that the API server's clock could show, and a Date header tells it only to the
	// second.
	if at := bare.TimeAdded.Time; at.Before(came.From.Truncate(time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("timeAdded %v, the taint came at %v", at, came)
	}
}

func equalTaints(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
}

// waitStamped waits until all NoExecute taints of a node have a timeAdded, and returns all its taints.
func waitStamped(t *testing.T, node string) []corev1.Taint {
	t.Helper()
	var taints []corev1.Taint
	await.Eventually(t, "every taint has its timeAdded", func(ctx context.Context) error {
		found, err := admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		taints = found.Spec.Taints
		if slices.ContainsFunc(taints, unstamped) {
			return fmt.Errorf("taints %v", taints)
		}
		return nil
	})
	return taints
}

func unstamped(taint corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoExecute && taint.TimeAdded == nil
}

func TestWritingTimeAddedNeverUndoesAnothersChange(t *testing.T) {
	shared := resident(t)
	s := newScene(t)
	node := s.node(t, "tainted")
	s.counts(t, node)
	const rounds = 6 // the pauses after them double

	// Each patch of ours arrives just after another client has changed the taints.
	intruded := make(chan error, 100)
	round := 0
	shared.faults.During(t, proxy.PatchesOfNode(node), func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		if round < rounds {
			round++
			other := corev1.Taint{Key: fmt.Sprintf("other-%d", round), Effect: corev1.TaintEffectNoSchedule}
			_, err := rig.ChangeTaints(request.Context(), admin, node, func(all []corev1.Taint) []corev1.Taint { return append(all, other) })
			intruded <- err
		}
		return next.RoundTrip(request)
	})
	taint(t, node, rig.NoExecute("gone"))
	for range rounds {
		await.Must(t, await.Receive(t, intruded))
	}
	taints := waitStamped(t, node)
	if len(taints) != rounds+1 {
		t.Errorf("taints %v, want one of ours and %d of others", taints, rounds)
	}
	if lost := audit.All(t, nodePatches, auditlog.Named(node), auditlog.Refused); len(lost) != rounds {
		t.Errorf("%d patches were refused, want %d: %v", len(lost), rounds, lost)
	}
}

func TestTaintsThatComeAndGoWhileTimeAddedIsWrittenAreNotLost(t *testing.T) {
	resident(t)
	s := newScene(t)
	node := s.node(t, "tainted")
	s.counts(t, node)
	const rounds = 15
	for i := range rounds {
		taint(t, node, rig.NoExecute(fmt.Sprintf("kept-%d", i)), rig.NoExecute(fmt.Sprintf("passing-%d", i)))
		untaint(t, node, fmt.Sprintf("passing-%d", i))
	}
	taints := waitStamped(t, node)
	if len(taints) != rounds {
		t.Errorf("taints %v, want the %d that were kept", taints, rounds)
	}
}

func setTolerationSeconds(t *testing.T, pod *corev1.Pod, seconds *int64) *corev1.Pod {
	t.Helper()
	var changed *corev1.Pod
	await.Must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found, err := admin.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range found.Spec.Tolerations {
			if found.Spec.Tolerations[i].Key == "gone" {
				found.Spec.Tolerations[i].TolerationSeconds = seconds
			}
		}
		changed, err = admin.CoreV1().Pods(pod.Namespace).Update(t.Context(), found, metav1.UpdateOptions{})
		return err
	}))
	return changed
}

func TestADeadlineThatPassedDuringADowntimeIsMadeUpForAtOnce(t *testing.T) {
	s := newScene(t)
	node := s.node(t, "tainted")
	pod := s.pod(t, "pod", node, rig.Tolerating("gone", 600))
	first := alone(t, &proxy.Faults{})
	came := taint(t, node, rig.NoExecute("gone"))
	waitStamped(t, node)
	await.Must(t, first.stop())
	pod = setTolerationSeconds(t, pod, new(int64(2)))
	due := promised(t, pod, tainting{rig.NoExecute("gone"), came}).afterRestart()
	await.Until(t, due.latest)
	if _, left := recorded.Left(pod.UID); left {
		t.Fatal(errors.New("it left while no process ran"))
	}
	alone(t, &proxy.Faults{})
	due.latest = time.Now()
	leaves(t, pod, due)
}
