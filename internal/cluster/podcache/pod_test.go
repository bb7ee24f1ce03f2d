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
	"k8s.io/apimachinery/pkg/labels"
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

// checkNames and the random histories check that lists are counted, and released with the last pod.
func TestEqualTolerationListsAreShared(t *testing.T) {
	c := newCache()
	await.Must(t, listed(c, newPod("a"), newPod("b"), newPod("c", withTolerations(tolerated("net", 5))), newPod("none", withTolerations())))
	checkNames(t, c, "a", "b", "c", "none")
	a, b, other := get(t, c, "uid-a"), get(t, c, "uid-b"), get(t, c, "uid-c")
	if a.common != b.common {
		t.Error("equal lists are kept twice")
	}
	if !SameTolerations(a, b) || SameTolerations(a, other) || SameTolerations(a, get(t, c, "uid-none")) {
		t.Error("equal lists are told apart, or different ones are not")
	}
}

func TestAListThatMightGrowIsNotSharedWithItsSpareRoom(t *testing.T) {
	roomy := append(make([]corev1.Toleration, 0, 8), tolerated("disk", 300))
	kept := *commonOf(newPod("a", withTolerations(roomy...)), &[]string{}).tolerations
	if cap(kept) != 1 {
		t.Errorf("room for %d, want 1: an append would write into another pod's list", cap(kept))
	}
}

func TestWhatDiffersInAnyWayIsKeptApart(t *testing.T) {
	zero := int64(0)
	keys, more := &[]string{"a", "c"}, &[]string{"a", "ab", "c"}
	all := []*common{
		tolerating(corev1.Toleration{}),
		tolerating(corev1.Toleration{}, corev1.Toleration{}),
		tolerating(corev1.Toleration{Key: "a"}),
		tolerating(corev1.Toleration{Value: "a"}),
		tolerating(corev1.Toleration{Operator: "a"}),
		tolerating(corev1.Toleration{Effect: "a"}),
		tolerating(corev1.Toleration{TolerationSeconds: &zero}),
		tolerating(corev1.Toleration{Key: "a", Value: "b"}),
		tolerating(corev1.Toleration{Key: "ab"}),
		tolerating(corev1.Toleration{Key: "a"}, corev1.Toleration{Key: "b"}),
		tolerating(corev1.Toleration{Key: "b"}, corev1.Toleration{Key: "a"}),
		tolerating(tolerated("a", 0)),
		tolerating(tolerated("a", -1)),
		tolerating(tolerated("a", 1), corev1.Toleration{Key: "1"}),
		tolerating(tolerated("a", 11)),
		tolerating(tolerated("a", 1)),
		{tolerations: tolerating(tolerated("a", 1)).tolerations, labels: keptLabels{keys, "=,"}},
		{labels: keptLabels{keys, "=,"}},
		{labels: keptLabels{keys, "=b,"}},
		{labels: keptLabels{keys, ",=b"}},
		{labels: keptLabels{keys, "=b,=d"}},
		{labels: keptLabels{more, ",=,"}},
	}
	k := newCache().pods
	for i, one := range all {
		if diff := cmp.Diff(one, k.share(one), cmp.AllowUnexported(common{}, keptLabels{})); diff != "" {
			t.Errorf("number %d became another one (-want +got):\n%s", i, diff)
		}
		for j, other := range all {
			if sameCommon(&Pod{common: one}, &Pod{common: other}) != (i == j) {
				t.Errorf("numbers %d and %d: equal %t, want %t", i, j, i != j, i == j)
			}
		}
	}
	if len(k.commons) != len(all) {
		t.Errorf("%d are kept, want %d", len(k.commons), len(all))
	}
	for _, one := range all {
		k.release(one)
	}
	if len(k.commons) != 0 || len(k.tolerations) != 0 {
		t.Errorf("%d and %d lists are kept after the last use, want none", len(k.commons), len(k.tolerations))
	}
}

func tolerating(list ...corev1.Toleration) *common { return &common{tolerations: &list} }

func TestLabelsWithOtherKeysAreNotKept(t *testing.T) {
	c := newCache()
	pod := newPod("a", withLabel("tier", "db"), withLabel("app", "shop"))
	await.Must(t, c.Store().Add(pod))
	checkLabels(t, c, labels.Set{})
	if c.KeepLabels([]string{"tier"}) {
		t.Error("the cache says that its records have a label that was not kept before")
	}
	await.Must(t, listed(c, pod))
	checkLabels(t, c, labels.Set{"tier": "db"})
	if !c.KeepLabels([]string{"tier"}) || !c.KeepLabels(nil) {
		t.Error("the cache says that its records lack a label that was kept before")
	}
	await.Must(t, listed(c, pod))
	checkLabels(t, c, labels.Set{})
}

func TestPodsWithOtherLabelsShareOneTolerationList(t *testing.T) {
	c := newCache()
	c.KeepLabels([]string{"tier"})
	await.Must(t, c.Store().Add(newPod("a", withLabel("tier", "db"))))
	await.Must(t, c.Store().Add(newPod("b", withLabel("tier", "web"))))
	checkConsistent(t, c)
	a, b := get(t, c, "uid-a").common, get(t, c, "uid-b").common
	if a == b || a.tolerations != b.tolerations || a.labels.keys != b.labels.keys {
		t.Errorf("%v and %v: want other labels with the same list and the same keys", a, b)
	}
}

func TestLabelsKeptWithOtherKeysAreEqualIfTheySayTheSame(t *testing.T) {
	pod := newPod("a", withLabel("tier", "db"), withLabel("app", "shop"))
	kept := func(keys ...string) *Pod { return &Pod{common: &common{labels: labelsOf(pod, &keys)}} }
	same := kept("app", "tier")
	for _, test := range []struct {
		other *Pod
		want  bool
	}{
		{kept("tier", "app"), true},
		{kept("app", "none", "tier"), true},
		{kept("app"), false},
		{&Pod{}, false},
	} {
		if got := SameLabels(same, test.other); got != test.want {
			t.Errorf("equal to %v: %t, want %t", test.other.Labels(), got, test.want)
		}
	}
}

func TestALabelWithoutAValueIsThere(t *testing.T) {
	pod := newPod("a", withLabel("tier", ""), withLabel("app", "shop"))
	kept := labelsOf(pod, &[]string{"none", "tier", "app"})
	for key, want := range map[string]bool{"none": false, "tier": true, "app": true, "else": false} {
		if got := kept.Has(key); got != want {
			t.Errorf("has %q: %t, want %t", key, got, want)
		}
	}
	if tier, app := kept.Get("tier"), kept.Get("app"); tier != "" || app != "shop" {
		t.Errorf("tier %q and app %q, want an empty one and shop", tier, app)
	}
}

func checkLabels(t *testing.T, c *Cache, want labels.Set) {
	t.Helper()
	checkConsistent(t, c)
	if diff := cmp.Diff(want, get(t, c, "uid-a").kept().set()); diff != "" {
		t.Errorf("other labels are kept (-want +got):\n%s", diff)
	}
}
