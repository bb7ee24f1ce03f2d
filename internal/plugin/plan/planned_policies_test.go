// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

func policyOf(name string, spec v1alpha1.EvictionPolicySpec) *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func podsOn(node string, number int) (all []*corev1.Pod) {
	for i := range number {
		all = append(all, pod(fmt.Sprintf("%s-%d", node, i), on(node)))
	}
	return all
}

func TestAPlanSaysWhatAResumeLetsGoAndWhatIsThenDeletedWithoutAsking(t *testing.T) {
	labeled := func(app string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} }
	}
	ready := node("n")
	ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	cluster := &state.Cluster{
		Nodes: []*corev1.Node{ready}, Pods: []*corev1.Pod{pod("web", labeled("web")), pod("api", labeled("api"), tolerating("k", 30)), pod("mail")},
		Policies: []*v1alpha1.EvictionPolicy{
			policyOf("pause", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Paused: new("network")}),
			policyOf("respect", v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionEvict, Deadline: &metav1.Duration{Duration: time.Minute},
				PodSelector: &v1alpha1.Selector{MatchExpressions: []v1alpha1.SelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}},
			}),
		},
	}
	made := planFor(t, cluster, "k:NoExecute")
	want := cliv1alpha1.PlannedResume{
		Pods: 3, Leave: 3, Asked: 2, Late: 2, LateFrom: metav1.Duration{Duration: time.Minute}, LateTo: metav1.Duration{Duration: 90 * time.Second},
	}
	if made.Resumed == nil || *made.Resumed != want {
		t.Errorf("after a resume: %+v, want %+v", made.Resumed, want)
	}
	const says = "Pauses and open breakers keep 3 pods: 'kubectl taintkeeper resume --all' lets 3 leave. " +
		"The Eviction API is asked about 2 of them first. 2 are deleted without asking if still there 1m to 1m30s later."
	if lines := show.Policies(made); !slices.Contains(lines, says) {
		t.Errorf("the plan says %q, want %q", lines, says)
	}
	cluster.Policies = cluster.Policies[1:]
	if made := planFor(t, cluster, "k:NoExecute"); made.Resumed != nil {
		t.Errorf("without a pause, the plan says that after a resume: %+v", made.Resumed)
	}
}

func TestNoPolicyHoldsPodsThatTheDaemonSetControllerDeletes(t *testing.T) {
	daemon := func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		held bool
	}{
		"that do not tolerate the taint": {pod("p", daemon), false},
		"but one that tolerates it for some time": {pod("p", daemon, tolerating("k"), func(pod *corev1.Pod) {
			pod.Spec.Tolerations[0].TolerationSeconds = new(int64(60))
			pod.Spec.Tolerations[0].Effect = corev1.TaintEffectNoExecute
		}), true},
		"but one of another controller": {pod("p"), true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &state.Cluster{
				Nodes: []*corev1.Node{node("n")}, Pods: []*corev1.Pod{test.pod},
				Policies: []*v1alpha1.EvictionPolicy{policyOf("all", v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})},
			}
			made := planFor(t, cluster, "k:NoExecute")
			if is := &made.Pods[0]; !is.Leaves || is.Answer.Stays() != test.held {
				t.Errorf("the plan says %+v, want that it is held to be %t", is, test.held)
			}
			tainted := node("n")
			tainted.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
			live := state.LiveOf(state.Evictor{}, []*corev1.Node{tainted}, cluster.Pods, now)
			if pods := (plan.Pending{Policies: cluster.PoliciesOf()}).In(live, now).Pods; len(pods) != 1 || pods[0].Answer.Stays() != test.held {
				t.Errorf("pending has %+v, want that it is held to be %t", pods, test.held)
			}
			explained := explain.Explain(explain.Subject{Pod: test.pod, Node: tainted, Policies: cluster.PoliciesOf(), At: now})
			if says := strings.Contains(strings.Join(explained.Notes, "\n"), "The DaemonSet controller deletes the pod"); !explained.Leaves ||
				explained.Answer.Stays() != test.held || says == test.held {
				t.Errorf("why says %+v, want that it is held to be %t", explained, test.held)
			}
		})
	}
}

func TestABreakerCountsPodsOfOtherNodesThatAreDue(t *testing.T) {
	brake := v1alpha1.EvictionPolicySpec{
		Action: v1alpha1.ActionDelete, Breaker: &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(3)},
	}
	for name, test := range map[string]struct {
		other  *corev1.Node
		dryRun bool
		trips  bool
	}{
		"nobody else is due":       {other: node("other")},
		"two are":                  {other: node("other", "spot:NoExecute"), trips: true},
		"a dry run never objects":  {other: node("other", "spot:NoExecute"), dryRun: true},
		"their taint is tolerated": {other: node("other", "spot:NoSchedule")},
	} {
		t.Run(name, func(t *testing.T) {
			brake.DryRun = test.dryRun
			n := node("n")
			cluster := &state.Cluster{
				Nodes: []*corev1.Node{n}, Pods: append(podsOn("n", 2), podsOn("other", 2)...),
				Policies: []*v1alpha1.EvictionPolicy{policyOf("brake", brake)},
			}
			all := *cluster
			all.Nodes = append(all.Nodes, test.other)
			made := planOf(t, &all, cluster.Nodes, "k:NoExecute")
			if got := made.Policies[0]; (got.TripsAt != nil) != test.trips {
				t.Errorf("the policy is %+v, want it to trip: %v", got, test.trips)
			}
			if got := made.Pods[0].Answer.Reason == "Breaker"; got != test.trips {
				t.Errorf("the answer is %+v", made.Pods[0].Answer)
			}
		})
	}
}
