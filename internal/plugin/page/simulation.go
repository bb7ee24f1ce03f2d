// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// Simulation is a simulation and the texts about it.
type Simulation struct {
	Report *cliv1alpha1.SimulationReport
	// Cluster names the cluster. It is empty for files.
	Cluster string
	// Scenario names the scenario, and Steps says how long it is.
	Scenario, Steps string
	// Answer is the simulation in one sentence. Losses are sentences about what is lost in addition to pods.
	Answer string
	Losses []string
}

// WriteSimulation writes the page of a simulation. It has no script.
func WriteSimulation(out io.Writer, simulation Simulation) error {
	return write(out, "simulation.html", newSimulationView(simulation))
}

// simulationView is the input of the template of simulations.
type simulationView struct {
	head

	Scenario, Steps string
	Story           []event
	Workloads       []cliv1alpha1.SimulatedWorkload
	Budgets         []cliv1alpha1.SimulatedBudget
	NoRoom          []noRoom
	Notes           []string
	NotSimulated    []string
	LeftOut         struct{ Story, Workloads, Budgets, NoRoom string }
}

// event is a line of the story.
type event struct{ When, Message string }

// noRoom is how many pods of a workload find no room in the same period for the same reason.
type noRoom struct {
	waiting

	Pods int
}

type waiting struct {
	cliv1alpha1.Owner

	Namespace, Reason string
	Since, Until      metav1.Duration
	AtEnd             bool // whether they have no room at the end
}

func newSimulationView(of Simulation) simulationView {
	report := of.Report
	v := simulationView{
		head: head{
			Kind: "Simulation", Title: of.Scenario, Cluster: of.Cluster, Answer: of.Answer, Losses: of.Losses,
			Figures: simulationFigures(report), Timeline: simulationTimeline(report),
		},
		Scenario: of.Scenario, Steps: of.Steps, Notes: report.Notes, NotSimulated: report.NotSimulated,
	}
	v.complete(report.At.Time, "")
	var story []cliv1alpha1.SimulationEvent
	story, v.LeftOut.Story = cut(report.Story, "events")
	for _, of := range story {
		last := of.At
		if of.Ends != nil {
			last = *of.Ends
		}
		v.Story = append(v.Story, event{during(of.At.Duration, last.Duration), of.Message})
	}
	v.Workloads, v.LeftOut.Workloads = cut(report.Workloads, "workloads")
	v.Budgets, v.LeftOut.Budgets = cut(report.Budgets, "PodDisruptionBudgets")
	v.NoRoom, v.LeftOut.NoRoom = cut(withoutRoom(report), "groups of pods")
	return v
}

// withoutRoom groups the pods that find no room. Those that wait longest come first.
func withoutRoom(report *cliv1alpha1.SimulationReport) []noRoom {
	places := map[waiting]int{}
	var all []noRoom
	for i := range report.Pods {
		pod := &report.Pods[i]
		if pod.WaitsSince == nil {
			continue
		}
		is := waiting{
			Owner: ownerOf(pod), Namespace: pod.Namespace, Reason: pod.Reason,
			Since: *pod.WaitsSince, Until: ptr.Deref(pod.WaitsUntil, report.Until), AtEnd: pod.WaitsUntil == nil,
		}
		place, ok := places[is]
		if !ok {
			place = len(all)
			places[is] = place
			all = append(all, noRoom{waiting: is})
		}
		all[place].Pods++
	}
	slices.SortStableFunc(all, func(a, b noRoom) int {
		return cmp.Or(cmp.Compare(b.Until.Duration, a.Until.Duration), cmp.Compare(b.Pods, a.Pods))
	})
	return all
}

func simulationFigures(report *cliv1alpha1.SimulationReport) []figure {
	s := report.Summary
	return []figure{
		{Name: "unreachable", Label: "nodes become unreachable", Value: s.Unreachable},
		{Name: "tainted", Label: "nodes get a NoExecute taint", Value: s.Tainted},
		{Name: "left", Label: "pods leave", Value: s.Left},
		{Name: "workloadsLost", Label: "workloads have no ready replica", Value: s.WorkloadsLost},
		{Name: "budgetsOverrun", Label: "budgets are overrun", Value: s.BudgetsOverrun},
		{Name: "held", Label: "due pods are held at the end", Value: s.Held},
		{Name: "nowhere", Label: "pods have no room at the end", Value: s.Nowhere},
		{Name: "unattached", Label: "pods wait for volumes at the end", Value: s.Unattached},
	}
}
