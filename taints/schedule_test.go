// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

var (
	toleratesAll           = corev1.Toleration{Operator: corev1.TolerationOpExists}
	toleratesA             = corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}
	toleratesANoExecute    = corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	toleratesANoSchedule   = corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	toleratesAPrefer       = corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectPreferNoSchedule}
	toleratesEveryNoExec   = corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	toleratesEveryPrefer   = corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectPreferNoSchedule}
	toleratesAGreaterThan1 = corev1.Toleration{Key: "a", Operator: corev1.TolerationOpGt, Value: "1"}
)

func TestUntoleratedFindsTheFirstTaintThatForbidsScheduling(t *testing.T) {
	zero := int64(0)
	toleratesAForNoTime := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &zero}
	tests := []struct {
		name        string
		taints      string
		tolerations []corev1.Toleration
		want        string // Empty: the pod can be scheduled.
	}{
		{"no taints", "", nil, ""},
		{"NoSchedule forbids", "a:NoSchedule", nil, "a:NoSchedule"},
		{"NoExecute forbids", "a:NoExecute", nil, "a:NoExecute"},
		{"PreferNoSchedule does not forbid", "a:PreferNoSchedule", nil, ""},
		{"the first in list order is named", "b:NoExecute a:NoSchedule", nil, "b:NoExecute"},
		{"a PreferNoSchedule taint is passed over", "c:PreferNoSchedule b:NoExecute a:NoSchedule", nil, "b:NoExecute"},
		{"a tolerated taint is passed over", "a:NoExecute b:NoSchedule", []corev1.Toleration{toleratesA}, "b:NoSchedule"},
		{"all are tolerated by key", "a:NoExecute a:NoSchedule", []corev1.Toleration{toleratesA}, ""},
		{"all are tolerated by one for everything", "a=1:NoExecute b:NoSchedule", []corev1.Toleration{toleratesAll}, ""},
		{"each is tolerated by another", "a:NoExecute a:NoSchedule", []corev1.Toleration{toleratesANoSchedule, toleratesANoExecute}, ""},
		{"tolerated for NoExecute only", "a:NoExecute a:NoSchedule", []corev1.Toleration{toleratesANoExecute}, "a:NoSchedule"},
		{"tolerated for PreferNoSchedule only", "a:NoSchedule", []corev1.Toleration{toleratesAPrefer}, "a:NoSchedule"},
		{"tolerated for zero seconds is tolerated", "a:NoExecute", []corev1.Toleration{toleratesAForNoTime}, ""},
		{"the value comes with it", "a=1:NoSchedule", []corev1.Toleration{{Key: "a", Value: "2"}}, "a=1:NoSchedule"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var want corev1.Taint
			if test.want != "" {
				want = taint(t, test.want)
			}
			got, found := defaults.Untolerated(list(t, test.taints), test.tolerations)
			if found != (test.want != "") {
				t.Errorf("found = %t", found)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("Gt counts only with the operators on", func(t *testing.T) {
		all, tolerations := list(t, "a=2:NoSchedule"), []corev1.Toleration{toleratesAGreaterThan1}
		if _, found := defaults.Untolerated(all, tolerations); !found {
			t.Error("off: the taint is tolerated")
		}
		if got, found := comparisons.Untolerated(all, tolerations); found {
			t.Errorf("on: %s is not tolerated", taints.Format(got))
		}
	})
}

func TestCountIntolerableCountsPreferNoScheduleOnly(t *testing.T) {
	tests := []struct {
		name        string
		taints      string
		tolerations []corev1.Toleration
		want        int
	}{
		{"no taints", "", nil, 0},
		{"other effects do not count", "a:NoSchedule b:NoExecute", nil, 0},
		{"each counts", "a:PreferNoSchedule c:NoExecute b:PreferNoSchedule", nil, 2},
		{"tolerated by a toleration without effect", "a:PreferNoSchedule b:PreferNoSchedule", []corev1.Toleration{toleratesA}, 1},
		{"tolerated by a toleration for PreferNoSchedule", "a:PreferNoSchedule b:PreferNoSchedule", []corev1.Toleration{toleratesAPrefer}, 1},
		{"a toleration for NoSchedule does not help", "a:PreferNoSchedule", []corev1.Toleration{toleratesANoSchedule}, 1},
		{"a toleration for every NoExecute does not help", "a:PreferNoSchedule", []corev1.Toleration{toleratesEveryNoExec}, 1},
		{"a toleration for every PreferNoSchedule", "a:PreferNoSchedule b=1:PreferNoSchedule", []corev1.Toleration{toleratesEveryPrefer}, 0},
		{"a toleration for everything", "a:PreferNoSchedule b=1:PreferNoSchedule", []corev1.Toleration{toleratesAll}, 0},
		{"another value", "a=1:PreferNoSchedule", []corev1.Toleration{{Key: "a", Value: "2"}}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := defaults.CountIntolerable(list(t, test.taints), test.tolerations); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
	t.Run("Gt counts only with the operators on", func(t *testing.T) {
		all, tolerations := list(t, "a=2:PreferNoSchedule"), []corev1.Toleration{toleratesAGreaterThan1}
		if got := defaults.CountIntolerable(all, tolerations); got != 1 {
			t.Errorf("off: %d, want 1", got)
		}
		if got := comparisons.CountIntolerable(all, tolerations); got != 0 {
			t.Errorf("on: %d, want 0", got)
		}
	})
}

func TestNormalizeGivesTheFewestMost(t *testing.T) {
	tests := []struct {
		name   string
		counts []int
		want   []int64
	}{
		{"no nodes", nil, []int64{}},
		{"one node without taints", []int{0}, []int64{100}},
		{"one node with taints", []int{3}, []int64{0}},
		{"all nodes without taints", []int{0, 0, 0}, []int64{100, 100, 100}},
		{"all nodes alike", []int{2, 2}, []int64{0, 0}},
		{"none, some and most", []int{0, 1, 2}, []int64{100, 50, 0}},
		{"the order of nodes is kept", []int{2, 0, 1}, []int64{0, 100, 50}},
		{"the share is rounded down, so the score is not", []int{1, 2, 3}, []int64{67, 34, 0}},
		{"one taint among very many", []int{1, 1000}, []int64{100, 0}},
		{"very many counts do not overflow", []int{1 << 50, 1 << 51}, []int64{50, 0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, taints.Normalize(test.counts)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNormalizeLeavesItsInputAlone(t *testing.T) {
	counts := []int{2, 1}
	taints.Normalize(counts)
	if diff := cmp.Diff([]int{2, 1}, counts); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestUnschedulableMessageIsTheSchedulers(t *testing.T) {
	if taints.UnschedulableMessage != "node(s) had untolerated taint(s)" {
		t.Errorf("%q differs from what the scheduler of Kubernetes 1.37 writes", taints.UnschedulableMessage)
	}
}
