// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// tenDue returns ten pods on a node with the taints k and other since an hour before noon, and a node for successors.
// The first pods are due at these instants, relative to noon, because of each; others tolerate it.
func tenDue(because map[string][]time.Duration) *state.Cluster {
	n := node("a", "n")
	cluster := &state.Cluster{Nodes: []*corev1.Node{n, node("a", "m")}}
	for i := range 10 {
		cluster.Pods = append(cluster.Pods, pod("n", "ReplicaSet", "web", fmt.Sprint("web-", i), 60))
	}
	for _, key := range []string{"k", "other"} {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
			Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(noon.Add(-time.Hour))),
		})
		for i, pod := range cluster.Pods {
			tolerates := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
			if dues := because[key]; i < len(dues) {
				tolerates.TolerationSeconds = new(int64((time.Hour + dues[i]).Seconds()) - 1) // the taint may have been added up to a second later
			}
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerates)
		}
	}
	return cluster
}

// courseOf returns the course without a change of taints.
func courseOf(t *testing.T, cluster *state.Cluster) *course.Outcome {
	t.Helper()
	outcome, err := course.Retaint(t.Context(), cluster, nil, course.Options{At: noon})
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// allowing returns a budget of all pods that allows some disruptions.
func allowing(disruptions int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MaxUnavailable: new(intstr.FromInt32(disruptions)),
		},
	}
}

func lasting(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestABreakerTripsWhenMoreWouldLeaveTogetherThanMay(t *testing.T) {
	resumed := metav1.NewTime(noon.Add(-time.Minute))
	const why = "3 of 10 selected pods would leave, and the breaker allows 2"
	hold := policyOf(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})
	hold.Name = "z"
	for name, test := range map[string]struct {
		dues    []time.Duration // relative to noon, which is now
		settle  time.Duration
		resumed *metav1.Time
		action  v1alpha1.EvictionAction // Delete if empty
		lasts   *metav1.Duration        // the action's deadline
		allowed int32                   // by the budget of all pods
		with    []*v1alpha1.EvictionPolicy
		trips   time.Duration // negative if never
	}{
		"exactly maxDue":               {dues: []time.Duration{0, 0}, settle: time.Second, trips: -1},
		"one more":                     {dues: []time.Duration{0, 0, 0, time.Minute}, settle: time.Second},
		"one more within settle":       {dues: []time.Duration{0, 4 * time.Second, 9 * time.Second}, settle: 10 * time.Second, trips: 9 * time.Second},
		"one more when others may go":  {dues: []time.Duration{0, 4 * time.Second, 10 * time.Second}, settle: 10 * time.Second, trips: 10 * time.Second},
		"one more when others went":    {dues: []time.Duration{0, 4 * time.Second, 11 * time.Second}, settle: 10 * time.Second, trips: -1},
		"at one instant, without one":  {dues: []time.Duration{time.Hour, time.Hour, time.Hour}, trips: time.Hour},
		"what is late is there still":  {dues: []time.Duration{-time.Hour, -time.Minute, 0}, settle: 2 * time.Hour},
		"what somebody resumed is not": {dues: []time.Duration{-time.Hour, -time.Hour, 0}, settle: time.Second, resumed: &resumed, trips: -1},
		"what the action holds does not count": {
			dues: []time.Duration{0, 3 * time.Second, 6 * time.Second}, settle: time.Second,
			action: v1alpha1.ActionHold, lasts: lasting(10 * time.Second), trips: -1,
		},
		"what the action holds counts from its deadline": {
			dues: []time.Duration{0, 0, 0}, settle: time.Second, action: v1alpha1.ActionHold, lasts: lasting(time.Minute), trips: time.Minute,
		},
		"what another policy holds does not count": {
			dues: []time.Duration{0, 0, 0}, settle: time.Second, with: []*v1alpha1.EvictionPolicy{hold}, trips: -1,
		},
		"of the pods of a budget it counts as many as may leave": {
			dues: []time.Duration{0, 0, 0}, settle: time.Second, action: v1alpha1.ActionEvict, allowed: 2, trips: -1,
		},
		"and if these are too many, it opens": {
			dues: []time.Duration{0, 0, 0, 0}, settle: time.Second, action: v1alpha1.ActionEvict, allowed: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := tenDue(map[string][]time.Duration{"k": test.dues})
			cluster.Policies = append(slices.Clone(test.with), policyOf(v1alpha1.EvictionPolicySpec{
				Action: cmp.Or(test.action, v1alpha1.ActionDelete), Deadline: test.lasts,
				Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromString("20%"), Settle: lasting(test.settle), ResumedAt: test.resumed},
			}))
			cluster.Budgets = []*policyv1.PodDisruptionBudget{allowing(test.allowed)}
			trip, trips := courseOf(t, cluster).Trips["p"]
			if test.trips < 0 {
				if trips {
					t.Errorf("it trips: %+v", trip)
				}
				return
			}
			if at := noon.Add(test.trips); !trip.TripsAt.Time.Equal(at) || trip.Trips != why {
				t.Errorf("it trips at %v: %q, want %v: %q", trip.TripsAt, trip.Trips, at, why)
			}
		})
	}
}

