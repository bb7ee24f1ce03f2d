// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

func TestEqualTolerationListsAreSharedAndReleased(t *testing.T) {
	c := newCache()
	s := c.Store()
	await.Must(t, s.Add(newPod("a")))
	await.Must(t, s.Add(newPod("b")))
	await.Must(t, s.Add(newPod("c", withTolerations(tolerated("net", 5)))))
	await.Must(t, s.Add(newPod("none", withTolerations())))
	checkLists(t, c, 2)
	a, b, other := get(t, c, "uid-a"), get(t, c, "uid-b"), get(t, c, "uid-c")
	if a.common != b.common {
		t.Error("equal lists are kept twice")
	}
	if !SameTolerations(a, b) || SameTolerations(a, other) || SameTolerations(a, get(t, c, "uid-none")) {
		t.Error("equal lists are told apart, or different ones are not")
	}

	await.Must(t, s.Update(newPod("c")))
	checkLists(t, c, 1)
	await.Must(t, s.Update(newPod("a", withTolerations(tolerated("net", 5)))))
	checkLists(t, c, 2)
	c.MarkTerminating("uid-a")
	checkLists(t, c, 2)
	await.Must(t, s.Delete(newPod("a")))
	checkLists(t, c, 1)
	await.Must(t, s.Delete(newPod("b")))
	await.Must(t, s.Delete(newPod("none")))
	checkLists(t, c, 1)
	await.Must(t, listed(c))
	checkLists(t, c, 0)
}

func checkLists(t *testing.T, c *Cache, want int) {
	t.Helper()
	checkConsistent(t, c)
	if got := len(c.pods.commons); got != want {
		t.Errorf("%d toleration lists are kept, want %d", got, want)
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

func TestAPodWithoutTolerationsAndLabelsHasNothingInCommon(t *testing.T) {
	for _, empty := range [][]corev1.Toleration{nil, {}} {
		pod := newPod("a", withTolerations(empty...), withLabel("tier", "db"))
		if got := commonOf(pod, &[]string{"app"}); got != nil {
			t.Errorf("%v, want nil", got)
		}
	}
}

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
