// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// notSimulated is what no simulation takes into account.
var notSimulated = []string{
	"Autoscalers and the descheduler: no nodes are added or removed, and no pod is moved.",
	"Rollouts, scaling and other changes of workloads while the simulation runs.",
	"The readiness of applications: a pod is ready after the start delay, and a deleted pod uses all of its grace period if its kubelet is alive.",
	"Pods that stop because of a dependency, such as a database in a silent zone.",
	"Load: calls to the API server take no time.",
	"Random choices: which of the nodes that become silent together is tainted first, and which of equally good nodes gets a pod.",
}

// tellNode returns the report on a node.
func (s *simulation) tellNode(n *node) *cliv1alpha1.SimulatedNode {
	if n.told == nil {
		n.told = &cliv1alpha1.SimulatedNode{Name: n.Name, Zone: zoneOf(n.Node), Before: state.FormatAll(n.Spec.Taints)}
	}
	return n.told
}

// tellPod returns the report on a pod.
func (s *simulation) tellPod(p *pod) *cliv1alpha1.SimulatedPod {
	if p.told == nil {
		p.told = &cliv1alpha1.SimulatedPod{Namespace: p.Namespace, Name: p.Name, Owner: p.owner, Node: p.Spec.NodeName}
		if p.first {
			p.told.UID = p.UID
		}
		s.told = append(s.told, p.told)
	}
	return p.told
}

// tellLeaves reports that a pod leaves its node.
func (s *simulation) tellLeaves(p *pod, now time.Time) {
	told := s.tellPod(p)
	told.LeavesAt, told.Lost, told.LocalData = new(s.offset(now)), state.IsBare(p.Pod), state.HasLocalData(p.Pod)
	if p.on != nil {
		s.tellNode(p.on)
	}
}

// nameOf names the workload of a pod, or the pod if it has none.
func (s *simulation) nameOf(p *pod) string {
	if p.owner == nil {
		return "pod " + p.Namespace + "/" + p.Name
	}
	return workloadKey{p.Namespace, *p.owner}.String()
}

// String names the workload.
func (k workloadKey) String() string { return k.owner.Kind + " " + k.namespace + "/" + k.owner.Name }

// report returns the report.
func (s *simulation) report() *cliv1alpha1.SimulationReport {
	is := s.cluster.Location
	r := &cliv1alpha1.SimulationReport{
		TypeMeta: cliv1alpha1.Type("SimulationReport"),
		At:       metav1.NewMicroTime(s.start), Until: s.offset(s.end),
		Context: is.Context, Cluster: is.Cluster, Server: is.Server,
		EvictedBy: s.cluster.By(),
		Nodes:     []cliv1alpha1.SimulatedNode{}, Pods: []cliv1alpha1.SimulatedPod{},
		NotSimulated: notSimulated,
	}
	s.reportNodes(r)
	s.reportPods(r)
	s.reportWorkloads(r)
	s.reportBudgets(r)
	r.Story = s.story.tell(s.start)
	r.Notes = append(s.cluster.Notes(), s.notes...)
	return r
}

func (s *simulation) reportNodes(r *cliv1alpha1.SimulationReport) {
	for _, name := range s.names {
		n := s.nodes[name]
		s.tellHeld(n)
		if n.told == nil {
			continue
		}
		r.Nodes = append(r.Nodes, *n.told)
		r.Summary.Unreachable += count(n.told.UnreachableAt != nil)
		r.Summary.Tainted += count(slices.ContainsFunc(n.told.Steps, func(step cliv1alpha1.SimulatedTaints) bool {
			return slices.ContainsFunc(step.Taints, func(taint string) bool { return strings.HasSuffix(taint, ":NoExecute") })
		}))
	}
}

// tellHeld reports why node health does not taint a node now, if it does not.
func (s *simulation) tellHeld(n *node) {
	if held := s.play.Held(n.Name); held != nil {
		s.tellNode(n).Held = held.String()
	}
}

