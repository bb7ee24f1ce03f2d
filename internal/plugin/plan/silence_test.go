// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

const (
	notReady    = corev1.TaintNodeNotReady
	unreachable = corev1.TaintNodeUnreachable
)

// reporting returns a node whose kubelet says whether it is ready.
func reporting(name string, ready corev1.ConditionStatus, specs ...string) *corev1.Node {
	node := node(name, specs...)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return node
}

// silent returns the plan for the nodes of a zone that become silent just after they renewed their Leases, with the
// controller's defaults. There are nodes in another zone.
func silent(pods []*corev1.Pod, nodes ...*corev1.Node) *cliv1alpha1.TaintPlan {
	renewed := map[string]time.Time{}
	for _, node := range nodes {
		renewed[node.Name] = now
	}
	return silentIn(&state.Cluster{Pods: pods, Renewed: renewed}, nodes...)
}

// silentIn is like silent, in a cluster with other objects.
func silentIn(cluster *state.Cluster, nodes ...*corev1.Node) *cliv1alpha1.TaintPlan {
	cluster.Nodes = append([]*corev1.Node{
		reporting("x", corev1.ConditionTrue), reporting("y", corev1.ConditionTrue), reporting("z", corev1.ConditionTrue),
	}, nodes...)
	return plan.MakeSilent(cluster, plan.Silence{
		Nodes: nodes, At: now,
		Grace: readiness.Grace{Monitor: 50 * time.Second, Startup: time.Minute},
		Policy: readiness.Policy{
			Rate: 0.1, SecondaryRate: 0.01, FullDisruptionRate: 0.1, LargeZone: 50, UnhealthyShare: 0.55,
		},
	})
}

func TestPodsOfASilentNodeLeaveAsLongAfterItsTaintAsTheyTolerateIt(t *testing.T) {
	for name, test := range map[string]struct {
		node   *corev1.Node
		pod    *corev1.Pod
		after  time.Duration // from now; -1 means that it stays
		change cliv1alpha1.Change
	}{
		"nothing tolerates it": {
			reporting("n", corev1.ConditionTrue), pod("p"), 50 * time.Second, cliv1alpha1.ChangeLeaves,
		},
		"it is tolerated for a while": {
			reporting("n", corev1.ConditionTrue), pod("p", tolerating(unreachable, 300)), 350 * time.Second, cliv1alpha1.ChangeLeaves,
		},
		"it is tolerated indefinitely": {
			reporting("n", corev1.ConditionTrue), pod("p", tolerating(unreachable)), -1, cliv1alpha1.ChangeNone,
		},
		"another taint is earlier": {
			reporting("n", corev1.ConditionTrue, "k:NoExecute"), pod("p", tolerating("k", 3620), tolerating(unreachable, 300)),
			20*time.Second + 750*time.Millisecond, cliv1alpha1.ChangeNone,
		},
		"not-ready has begun its countdown, which goes on": {
			reporting("n", corev1.ConditionFalse, notReady+":NoExecute"),
			pod("p", tolerating(notReady, 7200), tolerating(unreachable, 7200)), time.Hour + 750*time.Millisecond, cliv1alpha1.ChangeNone,
		},
		"not-ready is tolerated, and unreachable is not": {
			reporting("n", corev1.ConditionFalse, notReady+":NoExecute"),
			pod("p", tolerating(notReady)), 50 * time.Second, cliv1alpha1.ChangeLeaves,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := silent([]*corev1.Pod{test.pod}, test.node).Pods[0]
			if got.Change != test.change {
				t.Errorf("the change is %q, want %q", got.Change, test.change)
			}
			switch {
			case test.after < 0:
				if got.Leaves {
					t.Errorf("it leaves at %v, want it to stay", got.Due)
				}
			case !got.Leaves || !got.Due.Time.Equal(now.Add(test.after)):
				t.Errorf("it leaves: %t, at %v; want at %v", got.Leaves, got.Due, now.Add(test.after))
			}
		})
	}
}

