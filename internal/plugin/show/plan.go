// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Plan prints the beginning of a plan, before every pod.
func (p *Printer) Plan(plan *cliv1alpha1.TaintPlan) {
	losses := Losses(plan)
	for _, line := range Lines(plan) {
		if slices.Contains(losses, line) {
			p.Loss(line)
		} else {
			p.Line("%s", line)
		}
	}
}

// Lines is the beginning of a plan: the answer, the cluster, what is lost, and what is not known.
func Lines(plan *cliv1alpha1.TaintPlan) []string {
	lines := []string{Answer(plan)}
	if name := Cluster(plan); name != "" {
		lines = append(lines, "This plan is for cluster "+name+".")
	}
	lines = slices.Concat(lines, Losses(plan), Emptied(plan), Policies(plan), whereTo(plan))
	for _, note := range plan.Notes {
		lines = append(lines, "Note: "+note)
	}
	return lines
}

// Cluster names the cluster of a plan as its users do. It is empty for files.
func Cluster(of *cliv1alpha1.TaintPlan) string {
	return state.Location{Context: of.Context, Cluster: of.Cluster, Server: of.Server}.String()
}

// Answer returns the first line.
func Answer(plan *cliv1alpha1.TaintPlan) string {
	s, kept := plan.Summary, kept(plan)
	on := sentence.Counted(s.Pods, "pod") + " on " + sentence.Counted(s.Nodes, "node")
	answer, last := "No pod leaves: "+on+" may stay.", ""
	if s.Last != nil {
		last = sentence.Relative(plan.At.Time, s.Last.Time)
	}
	switch later := s.Leave - s.AtOnce; {
	case s.Pods == 0:
		answer = "No pod leaves: there are no pods on " + sentence.Counted(s.Nodes, "node") + "."
	case s.Leave == 0 && kept != "":
		answer = "No pod leaves."
	case s.Leave == 0:
	default:
		does, objections := leave(s.Leave), objections(plan)
		if objections != "" {
			does = are(s.Leave) + " due"
		}
		when := fmt.Sprintf("%d at once, %d more within %s", s.AtOnce, later, last)
		if later == 0 {
			when = sentence.Agree(s.Leave, "at once", "all of them at once")
		} else if s.AtOnce == 0 {
			when = sentence.Agree(s.Leave, "in ", "the last in ") + last
		}
		answer = fmt.Sprintf("%d of %s %s, %s%s.", s.Leave, on, does, when, objections)
	}
	return EvictedBy(plan.EvictedBy, answer+kept)
}

// kept says which pods stay because of the plan.
func kept(plan *cliv1alpha1.TaintPlan) string {
	by, pods := map[string]int{}, 0
	for i := range plan.Pods {
		if pod := &plan.Pods[i]; pod.Change == cliv1alpha1.ChangeStays {
			pods++
			if pod.Owner == nil {
				by["pod "+FullName(pod.Namespace, pod.Name)] = 0
			} else {
				by[pod.Owner.Kind+" "+FullName(pod.Namespace, pod.Owner.Name)]++
			}
		}
	}
	if pods == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(by[b]-by[a], cmp.Compare(a, b)) })
	for i, name := range names {
		if by[name] > 0 {
			names[i] = fmt.Sprintf("%d of %s", by[name], name)
		}
	}
	return fmt.Sprintf(" %s that would otherwise leave may stay: %s.", sentence.Counted(pods, "pod"), sentence.Some(names))
}