func TestABreakerDoesNotCountPodsThatHaveLeft(t *testing.T) {
	for name, test := range map[string]struct {
		others []time.Duration // when another taint makes the first pods due, after noon
		dues   []time.Duration // when the breaker's taint makes the pods due
		trips  time.Duration   // after noon; negative if never
	}{
		"they leave before its taint counts": {
			others: []time.Duration{0, 0}, dues: []time.Duration{time.Second, time.Second}, trips: -1,
		},
		"and do not hide that pods leave that it has counted": {
			others: []time.Duration{time.Second}, dues: []time.Duration{4 * time.Second, 0, 5 * time.Second}, trips: -1,
		},
		"it counts pods that leave at the same instant": {
			others: []time.Duration{time.Second, time.Second}, dues: []time.Duration{time.Second, time.Second}, trips: time.Second,
		},
		"it counts pods that leave later": {
			others: []time.Duration{time.Minute}, dues: []time.Duration{0, time.Second}, trips: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := tenDue(map[string][]time.Duration{"k": test.dues, "other": test.others})
			cluster.Policies = []*v1alpha1.EvictionPolicy{policyOf(v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionDelete, Taints: []v1alpha1.EvictionPolicyTaint{{Key: "k"}},
				Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(1), Settle: lasting(2 * time.Second)},
			})}
			trip, trips := courseOf(t, cluster).Trips["p"]
			if trips != (test.trips >= 0) || trips && !trip.TripsAt.Time.Equal(noon.Add(test.trips)) {
				t.Errorf("it trips at %v: %q, want %v after noon", trip.TripsAt, trip.Trips, test.trips)
			}
		})
	}
}

func TestAPaceThatIsUsedUpAtTheStartHasRoomAfterItsWindow(t *testing.T) {
	for reason, first := range map[string]time.Duration{"Pace": time.Minute, "Held": 0} {
		cluster := tenDue(map[string][]time.Duration{"k": {-time.Minute, -time.Minute, -time.Minute}})
		slowly := policyOf(v1alpha1.EvictionPolicySpec{
			Action: v1alpha1.ActionDelete, Pace: &v1alpha1.EvictionPace{Pods: 2, Per: metav1.Duration{Duration: time.Minute}},
		})
		slowly.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHolding, Status: metav1.ConditionTrue, Reason: reason}}
		cluster.Policies = []*v1alpha1.EvictionPolicy{slowly}
		var left []time.Duration
		for _, is := range courseOf(t, cluster).Pods {
			left = append(left, is.Leaves.Sub(noon))
		}
		slices.Sort(left)
		if want := []time.Duration{first, first, first + time.Minute}; !slices.Equal(left, want) {
			t.Errorf("holding because of %s: pods leave at %v, want %v", reason, left, want)
		}
	}
}
