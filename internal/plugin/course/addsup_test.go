// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// addsUp checks what must be true of every report.
func addsUp(t *testing.T, cluster *state.Cluster, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	inOrder := slices.IsSortedFunc(report.Story, func(a, b cliv1alpha1.SimulationEvent) int {
		return cmp.Compare(a.At.Duration, b.At.Duration)
	})
	if !inOrder {
		t.Errorf("the story is not in chronological order: %q", story(report))
	}
	made := map[string]int{} // pods of each workload at the start
	for _, pod := range cluster.Pods {
		if owner := cluster.Owner(pod); owner != nil {
			made[owner.Kind+owner.Name]++
		}
	}
	for _, w := range report.Workloads {
		if w.Lowest < 0 || w.Lowest >= w.Replicas || w.AtEnd < 0 || w.AtEnd > made[w.Kind+w.Name] {
			t.Errorf("%+v does not add up: it had %d pods", w, made[w.Kind+w.Name])
		}
	}
	podsAddUp(t, report)
	replicasAddUp(t, made, report)
}

func podsAddUp(t *testing.T, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	successors, left := map[string]bool{}, 0
	for _, pod := range report.Pods {
		if pod.Successor != "" && (pod.Owner == nil || successors[pod.Successor]) {
			t.Errorf("%+v has a successor that is not its own", pod)
		}
		successors[pod.Successor] = true
		if pod.LeavesAt == nil {
			continue
		}
		left++
		if at := pod.LeavesAt.Duration; at < 0 || at > report.Until.Duration {
			t.Errorf("%+v leaves outside of the simulation", pod)
		}
	}
	if left != report.Summary.Left {
		t.Errorf("%d pods leave, and the summary says %d", left, report.Summary.Left)
	}
}

// outages are the times at which the API server is down.
type outages map[time.Duration]time.Duration

func outagesOf(t *testing.T, text []byte) outages {
	t.Helper()
	var scenario cliv1alpha1.Simulation
	if err := yaml.UnmarshalStrict(text, &scenario); err != nil {
		t.Fatal(err)
	}
	all := outages{}
	for _, step := range scenario.Steps {
		if step.APIServerDown != nil {
			all[step.At.Duration] = max(all[step.At.Duration], step.At.Duration+step.APIServerDown.Duration)
		}
	}
	return all
}

// after returns an instant, or the end of the outages that contain it.
func (o outages) after(at time.Duration) time.Duration {
	for from, to := range o {
		if from <= at && at < to {
			return o.after(to)
		}
	}
	return at
}

// leaveWhenDue checks the pods that existed at the start: those that are due leave then, and all others stay.
func leaveWhenDue(t *testing.T, cluster *state.Cluster, down outages, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	nodes := map[string]*corev1.Node{}
	for _, node := range cluster.Nodes {
		nodes[node.Name] = node
	}
	waited := map[string]bool{} // their nodes are not reported
	for _, pod := range cluster.Pods {
		waited[pod.Name] = pod.Spec.NodeName == ""
		node := nodes[pod.Spec.NodeName]
		if node == nil || state.IsStatic(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		if at, leaves := due(t, node, pod, historyOf(node, report), down); leaves {
			want[pod.Name] = at.String()
		}
	}
	for _, pod := range report.Pods {
		if pod.UID != "" && pod.LeavesAt != nil && !waited[pod.Name] {
			got[pod.Name] = pod.LeavesAt.Duration.String()
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("pods leave at other instants than their nodes' taints say (-want +got):\n%s", diff)
	}
}

// historyOf returns the taints of a node over time. It does not repeat those at the start.
func historyOf(node *corev1.Node, report *cliv1alpha1.SimulationReport) []cliv1alpha1.SimulatedTaints {
	history := []cliv1alpha1.SimulatedTaints{{}}
	for _, told := range report.Nodes {
		if told.Name == node.Name {
			history = append(history, told.Steps...)
		}
	}
	return append(history, cliv1alpha1.SimulatedTaints{At: metav1.Duration{Duration: report.Until.Duration + 1}})
}

// due returns when a pod leaves a node whose taints change.
func due(
	t *testing.T, node *corev1.Node, pod *corev1.Pod, history []cliv1alpha1.SimulatedTaints, down outages,
) (time.Duration, bool) {
	t.Helper()
	known := state.Tainted(node, noon)
	for i, step := range history[:len(history)-1] {
		if i > 0 {
			known = verdict.Advance(known, parseAll(t, step.Taints), verdict.SeenAt(noon.Add(step.At.Duration)))
		}
		v := state.Rule.Decide(state.FactsOf(pod, noon), known)
		at := down.after(max(v.Due.Sub(noon), step.At.Duration))
		if v.Leaves && at < history[i+1].At.Duration {
			return at, true
		}
	}
	return 0, false
}

func parseAll(t *testing.T, texts []string) (all []corev1.Taint) {
	t.Helper()
	for _, text := range texts {
		taint, err := taints.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, taint)
	}
	return all
}

// replicasAddUp checks the lowest numbers of ready replicas. Pods that leave together are not ready then, and neither
// are their successors. Without unreachable nodes, all other pods are ready.
func replicasAddUp(t *testing.T, made map[string]int, report *cliv1alpha1.SimulationReport) {
	t.Helper()
	together, lost := map[string]map[time.Duration]int{}, map[string]int{}
	for _, pod := range report.Pods {
		if pod.Owner == nil || pod.LeavesAt == nil {
			continue
		}
		of := pod.Owner.Kind + pod.Owner.Name
		if together[of] == nil {
			together[of] = map[time.Duration]int{}
		}
		together[of][pod.LeavesAt.Duration]++
		lost[of]++
	}
	for _, w := range report.Workloads {
		of := w.Kind + w.Name
		for at, n := range together[of] {
			if w.Lowest > made[of]-n {
				t.Errorf("%+v has too many replicas: %d of %d pods leave at %s", w, n, made[of], at)
			}
		}
		if report.Summary.Unreachable == 0 && w.Lowest < w.Replicas-lost[of] {
			t.Errorf("%+v has too few replicas: %d pods leave", w, lost[of])
		}
		if w.LowestFor.Duration <= 0 || w.LowestAt.Duration+w.LowestFor.Duration > report.Until.Duration {
			t.Errorf("%+v does not add up in %s", w, report.Until.Duration)
		}
	}
}