// Losses says what is lost in addition to pods.
func Losses(plan *cliv1alpha1.TaintPlan) []string {
	var bare, local, lines, lost []string
	for i := range plan.Pods {
		pod := &plan.Pods[i]
		if pod.Lost {
			bare = append(bare, FullName(pod.Namespace, pod.Name))
		}
		if pod.LocalData {
			local = append(local, FullName(pod.Namespace, pod.Name))
		}
	}
	for _, workload := range plan.Workloads {
		if workload.Lowest > 0 {
			continue
		}
		line := fmt.Sprintf("%s %s loses every replica: %d of %d", workload.Kind, FullName(workload.Namespace, workload.Name), workload.Leave, workload.Replicas)
		if more := workload.Replicas - workload.Leave; more > 0 {
			line += fmt.Sprintf(", and %d on %s", more, sentence.Agree(more, "another node", "other nodes"))
		}
		lost = append(lost, line+".")
	}
	if len(bare) > 0 {
		lines = append(lines, fmt.Sprintf("%s no controller, so nothing replaces %s: %s.",
			sentence.Do(len(bare), "pod", "that leaves has", "that leave have"),
			sentence.Agree(len(bare), "it", "them"), sentence.Some(bare)))
	}
	lines = slices.Concat(lines, worst(lost, "workload", "loses every replica", "lose every replica"), budgets(plan))
	if len(local) > 0 {
		lines = append(lines, fmt.Sprintf("%s the data in %s emptyDir volumes: %s.",
			sentence.Do(len(local), "pod", "loses", "lose"), sentence.Agree(len(local), "its", "their"), sentence.Some(local)))
	}
	return lines
}

// Emptied names the nodes that pods leave and that then have only static pods.
func Emptied(plan *cliv1alpha1.TaintPlan) []string {
	var emptied []string
	for _, node := range plan.Nodes {
		if node.Emptied {
			emptied = append(emptied, node.Name)
		}
	}
	if len(emptied) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s emptied: %s.", sentence.Counted(len(emptied), "node"), sentence.Some(emptied))}
}

// worst returns the first lines, and says how many more of their kind there are.
func worst(lines []string, what, does, do string) []string {
	const most = 5
	if more := len(lines) - most; more > 0 {
		what = sentence.Agree(more, what, what+"s")
		return append(lines[:most:most], fmt.Sprintf("%d more %s %s.", more, what, sentence.Agree(more, does, do)))
	}
	return lines
}

// budgets says which PodDisruptionBudgets are overrun, and which are asked for more than they allow.
func budgets(plan *cliv1alpha1.TaintPlan) []string {
	var overrun, asked []string
	byBreach := func(a, b cliv1alpha1.PlannedBudget) int { return b.Breach - a.Breach }
	for _, budget := range slices.SortedStableFunc(slices.Values(plan.Budgets), byBreach) {
		allowed := int(budget.Allowed)
		allows := fmt.Sprintf("PodDisruptionBudget %s allows %s", FullName(budget.Namespace, budget.Name), sentence.Counted(allowed, "disruption"))
		if missing := allowed + budget.Breach; budget.Breach > 0 {
			overrun = append(overrun, fmt.Sprintf("%s, but %d of its pods %s missing at one time.",
				allows, missing, are(missing)))
		}
		if budget.Asked > allowed {
			asked = append(asked, fmt.Sprintf("%s, so it delays evictions: EvictionPolicies use the Eviction API for %s.",
				allows, sentence.Counted(budget.Asked, "pod")))
		}
	}
	lines := worst(overrun, "PodDisruptionBudget", "is overrun", "are overrun")
	if len(overrun) > 0 {
		lines = append(lines, "kubectl drain respects budgets; taints do so only if an EvictionPolicy uses the Eviction API.")
	}
	const tooFew = " too few disruptions for EvictionPolicies"
	return append(lines, worst(asked, "PodDisruptionBudget", "allows"+tooFew, "allow"+tooFew)...)
}