func TestAPlanOfSilentNodesSaysWhenEachIsTaintedOrWhyNot(t *testing.T) {
	ready := func(name, zone string) *corev1.Node {
		node := reporting(name, corev1.ConditionTrue)
		node.Labels = map[string]string{corev1.LabelTopologyZone: zone}
		return node
	}
	made := silent(nil, ready("a", "1"), ready("b", "1"), ready("c", "2"))
	after := func(span time.Duration) *metav1.MicroTime {
		at := metav1.NewMicroTime(now.Add(span))
		return &at
	}
	for i, want := range []*metav1.MicroTime{after(50 * time.Second), after(time.Minute), after(50 * time.Second)} {
		node := made.Nodes[i]
		if !node.SilentAt.Equal(after(50*time.Second)) || node.TaintedAt == nil || node.TaintedAt.Sub(want.Time).Abs() > 10*time.Millisecond || node.Held != "" {
			t.Errorf("node %s is silent at %v, tainted at %v and held back by %q; want it to be tainted at %v", node.Name, node.SilentAt, node.TaintedAt, node.Held, want)
		}
		if got, last := strings.Join(node.After, ","), node.Steps[len(node.Steps)-1].Taints; got != strings.Join(last, ",") || len(last) != 2 {
			t.Errorf("node %s has the taints %s in the end, and its last step says %s", node.Name, got, last)
		}
	}
	if !made.Silent || len(made.Taints) != 0 || made.Summary.Held != 0 {
		t.Errorf("the plan is %+v", made)
	}
}

func TestTheGracePeriodOfASilentNodeBeginsWithItsLastRenewal(t *testing.T) {
	for name, test := range map[string]struct {
		renewed map[string]time.Time
		silent  time.Duration // from now
		bound   bool          // the notes say that it is one
	}{
		"seven seconds ago":             {map[string]time.Time{"a": now.Add(-7 * time.Second)}, 43 * time.Second, false},
		"longer ago than it may":        {map[string]time.Time{"a": now.Add(-2 * time.Minute)}, 0, false},
		"by a kubelet that is ahead":    {map[string]time.Time{"a": now.Add(time.Second)}, 50 * time.Second, false},
		"it is not known when":          {nil, 50 * time.Second, true},
		"it is known of another node":   {map[string]time.Time{"b": now}, 50 * time.Second, true},
		"it has renewed it this second": {map[string]time.Time{"a": now}, 50 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			made := silentIn(&state.Cluster{Renewed: test.renewed}, reporting("a", corev1.ConditionTrue))
			if got := made.Nodes[0].SilentAt.Sub(now); got != test.silent {
				t.Errorf("it is silent after %s, want %s", got, test.silent)
			}
			if got := strings.Contains(strings.Join(made.Notes, "\n"), "up to 10s earlier"); got != test.bound {
				t.Errorf("the notes are %q, want one that it is a bound: %t", made.Notes, test.bound)
			}
		})
	}
}

func TestPodsThatAreDueBeforeEveryZoneIsDisruptedLeaveAndTheOthersStay(t *testing.T) {
	nodes := []*corev1.Node{reporting("m", corev1.ConditionTrue), reporting("n", corev1.ConditionFalse, notReady+":NoExecute")}
	soon, late := pod("soon", tolerating(notReady, 3620)), pod("late", tolerating(notReady, 3700))
	made := plan.MakeSilent(&state.Cluster{Nodes: nodes, Pods: []*corev1.Pod{soon, late}}, plan.Silence{
		Nodes: nodes, At: now, Grace: readiness.Grace{Monitor: 50 * time.Second},
	})
	if got := made.Pods[0]; got.Name != "soon" || !got.Leaves || got.Change != cliv1alpha1.ChangeNone {
		t.Errorf("the first is %+v, want soon to leave as it does anyway", got)
	}
	if got := made.Pods[1]; got.Name != "late" || got.Leaves || got.Change != cliv1alpha1.ChangeStays {
		t.Errorf("the second is %+v, want late to stay: the taint is taken off before it is due", got)
	}
	if made.Nodes[0].TaintedAt != nil {
		t.Errorf("m is tainted NoExecute at %v, want never", made.Nodes[0].TaintedAt)
	}
	if made.Summary.Held != 2 || !strings.Contains(made.Nodes[1].Held, "every zone is fully disrupted") {
		t.Errorf("%d nodes are held back, n by %q", made.Summary.Held, made.Nodes[1].Held)
	}
}

