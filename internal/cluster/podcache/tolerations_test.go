// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/intern"
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
	if &a.Tolerations[0] != &b.Tolerations[0] {
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
	if got := len(c.pods.tolerations); got != want {
		t.Errorf("%d toleration lists are kept, want %d", got, want)
	}
}

func TestAListThatMightGrowIsNotSharedWithItsSpareRoom(t *testing.T) {
	roomy := append(make([]corev1.Toleration, 0, 8), tolerated("disk", 300))
	shared := shareTolerations(intern.Pool[[]corev1.Toleration]{}, roomy)
	if cap(shared) != 1 {
		t.Errorf("room for %d, want 1: an append would write into another pod's list", cap(shared))
	}
}

func TestListsThatDifferInAnyWayAreKeptApart(t *testing.T) {
	zero := int64(0)
	lists := [][]corev1.Toleration{
		{{}},
		{{}, {}},
		{{Key: "a"}},
		{{Value: "a"}},
		{{Operator: "a"}},
		{{Effect: "a"}},
		{{TolerationSeconds: &zero}},
		{{Key: "a", Value: "b"}},
		{{Key: "ab"}},
		{{Key: "a"}, {Key: "b"}},
		{{Key: "b"}, {Key: "a"}},
		{tolerated("a", 0)},
		{tolerated("a", -1)},
		{tolerated("a", 1), {Key: "1"}},
		{tolerated("a", 11)},
		{tolerated("a", 1)},
	}
	in := intern.Pool[[]corev1.Toleration]{}
	for i, list := range lists {
		shared := shareTolerations(in, list)
		if diff := cmp.Diff(list, shared); diff != "" {
			t.Errorf("list %d became another one (-want +got):\n%s", i, diff)
		}
		for j, other := range lists {
			if equalTolerations(list, other) != (i == j) {
				t.Errorf("lists %d and %d: equal %t, want %t", i, j, i != j, i == j)
			}
		}
	}
	if len(in) != len(lists) {
		t.Errorf("%d lists are kept, want %d", len(in), len(lists))
	}
	for _, list := range lists {
		releaseTolerations(in, list)
	}
	if len(in) != 0 {
		t.Errorf("%d lists are kept after the last use, want none", len(in))
	}
}

func TestAnEmptyListIsNothingToKeep(t *testing.T) {
	in := intern.Pool[[]corev1.Toleration]{}
	for _, empty := range [][]corev1.Toleration{nil, {}} {
		if got := shareTolerations(in, empty); got != nil {
			t.Errorf("%v, want nil", got)
		}
		releaseTolerations(in, empty)
	}
	if len(in) != 0 {
		t.Errorf("%d lists are kept, want none", len(in))
	}
}