// Policies says which breakers would trip, how long the evictions take if a policy sets a pace, and what a resume would
// let go.
func Policies(plan *cliv1alpha1.TaintPlan) (lines []string) {
	in := func(at *metav1.MicroTime, now string) string {
		if text := sentence.Relative(plan.At.Time, at.Time); text != "now" {
			return "in " + text
		}
		return now
	}
	for _, p := range plan.Policies {
		if p.TripsAt != nil {
			lines = append(lines, fmt.Sprintf("EvictionPolicy %s would trip %s: %s.", p.Name, in(p.TripsAt, "at once"), p.Trips))
		}
	}
	for _, p := range plan.Policies {
		if p.LastAt != nil {
			lines = append(lines, fmt.Sprintf("EvictionPolicy %s sets a pace of %s. It lets %s go %s, at %s.",
				p.Name, p.Pace, sentence.Agree(p.Pods, "the pod", "the last pod"), in(p.LastAt, "now"),
				sentence.Absolute(p.LastAt.Time)))
		}
	}
	if is := plan.Resumed; is != nil {
		release := policies.Release{
			Leave: is.Leave, Asked: is.Asked, Late: is.Late, First: is.LateFrom.Duration, Last: is.LateTo.Duration,
		}
		lines = append(lines, fmt.Sprintf("Pauses and open breakers keep %s: 'kubectl taintkeeper resume --all' lets %d leave.%s",
			sentence.Counted(is.Pods, "pod"), is.Leave, release.Deadlines()))
	}
	return lines
}

// objections counts the due pods by the answer of policies. It is empty if no policy keeps one.
func objections(plan *cliv1alpha1.TaintPlan) string {
	free, asked := plan.Summary.Leave, 0
	var parts, held []string
	slowest := slowestOf(plan)
	for i := range plan.Policies {
		p := &plan.Policies[i]
		free, asked = free-p.Asked-p.Held, asked+p.Asked
		if p.Held > 0 {
			held = append(held, fmt.Sprintf("%d %s held by policy %s", p.Held, are(p.Held), p.Name))
		}
	}
	if asked == 0 && len(held) == 0 && slowest == nil {
		return ""
	}
	if free > 0 {
		does := fmt.Sprintf("%d %s", free, leave(free))
		if slowest != nil {
			does += " at the pace of policy " + slowest.Name
		}
		parts = append(parts, does)
	}
	if asked > 0 {
		parts = append(parts, fmt.Sprintf("%d %s if PodDisruptionBudgets allow it", asked, leave(asked)))
	}
	return ": " + strings.Join(append(parts, held...), ", ")
}

// slowestOf returns the slowest policy whose pace lets pods leave after the last one is due, or nil.
func slowestOf(plan *cliv1alpha1.TaintPlan) (slowest *cliv1alpha1.PlannedPolicy) {
	last := plan.Summary.Last.Time
	if last.Before(plan.At.Time) {
		last = plan.At.Time
	}
	for i := range plan.Policies {
		if p := &plan.Policies[i]; p.LastAt != nil && p.LastAt.After(last) {
			slowest, last = p, p.LastAt.Time
		}
	}
	return slowest
}

func are(n int) string { return sentence.Agree(n, "is", "are") }

func leave(n int) string { return sentence.Agree(n, "leaves", "leave") }

// whereTo says how many pods have somewhere to go, and what to look at, with one line for all pods that have the same
// warning. The gravest come first.
func whereTo(plan *cliv1alpha1.TaintPlan) []string {
	byGravity := map[cliv1alpha1.PlacementWarningType][]sentence.About{}
	asked := false
	for _, pod := range plan.Leaving() {
		if pod.WhereTo == nil {
			continue
		}
		asked = true
		about := sentence.About{What: "Pod", Name: FullName(pod.Namespace, pod.Name)}
		if about.Says = pod.WhereTo.Reason; about.Says != "" {
			byGravity[""] = append(byGravity[""], about)
		}
		for _, warning := range pod.WhereTo.Warnings {
			about.Says = warning.Message
			byGravity[warning.Type] = append(byGravity[warning.Type], about)
		}
	}
	if !asked {
		return nil
	}
	s := plan.Summary
	lines := []string{fmt.Sprintf("Where the pods that leave would go: %d to a node, %d nowhere", s.Placed, s.Nowhere)}
	if uncertain := uncertain(s); uncertain > 0 {
		lines[0] += fmt.Sprintf(", %d uncertain", uncertain)
	}
	if s.NoSuccessor > 0 {
		lines[0] += fmt.Sprintf(", %d without a successor", s.NoSuccessor)
	}
	lines[0] += "."
	if s.LeaveAgain > 0 {
		lines = append(lines, fmt.Sprintf("Of the pods that go to a node, %d must leave it again: %s its NoExecute taints only for a while.",
			s.LeaveAgain, sentence.Agree(s.LeaveAgain, "it tolerates", "they tolerate")))
	}
	if s.Preempted > 0 {
		lines = append(lines, fmt.Sprintf("To make room for them, %s of lower priority %s preempted.",
			sentence.Counted(s.Preempted, "more pod"), are(s.Preempted)))
	}
	var warnings []string
	for _, kind := range []cliv1alpha1.PlacementWarningType{
		cliv1alpha1.WarningNowhere, cliv1alpha1.WarningPreempts, cliv1alpha1.WarningVolume, cliv1alpha1.WarningOutAgain,
		cliv1alpha1.WarningZoneSpread, cliv1alpha1.WarningSkew, "",
	} {
		warnings = append(warnings, sentence.Grouped(byGravity[kind])...)
	}
	const most = 10
	if more := len(warnings) - most; more > 0 {
		warnings = append(warnings[:most], sentence.Counted(more, "more warning")+": -o json and -o yaml list all.")
	}
	return append(lines, warnings...)
}

