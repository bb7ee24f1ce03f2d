// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sightingOf makes a sighting of a pod that was bound an hour before the first taint.
func sightingOf(name, node string, tolerations ...corev1.Toleration) sighting {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(name), CreationTimestamp: metav1.Time{Time: early}},
		Spec:       corev1.PodSpec{NodeName: node, Tolerations: tolerations},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	return sighting{}.see(pod, early)
}

func (s sighting) evictedAfter(seconds float64) sighting {
	s.left, s.marked = after(seconds), true
	return s
}

// boundAfter is a replacement that came while the taint was there.
func (s sighting) boundAfter(seconds float64) sighting {
	s.bound = after(seconds)
	s.pod.CreationTimestamp.Time = after(seconds).Truncate(time.Second)
	return s
}

func maintained(seen ...sighting) ([]row, timeline) {
	t := script(0.0, []corev1.Taint{noExecute(maintenance)})
	return rowsOf(rule, seen, west1, t), t
}

func TestRowsAreThePodsOfTheNodeInTheOrderInWhichTheyAreDue(t *testing.T) {
	rows, _ := maintained(
		sightingOf("stays", west1, forEver(maintenance)),
		sightingOf("later", west1, forSeconds(maintenance, 5)),
		sightingOf("elsewhere", west2),
		sightingOf("unbound", ""),
		sightingOf("long-gone", west1).evictedAfter(-3),
		sightingOf("soon", west1).evictedAfter(0.1),
	)
	var names []string
	for _, r := range rows {
		names = append(names, r.pod.Name)
	}
	if diff := cmp.Diff([]string{"soon", "later", "stays"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestOver(t *testing.T) {
	leaves := sightingOf("leaves", west1, forSeconds(maintenance, 3))
	tests := []struct {
		name string
		seen []sighting
		now  float64
		want bool
	}{
		{"not while a pod is pending", []sighting{leaves}, 2, false},
		{"not while a pod is overdue", []sighting{leaves}, 4.5, false},
		{"once an overdue pod is given up", []sighting{leaves}, 8.5, true},
		{"not right after the last pod was due", []sighting{leaves.evictedAfter(3.1)}, 3.5, false},
		{"when nothing more has happened for a while", []sighting{leaves.evictedAfter(3.1)}, 4, true},
		{"although a replacement is not due yet", []sighting{leaves.evictedAfter(3.1), sightingOf("new", west1, forSeconds(maintenance, 3)).boundAfter(3.2)}, 4.5, true},
		{"not while a replacement is overdue", []sighting{leaves.evictedAfter(3.1), sightingOf("new", west1).boundAfter(3.2)}, 4.5, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, line := maintained(tt.seen...)
			if got := over(rows, line, after(tt.now)); got != tt.want {
				t.Errorf("over: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestAnActGoesOnPastTheInstantsThatAnUntaintCancelled(t *testing.T) {
	line := script(0.0, []corev1.Taint{noExecute(maintenance)}, 2.0, []corev1.Taint(nil))
	rows := rowsOf(rule, []sighting{sightingOf("calm", east2, forSeconds(maintenance, 4))}, east2, line)
	if over(rows, line, after(4.9)) || !over(rows, line, after(5)) {
		t.Error("the act ends at another instant than a second after the pod was due")
	}
	got := summarise(rows, elsewhere{}, after(5))
	if !got.ok() || got.cancelled != 1 || got.stayed != 1 || got.expected != 0 {
		t.Errorf("report %+v", got)
	}
}

func TestSummarise(t *testing.T) {
	five := forSeconds(maintenance, 5)
	tests := []struct {
		name   string
		seen   []sighting
		others elsewhere
		want   []string // words of the report and its problems
		ok     bool
	}{
		{
			"what was promised happened",
			[]sighting{sightingOf("a", west1).evictedAfter(0.03), sightingOf("b", west1, five).evictedAfter(5.04), sightingOf("c", west1, forEver(maintenance))},
			elsewhere{there: 9},
			[]string{"2 of 2 evicted, none early, at most 40 ms late.", "1 stayed as promised.", "None of the 9 pods on other nodes left."}, true,
		},
		{
			"a replacement that is not due yet is no failure",
			[]sighting{sightingOf("a", west1).evictedAfter(0.03), sightingOf("b", west1, five).boundAfter(4)},
			elsewhere{}, []string{"1 replacement not due yet."}, true,
		},
		{
			"an early eviction is reported",
			[]sighting{sightingOf("b", west1, five).evictedAfter(4.9)},
			elsewhere{}, []string{"0 of 1 evicted, 1 early", "pod b on node west-1 left before it was due"}, false,
		},
		{
			"a late eviction is reported with its lateness",
			[]sighting{sightingOf("a", west1).evictedAfter(5.5)},
			elsewhere{}, []string{"at most 5500 ms late", "pod a on node west-1 left 5.5s after it was due"}, false,
		},
		{
			"a pod that is still there is reported",
			[]sighting{sightingOf("a", west1)},
			elsewhere{}, []string{"0 of 1 evicted", "pod a on node west-1 is still there"}, false,
		},
		{
			"a pod that had to stay is reported",
			[]sighting{sightingOf("c", west1, forEver(maintenance)).evictedAfter(1)},
			elsewhere{}, []string{"0 of 1 stayed", "pod c on node west-1 left, although it was promised to stay"}, false,
		},
		{
			"pods that left other nodes are reported",
			nil, elsewhere{there: 9, left: 2}, []string{"2 of the 9 pods on other nodes left.", "2 pods on nodes without a taint left"}, false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rows, _ := maintained(tt.seen...)
			got := summarise(rows, tt.others, after(7))
			if got.ok() != tt.ok {
				t.Errorf("ok: %t, problems %q", got.ok(), got.problems)
			}
			text := strings.Join(slices.Concat(got.sentences(), []string{got.elsewhere.sentence()}, got.problems), "\n")
			for _, words := range tt.want {
				if !strings.Contains(text, words) {
					t.Errorf("%q is not in the report:\n%s", words, text)
				}
			}
		})
	}
}

func TestCountElsewhere(t *testing.T) {
	seen := []sighting{
		sightingOf("here", west1).evictedAfter(1),
		sightingOf("there", west2),
		sightingOf("left", east1).evictedAfter(1),
		sightingOf("left before", east1).evictedAfter(-1),
		sightingOf("unbound", ""),
	}
	if got := countElsewhere(seen, []string{west1}, start); got != (elsewhere{there: 2, left: 1}) {
		t.Errorf("elsewhere %+v", got)
	}
}

func TestReportsAddUp(t *testing.T) {
	one := report{expected: 2, evicted: 2, staying: 1, stayed: 1, worst: time.Second}
	two := report{expected: 3, evicted: 2, early: 1, staying: 2, stayed: 2, cancelled: 2, pending: 1, worst: time.Millisecond, problems: []string{"p"}}
	want := report{expected: 5, evicted: 4, early: 1, staying: 3, stayed: 3, cancelled: 2, pending: 1, worst: time.Second, problems: []string{"p"}}
	if diff := cmp.Diff(want, one.plus(two), cmp.AllowUnexported(report{}, elsewhere{})); diff != "" {
		t.Error(diff)
	}
}
