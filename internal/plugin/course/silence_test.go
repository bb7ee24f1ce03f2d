// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
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
)

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
