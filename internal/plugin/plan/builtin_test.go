// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
)

// These are rows of the table in the README: what kube-controller-manager does is what a plan says where it evicts.

// many returns pods that tolerate nothing.
func many(number int) (pods []*corev1.Pod) {
	for i := range number {
		pods = append(pods, pod(fmt.Sprintf("p-%04d", i)))
	}
	return pods
}

// builtInEvicts returns a cluster in which kube-controller-manager evicts, whose leader has led for two hours.
func builtInEvicts(node *corev1.Node, pods ...*corev1.Pod) *state.Cluster {
	cluster := &state.Cluster{Nodes: []*corev1.Node{node}, Pods: pods}
	return statetest.BuiltInEvicts(cluster, now.Add(-2*time.Hour), now)
}

// addedAgo returns a node whose first taint was added some time ago.
func addedAgo(node *corev1.Node, ago time.Duration) *corev1.Node {
	node.Spec.Taints[0].TimeAdded = new(metav1.NewTime(now.Add(-ago)))
	return node
}

func TestWhereKubeControllerManagerEvictsAThousandPodsWaitForItsQueue(t *testing.T) {
	const measuredFirst, measuredLast = 59 * time.Second, 149 * time.Second
	made := planFor(t, builtInEvicts(node("n"), many(1000)...), "k:NoExecute")
	if made.EvictedBy != cliv1alpha1.WhoBuiltIn || made.Summary.Leave != 1000 || made.Summary.AtOnce != 0 {
		t.Errorf("evicted by %q: %+v", made.EvictedBy, made.Summary)
	}
	first, last := made.Pods[0].Due.Sub(now), made.Pods[999].Due.Sub(now)
	if (first-measuredFirst).Abs() > measuredFirst/10 || (last-measuredLast).Abs() > measuredLast/10 {
		t.Errorf("the first leaves after %v, the last after %v; measured were %v and %v", first, last, measuredFirst, measuredLast)
	}
	if got, want := show.Answer(made), "1000 of 1000 pods on 1 node leave, the last in 2m28s. kube-controller-manager evicts here, not Taintkeeper."; got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
	if want := "With Taintkeeper it would be different for 1000 pods: 1000 would leave earlier."; !slices.Contains(made.Notes, want) {
		t.Errorf("the notes are %q, want %q", made.Notes, want)
	}
}

func TestWhereKubeControllerManagerEvictsPodsThatWaitAreDeletedAfterAnUntaint(t *testing.T) {
	tainted := addedAgo(node("n", "k:NoExecute"), 2*time.Second)
	made := planFor(t, builtInEvicts(tainted, append(many(200), pod("stays", tolerating("k", 60)))...), "k-")
	if made.Summary.Leave != 200 || made.Summary.Changed != 1 {
		t.Errorf("the plan is %+v, want that 200 pods are deleted and one is saved", made.Summary)
	}
	for _, want := range []string{
		"kube-controller-manager has begun to evict 200 pods that could stay, and deletes them nevertheless: removing a taint does not stop an eviction that waits in its queue.",
		"With Taintkeeper it would be different for 200 pods: 200 would stay.",
	} {
		if !slices.Contains(made.Notes, want) {
			t.Errorf("the notes are %q, want %q", made.Notes, want)
		}
	}
}

func TestWhereKubeControllerManagerEvictsItsTimersDecide(t *testing.T) {
	tenSecondsAgo := func() *corev1.Node { return addedAgo(node("n", "one=1:NoExecute"), 10*time.Second) }
	both := pod("p", tolerating("one", 120), tolerating("two", 4))
	held := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "hold"}, Spec: v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}}
	for name, test := range map[string]struct {
		cluster *state.Cluster
		specs   []string
		after   time.Duration // from now; -1 means that it stays
		note    string
	}{
		"a second taint that is tolerated for less is ignored": {
			builtInEvicts(tenSecondsAgo(), both), []string{"two=1:NoExecute"}, 110750 * time.Millisecond,
			"With Taintkeeper it would be different for 1 pod: 1 would leave earlier.",
		},
		"a second taint that is not tolerated is not": {
			builtInEvicts(tenSecondsAgo(), both), []string{"three:NoExecute"}, 0, "",
		},
		"a removal of the shorter taint postpones nothing": {
			builtInEvicts(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
				tenSecondsAgo().Spec.Taints[0], {Key: "two", Effect: corev1.TaintEffectNoExecute, TimeAdded: tenSecondsAgo().Spec.Taints[0].TimeAdded},
			}}}, pod("p", tolerating("one", 120), tolerating("two", 60))),
			[]string{"two-"}, 50750 * time.Millisecond, "With Taintkeeper it would be different for 1 pod: 1 would leave later.",
		},
		"a countdown begins again with a new leader": {
			statetest.BuiltInEvicts(&state.Cluster{Nodes: []*corev1.Node{tenSecondsAgo()}, Pods: []*corev1.Pod{both}}, now.Add(-time.Second), now),
			[]string{"other:NoSchedule"}, 119 * time.Second, "With Taintkeeper it would be different for 1 pod: 1 would leave earlier.",
		},
		"an eviction that failed long ago is forgotten": {builtInEvicts(node("n", "k:NoExecute"), pod("p")), []string{"k-"}, -1, ""},
		"until the next change":                         {builtInEvicts(node("n", "k:NoExecute"), pod("p")), []string{"other:NoExecute"}, 0, ""},
		"an untaint in time saves it":                   {builtInEvicts(tenSecondsAgo(), both), []string{"one-"}, -1, ""},
		"EvictionPolicies hold nothing": {
			statetest.BuiltInEvicts(&state.Cluster{Nodes: []*corev1.Node{node("n")}, Pods: []*corev1.Pod{both}, Policies: []*v1alpha1.EvictionPolicy{held}}, now, now),
			[]string{"k:NoExecute"}, 0, "Taintkeeper is not running, or runs without leader election, so EvictionPolicies hold no pod, except those with ifDown: Hold, if the admission policy taintkeeper-held is in force. kube-controller-manager evicts due pods, by its own rule.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			made := planFor(t, test.cluster, test.specs...)
			is := made.Pods[0]
			if is.Leaves != (test.after >= 0) || is.Leaves && is.Due.Sub(now) != test.after || is.Answer != nil {
				t.Errorf("it leaves: %t, at %v, %+v; want after %v", is.Leaves, is.Due, is.Answer, test.after)
			}
			if test.note != "" && !slices.Contains(made.Notes, test.note) {
				t.Errorf("the notes are %q, want %q", made.Notes, test.note)
			}
		})
	}
}

// If somebody else evicts, or if that is not known, the answer is Taintkeeper's.
func TestTaintkeepersRuleDecidesUnlessKubeControllerManagerEvictsAlone(t *testing.T) {
	for _, by := range []cliv1alpha1.Who{"", cliv1alpha1.WhoUnknown, cliv1alpha1.WhoTaintkeeper, cliv1alpha1.WhoBoth, cliv1alpha1.WhoNobody} {
		made := planFor(t, &state.Cluster{
			Evictor: state.Evictor{Who: by}, Nodes: []*corev1.Node{addedAgo(node("n", "one=1:NoExecute"), 10*time.Second)},
			Pods: []*corev1.Pod{pod("p", tolerating("one", 120), tolerating("two", 4))},
		}, "two=1:NoExecute")
		if got := made.Pods[0].Due.Sub(now); got != 4*time.Second || len(made.Notes) > 0 {
			t.Errorf("%s: it leaves after %v, and the notes are %q", by, got, made.Notes)
		}
	}
}