func (s *simulation) reportPods(r *cliv1alpha1.SimulationReport) {
	for _, name := range s.names {
		for _, p := range s.nodes[name].pods {
			switch {
			case p.stage == bound && p.held != nil:
				s.tellPod(p).HeldBy = p.held.String()
				r.Summary.Held++
			case p.stage == terminating && p.told != nil && p.told.Successor == "":
				p.told.NoSuccessor = cmp.Or(p.told.NoSuccessor, s.makers.WhyWait(p.Pod))
			}
		}
	}
	s.tellBlocked()
	for _, p := range s.waiting {
		r.Summary.Nowhere += count(p.told != nil && p.told.WaitsSince != nil)
	}
	r.Summary.Unattached = s.tellUnattached()
	for _, told := range s.told {
		r.Pods = append(r.Pods, *told)
		r.Summary.Left += count(told.LeavesAt != nil)
		r.Summary.Preempted += count(told.PreemptedBy != "")
		r.Summary.PodsLost += count(told.Lost)
		r.Summary.LocalData += count(told.LocalData)
	}
}

// tellBlocked says why pods do not exist yet that StatefulSets create in order.
func (s *simulation) tellBlocked() {
	for _, all := range s.sets.blocked {
		for _, p := range all {
			if of := s.sets.waitsFor(p); of != nil && p.of != nil {
				s.noSuccessor(p.of, fmt.Sprintf("Its StatefulSet creates its pods in order, and %s is not ready.", of.base()))
			}
		}
	}
}

func (s *simulation) reportWorkloads(r *cliv1alpha1.SimulationReport) {
	for key, c := range s.workloads {
		first, lowest := c.first(), c.lowest()
		if lowest.number >= first {
			continue
		}
		is := cliv1alpha1.SimulatedWorkload{
			Owner: key.owner, Namespace: key.namespace, Replicas: first, Lowest: lowest.number, AtEnd: c.number,
			LowestAt: s.offset(lowest.at), LowestFor: metav1.Duration{Duration: c.below(lowest.number+1, s.end)}, Unknown: c.unknown,
		}
		for _, p := range c.points[1:] {
			is.Steps = append(is.Steps, cliv1alpha1.SimulatedReplicas{At: s.offset(p.at), Ready: p.number})
		}
		r.Workloads = append(r.Workloads, is)
		r.Summary.WorkloadsLost += count(lowest.number == 0)
		s.tellBelow(key, c, first)
	}
	slices.SortFunc(r.Workloads, func(a, b cliv1alpha1.SimulatedWorkload) int {
		return cmp.Or(cmp.Compare(a.Lowest, b.Lowest), cmp.Compare(b.LowestFor.Duration, a.LowestFor.Duration),
			cmp.Compare(b.Replicas, a.Replicas),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// tellBelow reports when a workload has no ready replica, and for how long.
func (s *simulation) tellBelow(key workloadKey, c *counter, first int) {
	for i, p := range c.points {
		if p.number > 0 {
			continue
		}
		length, lasts := "until the end", s.end.Sub(p.at)
		if c.unknown {
			length = "for an unknown time"
		}
		if i+1 < len(c.points) {
			lasts = c.points[i+1].at.Sub(p.at)
			if length = "for " + sentence.Span(lasts); c.atMost {
				length = "for at most " + sentence.Span(lasts)
			}
		}
		detail := fmt.Sprintf("%s has 0 of %s, %s", key, sentence.Counted(first, "replica"), length)
		s.story.add(p.at, below, "", detail, "").lasts = lasts
	}
}

func (s *simulation) reportBudgets(r *cliv1alpha1.SimulationReport) {
	for _, b := range s.allowed {
		lowest := b.lowest()
		if b.first() < b.desired || lowest.number >= b.desired {
			continue
		}
		r.Budgets = append(r.Budgets, cliv1alpha1.SimulatedBudget{
			Namespace: b.Namespace, Name: b.Name, Desired: b.desired, Lowest: lowest.number,
			LowestAt: s.offset(lowest.at), OverrunFor: metav1.Duration{Duration: b.below(b.desired, s.end)},
		})
	}
	r.Summary.BudgetsOverrun = len(r.Budgets)
	slices.SortFunc(r.Budgets, func(a, b cliv1alpha1.SimulatedBudget) int {
		return cmp.Or(cmp.Compare(b.OverrunFor.Duration, a.OverrunFor.Duration),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
