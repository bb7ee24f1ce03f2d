// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/course"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

const (
	notReady    = corev1.TaintNodeNotReady
	unreachable = corev1.TaintNodeUnreachable
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

func reporting(status corev1.ConditionStatus, node *corev1.Node) *corev1.Node {
	node.Status.Conditions[0].Status = status
	return node
}

// tolerating returns a pod on node n that tolerates keys for some seconds, or indefinitely if these are negative.
func tolerating(seconds map[string]int64) *corev1.Pod {
	is := pod("n", "ReplicaSet", "web", "p", 0)
	is.Spec.Tolerations = nil
	for key, seconds := range seconds {
		toleration := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if seconds >= 0 {
			toleration.TolerationSeconds = &seconds
		}
		is.Spec.Tolerations = append(is.Spec.Tolerations, toleration)
	}
	return is
}

func TestPodsOfASilentNodeLeaveAsLongAfterItsTaintAsTheyTolerateIt(t *testing.T) {
	const second, stays = time.Second, -1
	for name, test := range map[string]struct {
		node  *corev1.Node
		pod   *corev1.Pod
		after time.Duration
	}{
		"nothing tolerates it":         {node("b", "n"), tolerating(nil), 50 * second},
		"it is tolerated for a while":  {node("b", "n"), tolerating(map[string]int64{unreachable: 300}), 350 * second},
		"it is tolerated indefinitely": {node("b", "n"), tolerating(map[string]int64{unreachable: -1}), stays},
		"another taint is earlier": {
			tainted(node("b", "n"), "k"), tolerating(map[string]int64{"k": 3620, unreachable: 300}), 21 * second,
		},
		"another taint is overdue": {tainted(node("b", "n"), "k"), tolerating(map[string]int64{"k": 60, unreachable: 300}), 0},
		"not-ready has begun its countdown, which goes on": {
			reporting(corev1.ConditionFalse, tainted(node("b", "n"), notReady)),
			tolerating(map[string]int64{notReady: 5400, unreachable: 5400}), 1801 * second,
		},
		"not-ready is tolerated, and unreachable is not": {
			reporting(corev1.ConditionFalse, tainted(node("b", "n"), notReady)), tolerating(map[string]int64{notReady: -1}), 50 * second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &state.Cluster{
				Nodes: []*corev1.Node{node("a", "x"), node("a", "y"), test.node}, Pods: []*corev1.Pod{test.pod},
			}
			left := time.Duration(stays)
			for _, told := range silent(t, cluster, time.Hour, test.node).Pods {
				if told.LeavesAt != nil && told.UID == test.pod.UID {
					left = told.LeavesAt.Duration
				}
			}
			if left != test.after {
				t.Errorf("it leaves after %s, want %s", left, test.after)
			}
		})
	}
}

func TestTheNodesOfASilentZoneAreTaintedAtItsRate(t *testing.T) {
	cluster := small()
	cluster.Nodes = append(cluster.Nodes, node("b", "b4"))
	report := silent(t, cluster, 10*time.Minute, cluster.Nodes[2:4]...)
	for i, want := range []time.Duration{50 * time.Second, time.Minute} {
		told := report.Nodes[i]
		all := slices.DeleteFunc(told.Steps, func(step cliv1alpha1.SimulatedTaints) bool {
			return !slices.Contains(step.Taints, unreachable+":NoExecute")
		})
		if told.UnreachableAt.Duration != 50*time.Second || len(all) != 1 || all[0].At.Round(10*time.Millisecond) != want || told.Held != "" {
			t.Errorf("node %s is unreachable after %s, tainted %+v and held back by %q; want it to be tainted after %s",
				told.Name, told.UnreachableAt, all, told.Held, want)
		}
	}
	if report.Until.Duration != 20*time.Minute {
		t.Errorf("the simulation ends after %s, want 20m", report.Until.Duration)
	}
}

func TestAReportSaysWhyANodeIsNotTaintedAlsoIfItIsBack(t *testing.T) {
	cluster := &state.Cluster{Nodes: []*corev1.Node{node("a", "x"), node("b", "b1"), node("b", "b2"), node("b", "b3"), node("b", "b4")}}
	report := silent(t, cluster, 10*time.Minute, cluster.Nodes[1:4]...)
	if report.Summary.Tainted != 0 || len(report.Nodes) != 3 {
		t.Errorf("%d nodes are tainted NoExecute, and the report has %+v", report.Summary.Tainted, report.Nodes)
	}
	for _, told := range report.Nodes {
		if want := "zone /b has the state PartialDisruption (3 of 4 nodes not ready), in which no node is tainted"; told.Held != want {
			t.Errorf("node %s is held back by %q, want %q", told.Name, told.Held, want)
		}
	}
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

func TestPodsThatAreDueBeforeEveryZoneIsDisruptedLeaveAndTheOthersStay(t *testing.T) {
	m, n := node("b", "m"), reporting(corev1.ConditionFalse, tainted(node("b", "n"), notReady))
	soon, late := tolerating(map[string]int64{notReady: 3620, unreachable: 3620}), tolerating(map[string]int64{notReady: 3700, unreachable: 3700})
	soon.Name, soon.UID, late.Name, late.UID = "soon", "soon", "late", "late"
	report := silent(t, &state.Cluster{Nodes: []*corev1.Node{m, n}, Pods: []*corev1.Pod{soon, late}}, 10*time.Minute, m)
	var left []string
	for _, told := range report.Pods {
		if told.LeavesAt != nil {
			left = append(left, told.Name)
		}
	}
	if diff := cmp.Diff([]string{"soon"}, left); diff != "" {
		t.Errorf("other pods leave (-want +got):\n%s", diff)
	}
	if held := report.Nodes[0].Held; !strings.Contains(held, "every zone is fully disrupted") {
		t.Errorf("m is held back by %q", held)
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
		cluster := small(tolerating(nil), pod("a1", "ReplicaSet", "web", "healthy", 300))
		cluster.Pods[0].Spec.NodeName = "b1"
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

func TestAHoldOfASilentNodeBeginsWhenItsPodsAreDue(t *testing.T) {
	cluster := small(pod("b1", "ReplicaSet", "web", "p", 300))
	cluster.Policies = []*v1alpha1.EvictionPolicy{policyOf(v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionHold, Deadline: &metav1.Duration{Duration: time.Minute},
		Taints: []v1alpha1.EvictionPolicyTaint{{Key: unreachable}},
	})}
	told := silent(t, cluster, 10*time.Minute, cluster.Nodes[2]).Pods[0]
	if want := (50 + 300 + 60) * time.Second; told.LeavesAt == nil || told.LeavesAt.Duration != want {
		t.Errorf("the pod is %+v, want it to leave after %s", told, want)
	}
}

func TestPodsThatNothingReplacesAndLocalDataAreLosses(t *testing.T) {
	bare, web := pod("b1", "", "", "bare", 60), pod("b1", "ReplicaSet", "web", "web", 60)
	bare.OwnerReferences = nil
	web.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	cluster := small(bare, web, pod("a1", "ReplicaSet", "web", "other", 60))
	report := silent(t, cluster, 10*time.Minute, cluster.Nodes[2])
	if report.Summary.PodsLost != 1 || report.Summary.LocalData != 1 {
		t.Errorf("the summary is %+v", report.Summary)
	}
	for _, told := range report.Pods {
		if told.UID != "" && (told.Lost != (told.Name == "bare") || told.LocalData != (told.Name == "web")) {
			t.Errorf("pod %s is lost: %t, and loses data: %t", told.Name, told.Lost, told.LocalData)
		}
	}
}
