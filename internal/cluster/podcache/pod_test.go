// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/verdict"
)

func TestFlagsOfAPod(t *testing.T) {
	annotated := func(key, value string) edit {
		return func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} }
	}
	tests := []struct {
		name  string
		edits []edit
		want  Flags
	}{
		{"nothing special", []edit{inPhase(corev1.PodRunning)}, 0},
		{"the mirror of a static pod", []edit{annotated(corev1.MirrorPodAnnotationKey, "0c1d")}, Mirror},
		{"the mirror of a static pod, without a hash", []edit{annotated(corev1.MirrorPodAnnotationKey, "")}, Mirror},
		{"another annotation", []edit{annotated("kubernetes.io/config.source", "api")}, 0},
		{"terminating", []edit{terminating}, Terminating},
		{"pending", []edit{inPhase(corev1.PodPending)}, Pending},
		{"succeeded", []edit{inPhase(corev1.PodSucceeded)}, Finished},
		{"failed", []edit{inPhase(corev1.PodFailed)}, Finished},
		{"phase unknown", []edit{inPhase(corev1.PodUnknown)}, 0},
		{"marked by us", []edit{markedBy(ourMessage)}, DisruptionTarget | MarkedByUs},
		{"marked by the built-in", []edit{markedBy(upstreams)}, DisruptionTarget | MarkedByBuiltIn},
		{"marked by an evictor without a message", []edit{markedBy("")}, DisruptionTarget | MarkedByBuiltIn},
		{"marked by preemption", []edit{withCondition(corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonPreemptionByScheduler)}, DisruptionTarget},
		{"marked without a reason", []edit{withCondition(corev1.DisruptionTarget, corev1.ConditionTrue, "")}, DisruptionTarget},
		{"no longer marked by a taint eviction", []edit{withCondition(corev1.DisruptionTarget, corev1.ConditionFalse, v1alpha1.TaintEvictionReason)}, 0},
		{"not known to be marked", []edit{withCondition(corev1.DisruptionTarget, corev1.ConditionUnknown, v1alpha1.TaintEvictionReason)}, 0},
		{"the reason on another condition", []edit{withCondition(corev1.PodReady, corev1.ConditionTrue, v1alpha1.TaintEvictionReason)}, Ready},
		{"ready", []edit{withCondition(corev1.PodReady, corev1.ConditionTrue, "")}, Ready},
		{"not ready", []edit{withCondition(corev1.PodReady, corev1.ConditionFalse, "")}, 0},
		{"it is not known whether it is ready", []edit{withCondition(corev1.PodReady, corev1.ConditionUnknown, "")}, Ready},
		{"among other conditions", []edit{
			withCondition(corev1.PodReady, corev1.ConditionTrue, ""),
			markedBy(ourMessage),
			withCondition(corev1.PodScheduled, corev1.ConditionTrue, ""),
		}, DisruptionTarget | MarkedByUs | Ready},
		{"everything at once", []edit{
			annotated(corev1.MirrorPodAnnotationKey, "0c1d"), terminating, inPhase(corev1.PodFailed),
			markedBy(ourMessage),
		}, Mirror | Terminating | Finished | DisruptionTarget | MarkedByUs},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCache()
			await.Must(t, c.Store().Add(newPod("a", test.edits...)))
			if got := get(t, c, "uid-a").Flags; got != test.want {
				t.Errorf("flags %05b, want %05b", got, test.want)
			}
		})
	}
}

func TestFlagsThatAnUpdateTakesBackAreTakenBack(t *testing.T) {
	c := newCache()
	await.Must(t, c.Store().Add(newPod("a", markedBy(ourMessage))))
	await.Must(t, c.Store().Update(newPod("a", withCondition(corev1.DisruptionTarget, corev1.ConditionFalse, v1alpha1.TaintEvictionReason))))
	if got := get(t, c, "uid-a").Flags; got != 0 {
		t.Errorf("flags %05b, want none", got)
	}
}

func TestHasAsksForAllOfTheFlags(t *testing.T) {
	both := Mirror | Terminating
	if !both.Has(Mirror) || !both.Has(both) || !both.Has(0) {
		t.Error("flags that are set are not found")
	}
	if both.Has(Finished) || both.Has(Mirror|Finished) {
		t.Error("flags that are not set are found")
	}
}

func TestARecordSaysWhatTheRuleAndTheDeleteCallAskFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheduled := time.Now().Add(-5 * time.Minute)
		pod := newPod("a", withGeneration(7), scheduledAt(scheduled), withVersion("42"), func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To[int32](-3) })
		got := record(pod, verdict.SeenAt(time.Now()).Sight, &[]string{})
		want := &Pod{
			Namespace: "default", Name: "a", UID: "uid-a", Node: "n1", Generation: 7, Version: 42, Priority: -3,
			common: tolerating(tolerated("disk", 300)),
			bound:  scheduled.Add(time.Second).UnixNano(), seen: time.Now().UnixNano(),
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Pod{}, common{}, keptLabels{})); diff != "" {
			t.Errorf("another record (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(types.NamespacedName{Namespace: "default", Name: "a"}, got.Key()); diff != "" {
			t.Errorf("another key (-want +got):\n%s", diff)
		}
		rule := verdict.Pod{Tolerations: want.Tolerations(), Bound: scheduled.Add(time.Second)}
		if diff := cmp.Diff(rule, got.Rule()); diff != "" {
			t.Errorf("another rule (-want +got):\n%s", diff)
		}
	})
}

func TestThePreciseInstantOfBinding(t *testing.T) {
	tests := []struct {
		name string
		edit edit
		wait time.Duration // from the start of the bubble, on a full second, until the pod is first seen
		want time.Duration // from the same instant on
	}{
		{"seen within the second of the binding", atTheStart(scheduledAt), 250 * time.Millisecond, 250 * time.Millisecond},
		{"seen after the second of the binding", atTheStart(scheduledAt), time.Minute, time.Second},
		{"no condition, seen within the second of the creation", atTheStart(createdAt), 250 * time.Millisecond, 250 * time.Millisecond},
		{"no condition, seen after the second of the creation", atTheStart(createdAt), time.Minute, time.Second},
		{"neither is recorded", createdAt(time.Time{}), time.Minute, time.Minute},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := newCache()
				bubble.Pass(test.wait)
				bubble.Tell(c.pods.clock)
				await.Must(t, c.Store().Add(newPod("a", test.edit)))
				bubble.Pass(time.Hour)
				if got := get(t, c, "uid-a").Bound(); !got.Equal(start.Add(test.want)) {
					t.Errorf("bound %s after the second began, want %s", got.Sub(start), test.want)
				}
			})
		})
	}
}

func createdAt(instant time.Time) edit {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(instant) }
}

// atTheStart makes an edit with the instant at which every bubble begins.
func atTheStart(at func(time.Time) edit) edit {
	return at(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC))
}

func TestTheVersionOfARecordIsANumberOrZero(t *testing.T) {
	for resourceVersion, want := range map[string]uint64{
		"": 0, "0": 0, "1": 1, "18446744073709551615": 1<<64 - 1,
		"18446744073709551616": 0, "-1": 0, "abc": 0, "1a": 0, "1.5": 0,
	} {
		if got := record(newPod("a", withVersion(resourceVersion)), verdict.Sight{}, &[]string{}).Version; got != want {
			t.Errorf("resourceVersion %q is version %d, want %d", resourceVersion, got, want)
		}
	}
}
