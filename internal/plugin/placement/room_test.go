// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/placement"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// house is a Room in which pods come and go, and its contents.
type house struct {
	*placement.Room

	r     *rand.Rand
	nodes map[string]*corev1.Node
	pods  map[string]*corev1.Pod
}

// TestWhatARoomRemembersDoesNotChangeItsAnswers compares each answer with the answer of a new Room.
func TestWhatARoomRemembersDoesNotChangeItsAnswers(t *testing.T) {
	for seed := range uint64(3) {
		h := &house{r: rand.New(rand.NewPCG(seed, 0)), nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}}
		for i := range 12 {
			n := node(fmt.Sprintf("n%02d", i), fmt.Sprint(i%3), storing(fmt.Sprintf("image-%d", i%4)))
			h.nodes[n.Name] = n
		}
		for i := range 3 { // the workloads must have pods from the start to be known
			p := pod(fmt.Sprintf("base-%d", i), fmt.Sprintf("n%02d", i), owned("ReplicaSet", fmt.Sprintf("app-%d", i)))
			h.pods[p.Name] = p
		}
		h.Room = h.fresh(t)
		for i := range 150 {
			if !h.step(t, fmt.Sprintf("p%d", i)) {
				t.Fatalf("seed %d, step %d", seed, i)
			}
		}
	}
}

func (h *house) fresh(t *testing.T) *placement.Room {
	t.Helper()
	cluster := &state.Cluster{Nodes: slices.Collect(maps.Values(h.nodes)), Pods: slices.Collect(maps.Values(h.pods))}
	room, err := placement.NewRoom(t.Context(), cluster, cluster.Pods, placement.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	return room
}

// step changes something and places a pod. It reports whether the result was right.
func (h *house) step(t *testing.T, name string) bool {
	t.Helper()
	h.change(t)
	p := h.newPod(name)
	got, err := h.Place(t.Context(), p, "", false)
	if err != nil {
		t.Fatal(err)
	}
	want, err := h.fresh(t).Place(t.Context(), p, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if got.Node != "" {
		p.Spec.NodeName = got.Node
		h.pods[name] = p
	}
	if got.Node != want.Node || got.Why != want.Why {
		t.Errorf("pod %s goes to %q, %q; want %q, %q", name, got.Node, got.Why, want.Node, want.Why)
	}
	return !t.Failed()
}

// change removes a pod, starts to terminate one, or changes the taints of a node.
func (h *house) change(t *testing.T) {
	t.Helper()
	names := slices.Sorted(maps.Keys(h.pods))
	switch h.r.IntN(5) {
	case 0:
		before := h.nodes[fmt.Sprintf("n%02d", h.r.IntN(len(h.nodes)))]
		after := before.DeepCopy()
		after.Spec.Taints = nil
		if h.r.IntN(2) == 0 {
			tainted([]string{"k:NoExecute", "k:PreferNoSchedule"}[h.r.IntN(2)])(after)
		}
		h.nodes[after.Name] = after
		h.Update(after)
	case 1, 2:
		if len(names) == 0 {
			return
		}
		gone := h.pods[names[h.r.IntN(len(names))]]
		delete(h.pods, gone.Name)
		if err := h.Remove(gone); err != nil {
			t.Fatal(err)
		}
	case 3:
		if len(names) == 0 {
			return
		}
		before := h.pods[names[h.r.IntN(len(names))]]
		if before.DeletionTimestamp != nil {
			return
		}
		after := before.DeepCopy()
		after.DeletionTimestamp = &metav1.Time{}
		h.pods[after.Name] = after
		if err := h.Terminate(before); err != nil {
			t.Fatal(err)
		}
	}
}

// newPod returns a pod of one of three workloads, whose pods differ.
func (h *house) newPod(name string) *corev1.Pod {
	one := func(changes ...func(*corev1.Pod)) func(*corev1.Pod) { return changes[h.r.IntN(len(changes))] }
	as := func(*corev1.Pod) {}
	return pod(name, "", owned("ReplicaSet", fmt.Sprintf("app-%d", h.r.IntN(3))),
		one(as, asking("500m"), asking("2")), one(as, running("image-1"), running("image-2")),
		one(as, as, as, apart, spread(corev1.DoNotSchedule), spread(corev1.ScheduleAnyway)),
		one(as, tolerating("k")), one(as, as, selecting(corev1.LabelTopologyZone, "1")))
}
