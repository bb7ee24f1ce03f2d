// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
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

// silent plays nodes that give no sign of life for some time.
func silent(t *testing.T, cluster *state.Cluster, lasts time.Duration, nodes ...*corev1.Node) *cliv1alpha1.SimulationReport {
	t.Helper()
	report, err := course.Play(t.Context(), cluster, course.Silence(nodes, lasts), course.Options{
		At: noon, Grace: grace, Policy: rates, StartDelay: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// tainted gives a node NoExecute taints that were added an hour ago.
func tainted(node *corev1.Node, keys ...string) *corev1.Node {
	for _, key := range keys {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(noon.Add(-time.Hour))),
		})
	}
	return node
}

func TestTheGracePeriodOfASilentNodeBeginsWithItsLastRenewal(t *testing.T) {
	for name, test := range map[string]struct {
		renewed map[string]time.Time
		silent  time.Duration // from now
		bound   bool          // the notes say that it is one
	}{
		"seven seconds ago":             {map[string]time.Time{"b1": noon.Add(-7 * time.Second)}, 43 * time.Second, false},
		"longer ago than it may":        {map[string]time.Time{"b1": noon.Add(-2 * time.Minute)}, 0, false},
		"by a kubelet that is ahead":    {map[string]time.Time{"b1": noon.Add(time.Second)}, 50 * time.Second, false},
		"it is not known when":          {nil, 50 * time.Second, true},
		"it is known of another node":   {map[string]time.Time{"b2": noon}, 50 * time.Second, true},
		"it has renewed it this second": {map[string]time.Time{"b1": noon}, 50 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := small()
			cluster.Renewed = test.renewed
			report := silent(t, cluster, 10*time.Minute, cluster.Nodes[2])
			if got := report.Nodes[0].UnreachableAt.Duration; got != test.silent {
				t.Errorf("it is unreachable after %s, want %s", got, test.silent)
			}
			if got := strings.Contains(strings.Join(report.Notes, "\n"), "up to 10s earlier"); got != test.bound {
				t.Errorf("the notes are %q, want one that it is a bound: %t", report.Notes, test.bound)
			}
		})
	}
}

// A budget that has as many healthy pods as it asks for, or more, spares no pod that is not ready: that of a silent node.
func TestPoliciesTreatPodsOfSilentNodesAsUnready(t *testing.T) {
	for _, test := range []struct {
		unready           v1alpha1.UnreadyPods
		unavailable, left int
	}{
		{v1alpha1.UnreadyDelete, 0, 1}, {v1alpha1.UnreadyAsk, 0, 0}, {v1alpha1.UnreadyAsk, 1, 1},
	} {
		cluster := small(pod("b1", "ReplicaSet", "web", "p", 0), pod("a1", "ReplicaSet", "web", "healthy", 300))
		cluster.Budgets = append(cluster.Budgets, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				MaxUnavailable: new(intstr.FromInt32(int32(test.unavailable))),
			},
		})
		cluster.Policies = []*v1alpha1.EvictionPolicy{policyOf(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Unready: test.unready})}
		if got := silent(t, cluster, 10*time.Minute, cluster.Nodes[2]).Summary.Left; got != test.left {
			t.Errorf("%+v: %d pods leave", test, got)
		}
	}
}

// These are rows of the table in the README: what kube-controller-manager does is what a simulation plays where it
// evicts.

// evictedByBuiltIn returns a node with pods, and one for successors, where kube-controller-manager evicts.
func evictedByBuiltIn(pods int, change ...func(*corev1.Pod)) *state.Cluster {
	cluster := &state.Cluster{Nodes: []*corev1.Node{node("a", "node"), node("a", "m")}}
	for i := range pods {
		p := pod("node", "ReplicaSet", "web", fmt.Sprintf("web-%04d", i), 60)
		for _, change := range change {
			change(p)
		}
		cluster.Pods = append(cluster.Pods, p)
	}
	return statetest.BuiltInEvicts(cluster, noon.Add(-time.Hour), noon)
}

const tainting = "{at: 0s, taint: {nodes: [node], taints: ['k:NoExecute']}}"

// leaveAt returns when pods leave, soonest first.
func leaveAt(report *cliv1alpha1.SimulationReport) (all []time.Duration) {
	for _, pod := range report.Pods {
		if pod.LeavesAt != nil {
			all = append(all, pod.LeavesAt.Duration)
		}
	}
	slices.Sort(all)
	return all
}

func noted(t *testing.T, report *cliv1alpha1.SimulationReport, want string) {
	t.Helper()
	if !slices.Contains(report.Notes, want) {
		t.Errorf("the notes are %q, want %q", report.Notes, want)
	}
}

func TestWhereKubeControllerManagerEvictsItsTimersDecide(t *testing.T) {
	both := []func(*corev1.Pod){statetest.Tolerating("k", 120), statetest.Tolerating("two", 4)}
	for name, test := range map[string]struct {
		steps []string
		leave []time.Duration
		note  string
	}{
		"a second taint that is tolerated for less is ignored": {
			[]string{tainting, "{at: 10s, taint: {nodes: [node], taints: ['two:NoExecute']}}"}, []time.Duration{2 * time.Minute},
			"With Taintkeeper it would be different for 1 pod: 1 would leave earlier.",
		},
		"an untaint in time saves it": {[]string{tainting, "{at: 119s, taint: {nodes: [node], taints: ['k-']}}"}, nil, ""},
		"a new leader, after an outage, begins the countdown again": {
			[]string{tainting, "{at: 60s, apiServerDown: 30s}"}, []time.Duration{210 * time.Second},
			"With Taintkeeper it would be different for 1 pod: 1 would leave earlier.",
		},
		"a leader outlives a short outage": {[]string{tainting, "{at: 60s, apiServerDown: 9s}"}, []time.Duration{2 * time.Minute}, ""},
		"a delete that falls into one is forgotten": {
			[]string{tainting, "{at: 115s, apiServerDown: 9s}"}, nil, "With Taintkeeper it would be different for 1 pod: 1 would leave.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := play(t, evictedByBuiltIn(1, both...), test.steps...)
			if got := leaveAt(report); !slices.Equal(got, test.leave) {
				t.Errorf("pods leave at %v, want %v", got, test.leave)
			}
			if test.note != "" {
				noted(t, report, test.note)
			}
		})
	}
}
