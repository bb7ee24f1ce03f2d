// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/page"
)

func after(span time.Duration) metav1.Duration { return metav1.Duration{Duration: span} }

const unreachable = "node.kubernetes.io/unreachable:NoExecute"

// smallSimulation is a simulation in which something of each kind happens.
func smallSimulation() *cliv1alpha1.SimulationReport {
	deployment := func(name string) *cliv1alpha1.Owner { return &cliv1alpha1.Owner{Kind: "Deployment", Name: name} }
	ends := after(70 * time.Second)
	leaves, found := after(5*time.Minute), after(10*time.Minute)
	return &cliv1alpha1.SimulationReport{
		At: metav1.NewMicroTime(now), Until: after(30 * time.Minute),
		Summary: cliv1alpha1.SimulationSummary{
			Unreachable: 2, Tainted: 1, Left: 3, Held: 1, WorkloadsLost: 1, BudgetsOverrun: 1, Nowhere: 1,
		},
		Story: []cliv1alpha1.SimulationEvent{
			{Message: "nodes node-1, node-2 fall silent"},
			{At: after(50 * time.Second), Ends: &ends, Message: "nodes node-1, node-2 are unreachable"},
			{At: after(10 * time.Minute), Message: "nodes node-1, node-2 are back"},
		},
		Nodes: []cliv1alpha1.SimulatedNode{
			{Name: "node-1", Zone: "a", Steps: []cliv1alpha1.SimulatedTaints{
				{At: after(50 * time.Second), Taints: []string{unreachable}}, {At: after(10 * time.Minute)},
			}},
			{Name: "node-2", Before: []string{"old:NoExecute"}, Steps: []cliv1alpha1.SimulatedTaints{
				{At: after(70 * time.Second), Taints: []string{"node.kubernetes.io/unreachable:NoSchedule"}},
			}},
		},
		Pods: []cliv1alpha1.SimulatedPod{
			{Namespace: "shop", Name: "web-1", Owner: deployment("web"), Node: "node-1", LeavesAt: &leaves, Successor: "web-1~2"},
			{Namespace: "shop", Name: "web-2", Owner: deployment("web"), Node: "node-1", LeavesAt: &leaves, Successor: "web-2~2"},
			{Namespace: "shop", Name: "api-1", Owner: deployment("api"), Node: "node-2", LeavesAt: &metav1.Duration{}},
			{Namespace: "shop", Name: "web-1~2", Owner: deployment("web"), WaitsSince: &leaves, WaitsUntil: &found, Reason: "Too small."},
			{Namespace: "shop", Name: "web-2~2", Owner: deployment("web"), WaitsSince: &leaves, Reason: "Too small."},
		},
		Workloads: []cliv1alpha1.SimulatedWorkload{
			{
				Owner: *deployment("web"), Namespace: "shop", Replicas: 2, Lowest: 0, LowestAt: after(50 * time.Second),
				LowestFor: after(555 * time.Second), AtEnd: 1, Steps: []cliv1alpha1.SimulatedReplicas{
					{At: after(50 * time.Second)}, {At: after(605 * time.Second), Ready: 1},
				},
			},
			{
				Owner: *deployment("api"), Namespace: "shop", Replicas: 3, Lowest: 1, LowestAt: after(time.Second),
				LowestFor: after(4 * time.Second), AtEnd: 3, Steps: []cliv1alpha1.SimulatedReplicas{
					{At: after(0), Ready: 2}, {At: after(time.Second), Ready: 1}, {At: after(5 * time.Second), Ready: 3},
				},
			},
		},
		Budgets: []cliv1alpha1.SimulatedBudget{{
			Namespace: "shop", Name: "web", Desired: 1, LowestAt: after(50 * time.Second), OverrunFor: after(555 * time.Second),
		}},
		Notes:        []string{"Step 3 changes nothing because its nodes are not silent."},
		NotSimulated: []string{"Load."},
	}
}

// writtenSimulation returns the page of a simulation, as text and parsed.
func writtenSimulation(t *testing.T, report *cliv1alpha1.SimulationReport) (string, *html.Node) {
	t.Helper()
	var out bytes.Buffer
	err := page.WriteSimulation(&out, page.Simulation{
		Report: report, Cluster: "prod", Scenario: "zone.yaml", Steps: "2 steps in 30m", Answer: "The answer.", Losses: []string{"A loss."},
	})
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, out.String())
}

func TestThePageHasThePartsOfASimulationInOrder(t *testing.T) {
	_, document := writtenSimulation(t, smallSimulation())
	wantOutline(t, document, "simulation.golden")
}

func TestTheSameSimulationGivesTheSameBytes(t *testing.T) {
	one, _ := writtenSimulation(t, bigSimulation(100))
	other, _ := writtenSimulation(t, bigSimulation(100))
	if diff := cmp.Diff(one, other); diff != "" {
		t.Error(diff)
	}
}