// uncertain counts the pods for which it is not certain that a node would take them, if nodes were asked.
func uncertain(s cliv1alpha1.PlanSummary) int {
	return s.Leave - s.Placed - s.Nowhere - s.NoSuccessor
}

// Loss counts things that something bad happens to. FailOn is its value of --fail-on, if there is one.
type Loss struct {
	FailOn         string
	Of             int
	What, Does, Do string
}

func (l Loss) String() string { return sentence.Do(l.Of, l.What, l.Does, l.Do) }

// Found returns what --fail-on can ask for.
func Found(losses []Loss) map[string]string {
	found := map[string]string{}
	for _, loss := range losses {
		if loss.Of > 0 {
			found[loss.FailOn] = strings.TrimPrefix(found[loss.FailOn]+", "+loss.String(), ", ")
		}
	}
	return found
}

// LossesOf counts the losses of a plan.
func LossesOf(plan *cliv1alpha1.TaintPlan) []Loss {
	s, unsure := plan.Summary, 0
	if slices.ContainsFunc(plan.Pods, func(pod cliv1alpha1.PlannedPod) bool { return pod.WhereTo != nil }) {
		unsure = uncertain(s)
	}
	return []Loss{
		{command.LostPod, s.PodsLost, "pod", "is replaced by no controller", "are replaced by no controller"},
		{command.LostWorkload, s.WorkloadsLost, "workload", "loses every replica", "lose every replica"},
		{command.Budget, s.BudgetsBreached, "PodDisruptionBudget", "is overrun", "are overrun"},
		{command.Nowhere, s.Nowhere, "pod", "fits no node", "fit no node"},
		{command.Nowhere, unsure, "pod", "may fit no node", "may fit no node"},
		{"", s.LocalData, "pod", "loses its local data", "lose their local data"},
	}
}

// SimulatedLosses counts what needs attention in a simulation.
func SimulatedLosses(s cliv1alpha1.SimulationSummary) []Loss {
	return []Loss{
		{command.LostPod, s.PodsLost, "pod", "leaves that no controller replaces", "leave that no controller replaces"},
		{command.LostWorkload, s.WorkloadsLost, "workload",
			"has no ready replica for a while", "have no ready replica for a while"},
		{command.Budget, s.BudgetsOverrun, "PodDisruptionBudget", "is overrun", "are overrun"},
		{"", s.Preempted, "pod", "is preempted to make room for pods of higher priority", "are preempted to make room for pods of higher priority"},
		{"", s.Held, "due pod", "is held by EvictionPolicies at the end", "are held by EvictionPolicies at the end"},
		{command.Nowhere, s.Nowhere, "pod", "has no room at the end", "have no room at the end"},
		{"", s.Unattached, "pod", "waits at the end for a volume that is attached to another node", "wait at the end for volumes that are attached to other nodes"},
		{"", s.LocalData, "pod", "loses the data in its emptyDir volumes", "lose the data in their emptyDir volumes"},
	}
}