func TestAPlanOfSilentNodesNamesOthersWhoseTaintsChangeMeanwhile(t *testing.T) {
	waiting := reporting("w", corev1.ConditionFalse)
	nodes := []*corev1.Node{reporting("m", corev1.ConditionTrue), reporting("n", corev1.ConditionTrue), waiting, node("o")}
	made := plan.MakeSilent(&state.Cluster{Nodes: nodes}, plan.Silence{
		Nodes: []*corev1.Node{nodes[0], nodes[3]}, At: now,
		Grace:  readiness.Grace{Monitor: 50 * time.Second, Startup: time.Minute},
		Policy: readiness.Policy{Rate: 0.1, UnhealthyShare: 0.55},
	})
	if notes := strings.Join(made.Notes, "\n"); !strings.Contains(notes, "get or lose taints: w.") || !strings.Contains(notes, "No Ready condition is known for o.") {
		t.Errorf("the notes are\n%s", notes)
	}
	if len(made.Nodes) != 2 || made.Nodes[0].Name != "m" || made.Nodes[1].Name != "o" {
		t.Errorf("the nodes are %+v, want only those that become silent", made.Nodes)
	}
}

func TestThePlanOfSilentNodesNotesWhatItCannotKnowAndNothingElse(t *testing.T) {
	together := "2 nodes become Unknown at the same instant"
	stuck := "A pod that leaves a silent node is deleted, but stays Terminating"
	a, b := reporting("a", corev1.ConditionTrue), reporting("b", corev1.ConditionTrue)
	n, away := reporting("n", corev1.ConditionTrue), reporting("away", corev1.ConditionUnknown)
	for name, test := range map[string]struct {
		nodes []*corev1.Node
		want  []string
	}{
		"one node without pods":        {[]*corev1.Node{a}, nil},
		"two at once":                  {[]*corev1.Node{a, b}, []string{together}},
		"one and one that was Unknown": {[]*corev1.Node{a, away}, nil},
		"a node with a pod":            {[]*corev1.Node{n}, []string{stuck}},
		"both":                         {[]*corev1.Node{n, a}, []string{together, stuck}},
	} {
		t.Run(name, func(t *testing.T) {
			got := silent([]*corev1.Pod{pod("p")}, test.nodes...).Notes
			if !slices.EqualFunc(got, test.want, strings.HasPrefix) {
				t.Errorf("the notes are %q, want %q", got, test.want)
			}
		})
	}
}

// Nodes that are ready, or whose taints stay the same, are not listed.
func TestAPlanOfSilentNodesNamesNoOthersWhoseTaintsStay(t *testing.T) {
	recovered := reporting("recovered", corev1.ConditionTrue, notReady+":NoExecute")
	tainted := reporting("tainted", corev1.ConditionFalse, notReady+":NoExecute", notReady+":NoSchedule")
	nodes := []*corev1.Node{recovered, tainted, reporting("n", corev1.ConditionTrue), reporting("x", corev1.ConditionTrue)}
	made := plan.MakeSilent(&state.Cluster{Nodes: nodes, Renewed: map[string]time.Time{"n": now}}, plan.Silence{
		Nodes: nodes[2:3], At: now, Grace: readiness.Grace{Monitor: 50 * time.Second}, Policy: readiness.Policy{Rate: 0.1, UnhealthyShare: 0.55},
	})
	if len(made.Notes) != 0 {
		t.Errorf("the notes are %q, want none", made.Notes)
	}
}

func TestAPodThatIsOverdueAlreadyIsDueAsItWas(t *testing.T) {
	got := silent([]*corev1.Pod{pod("p", tolerating("k", 60))}, reporting("n", corev1.ConditionTrue, "k:NoExecute")).Pods[0]
	if want := now.Add(750*time.Millisecond - 59*time.Minute); !got.Due.Time.Equal(want) || got.Change != cliv1alpha1.ChangeNone {
		t.Errorf("it is due at %v (%s), want %v", got.Due, got.Change, want)
	}
}

func TestPoliciesTreatPodsOfSilentNodesAsUnready(t *testing.T) {
	for unready, says := range map[v1alpha1.UnreadyPods]cliv1alpha1.PolicyStep{
		v1alpha1.UnreadyDelete: cliv1alpha1.PolicyFree, v1alpha1.UnreadyAsk: cliv1alpha1.PolicyAsk,
	} {
		cluster := &state.Cluster{Pods: []*corev1.Pod{pod("p")}, Policies: []*v1alpha1.EvictionPolicy{
			policyOf("ask", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict, Unready: unready}),
		}}
		got := silentIn(cluster, reporting("n", corev1.ConditionTrue)).Pods[0].Answer
		if got == nil || got.Says != says {
			t.Errorf("unready: %s: the answer is %+v, want %s", unready, got, says)
		}
	}
}