func TestNamesInASimulationStayText(t *testing.T) {
	for _, name := range hostile {
		report := smallSimulation()
		owner := cliv1alpha1.Owner{Kind: name, Name: name}
		report.Notes, report.NotSimulated, report.Story[0].Message = []string{name}, []string{name}, name
		report.Nodes[0].Name, report.Nodes[0].Zone, report.Nodes[0].Before = name, name, []string{name + ":NoExecute"}
		for i := range report.Pods {
			p := &report.Pods[i]
			p.Namespace, p.Name, p.Node, p.Owner, p.Reason = name, name, name, &owner, name
		}
		report.Workloads[0].Owner, report.Workloads[0].Namespace = owner, name
		report.Budgets[0].Name, report.Budgets[0].Namespace = name, name
		_, document := writtenSimulation(t, report)

		wantOnlyOurElements(t, name, document)
		if scripts := find(document, func(node *html.Node) bool { return node.Data == "script" }); len(scripts) > 0 {
			t.Errorf("%q made a script", name)
		}
		want := strings.Join(strings.Fields("+0s "+name), " ")
		if got := rowsOf(t, document, "story")[0]; got != strings.Replace(want, "+0s ", "+0s", 1) {
			t.Errorf("the story begins with %q, want %q", got, want)
		}
	}
}

func TestASimulationInWhichNothingHappensHasNoTimeline(t *testing.T) {
	report := &cliv1alpha1.SimulationReport{At: metav1.NewMicroTime(now), Until: after(time.Hour), NotSimulated: []string{"Load."}}
	source, document := writtenSimulation(t, report)
	if charts := withClass(document, "chart"); len(charts) > 0 {
		t.Error("there is a timeline")
	}
	for _, want := range []string{"No node becomes unreachable or gets a NoExecute taint, no pod leaves, and no workload has fewer ready replicas.", "<p>Nothing happens.</p>"} {
		if !strings.Contains(source, want) {
			t.Errorf("the page does not say: %s", want)
		}
	}
}

// bigSimulation is a simulation in which that many nodes in three zones fall silent, with 30 pods and a workload each.
func bigSimulation(nodes int) *cliv1alpha1.SimulationReport {
	report := smallSimulation()
	report.Nodes, report.Pods, report.Workloads = nil, nil, nil
	for i := range nodes {
		at := after(time.Minute + time.Duration(i%60)*time.Second)
		report.Nodes = append(report.Nodes, cliv1alpha1.SimulatedNode{
			Name: fmt.Sprintf("node-%d", i), Zone: string(rune('a' + i%3)),
			Steps: []cliv1alpha1.SimulatedTaints{{At: at, Taints: []string{unreachable}}},
		})
		owner := cliv1alpha1.Owner{Kind: "Deployment", Name: fmt.Sprintf("web-%d", i)}
		workload := cliv1alpha1.SimulatedWorkload{Owner: owner, Namespace: "shop", Replicas: 30}
		for j := range 30 {
			report.Pods = append(report.Pods, cliv1alpha1.SimulatedPod{
				Namespace: "shop", Name: fmt.Sprintf("%s-%d", owner.Name, j), Owner: &owner, Node: fmt.Sprintf("node-%d", i),
				LeavesAt: &at, WaitsSince: &at, Reason: "It is full.",
			})
			workload.Steps = append(workload.Steps, cliv1alpha1.SimulatedReplicas{
				At: after(at.Duration + time.Duration(j)*time.Millisecond), Ready: 29 - j,
			})
		}
		report.Workloads = append(report.Workloads, workload)
	}
	return report
}

func TestALargeSimulationStillGivesAPageThatOpens(t *testing.T) {
	source, document := writtenSimulation(t, bigSimulation(5000))
	if kilobytes := len(source) >> 10; kilobytes > 500 {
		t.Errorf("the page has %d KiB, want at most 500", kilobytes)
	}
	var labels []string
	for _, row := range withClass(document, "row") {
		labels = append(labels, attribute(row, "aria-label"))
	}
	want := []string{
		"Zone a, 1667 nodes, 50010 pods leave", "Zone b, 1667 nodes, 50010 pods leave", "Zone c, 1666 nodes, 49980 pods leave",
		"Deployment shop/web-0, 30 replicas, 0 ready for 0s",
	}
	if diff := cmp.Diff(want, labels[:4]); diff != "" || len(labels) != 23 {
		t.Errorf("%d rows, want 23: %s", len(labels), diff)
	}
	for _, sentence := range []string{
		"Nodes of the same zone share a row. The 20 worst of 5000 workloads have a row.",
		"This page lists 300 of 5000 workloads; -o json lists all.",
		"This page lists 300 of 5000 groups of pods; -o json lists all.",
	} {
		if !strings.Contains(source, sentence) {
			t.Errorf("the page does not say: %s", sentence)
		}
	}
	bars := withClass(document, "bar")
	if got := attribute(bars[0], "aria-label"); got != "Zone a, +1m to +30m: unreachable: 1667 nodes" {
		t.Errorf("the first bar is %q", got)
	}
	wantBars := map[string]string{"fewer": "at least 1 of 30 replicas ready", "lost": "0 of 30 replicas ready"}
	for class, what := range wantBars {
		if got := attribute(withClass(document, class)[1], "aria-label"); !strings.HasSuffix(got, what) {
			t.Errorf("a bar of kind %s is %q, want %q at its end", class, got, what)
		}
	}
}
