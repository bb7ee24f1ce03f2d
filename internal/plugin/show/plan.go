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
	p.Line("%s", Answer(plan))
	for _, line := range where(plan) {
		p.Line("%s", line)
	}
	for _, line := range Losses(plan) {
		p.Loss(line)
	}
	for _, line := range after(plan) {
		p.Line("%s", line)
	}
}

// Lines is the beginning of a plan: the answer, what is lost, and what is not known.
func Lines(plan *cliv1alpha1.TaintPlan) []string {
	return slices.Concat([]string{Answer(plan)}, where(plan), Losses(plan), after(plan))
}

// after is what a plan says after what is lost.
func after(plan *cliv1alpha1.TaintPlan) []string {
	lines := slices.Concat(Emptied(plan), Policies(plan), whereToLines(plan))
	for _, note := range plan.Notes {
		lines = append(lines, "Note: "+note)
	}
	return lines
}

// where names the cluster of a plan. It is empty for files.
func where(plan *cliv1alpha1.TaintPlan) []string {
	if name := Cluster(plan); name != "" {
		return []string{"This plan is for cluster " + name + "."}
	}
	return nil
}

// Cluster names the cluster of a plan as its users do. It is empty for files.
func Cluster(of *cliv1alpha1.TaintPlan) string {
	return state.Location{Context: of.Context, Cluster: of.Cluster, Server: of.Server}.String()
}

// Answer returns the first line.
func Answer(plan *cliv1alpha1.TaintPlan) string { return EvictedBy(plan.EvictedBy, answer(plan)) }

func answer(plan *cliv1alpha1.TaintPlan) string {
	s := plan.Summary
	pods, nodes := sentence.Counted(s.Pods, "pod"), sentence.Counted(s.Nodes, "node")
	switch {
	case s.Pods == 0:
		return fmt.Sprintf("No pod leaves: there are no pods on %s.", nodes)
	case s.Leave == 0 && kept(plan) != "":
		return "No pod leaves." + kept(plan)
	case s.Leave == 0:
		return fmt.Sprintf("No pod leaves: %s on %s may stay.", pods, nodes)
	}
	do, objections := leave(s.Leave), objections(plan)
	if objections != "" {
		do = are(s.Leave) + " due"
	}
	parts := []string{fmt.Sprintf("%d of %s on %s %s", s.Leave, pods, nodes, do)}
	switch later := s.Leave - s.AtOnce; {
	case later == 0 && s.Leave == 1:
		parts = append(parts, "at once")
	case later == 0:
		parts = append(parts, "all of them at once")
	case s.AtOnce == 0:
		parts = append(parts, sentence.Agree(s.Leave, "in ", "the last in ")+sentence.Relative(plan.At.Time, s.Last.Time))
	default:
		parts = append(parts, fmt.Sprintf("%d at once", s.AtOnce),
			fmt.Sprintf("%d more within %s", later, sentence.Relative(plan.At.Time, s.Last.Time)))
	}
	return strings.Join(parts, ", ") + objections + "." + kept(plan)
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

// most is how many losses or budgets are listed.
const most = 5

// Losses says what is lost in addition to pods.
func Losses(plan *cliv1alpha1.TaintPlan) []string {
	var lost, apart []string
	bare, local := podsOf(plan, func(pod *cliv1alpha1.PlannedPod) bool { return pod.Lost }),
		podsOf(plan, func(pod *cliv1alpha1.PlannedPod) bool { return pod.LocalData })
	for _, workload := range plan.Workloads {
		name := fmt.Sprintf("%s %s/%s", workload.Kind, workload.Namespace, workload.Name)
		switch {
		case workload.Lowest == 0:
			lost = append(lost, fmt.Sprintf("%s loses every replica: %d of %d%s.",
				name, workload.Leave, workload.Replicas, elsewhere(workload.Replicas-workload.Leave)))
		case workload.Leave == workload.Replicas:
			apart = append(apart, fmt.Sprintf("%s loses all %d replicas one after the other: at least %d %s ready at any time.",
				name, workload.Replicas, workload.Lowest, are(workload.Lowest)))
		}
	}
	var lines []string
	if len(bare) > 0 {
		lines = append(lines, fmt.Sprintf("%s no controller, so nothing replaces %s: %s.",
			sentence.Counted(len(bare), "pod")+sentence.Agree(len(bare), " that leaves has", " that leave have"),
			sentence.Agree(len(bare), "it", "them"), sentence.Some(bare)))
	}
	lines = slices.Concat(lines, firstOf(lost, "workload", "loses every replica", "lose every replica"),
		firstOf(apart, "workload", "loses its replicas one after the other", "lose their replicas one after the other"),
		budgets(plan))
	if len(local) > 0 {
		lines = append(lines, fmt.Sprintf("%s the data in %s emptyDir volumes: %s.",
			sentence.Counted(len(local), "pod")+sentence.Agree(len(local), " loses", " lose"),
			sentence.Agree(len(local), "its", "their"), sentence.Some(local)))
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

// elsewhere says how many replicas leave nodes that the plan does not change.
func elsewhere(replicas int) string {
	if replicas == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d that must leave %s", replicas, sentence.Agree(replicas, "another node", "other nodes"))
}

// podsOf names some of the pods of a plan.
func podsOf(plan *cliv1alpha1.TaintPlan, which func(*cliv1alpha1.PlannedPod) bool) (names []string) {
	for i := range plan.Pods {
		if pod := &plan.Pods[i]; which(pod) {
			names = append(names, FullName(pod.Namespace, pod.Name))
		}
	}
	return names
}

// Found returns what a plan has that --fail-on can ask for.
func Found(plan *cliv1alpha1.TaintPlan) map[string]string {
	found := map[string]string{}
	add := func(value string, n int, what, one, more string) {
		switch {
		case n == 1:
			found[value] = "1 " + what + " " + one
		case n > 1:
			found[value] = fmt.Sprintf("%d %ss %s", n, what, more)
		}
	}
	add(command.LostPod, plan.Summary.PodsLost, "pod", "is replaced by no controller", "are replaced by no controller")
	add(command.LostWorkload, plan.Summary.WorkloadsLost, "workload", "loses every replica", "lose every replica")
	add(command.Budget, plan.Summary.BudgetsBreached, "PodDisruptionBudget", "is overrun", "are overrun")
	add(command.Nowhere, plan.Summary.Nowhere, "pod", "fits no node", "fit no node")
	if AsksWhereTo(plan) && uncertain(plan) > 0 {
		what := fmt.Sprintf("%s may fit no node", sentence.Counted(uncertain(plan), "pod"))
		found[command.Nowhere] = strings.TrimPrefix(found[command.Nowhere]+", "+what, ", ")
	}
	return found
}

// firstOf returns the first lines, and says how many more of their kind there are.
func firstOf(lines []string, what, does, do string) []string {
	more := len(lines) - most
	if more <= 0 {
		return lines
	}
	if more > 1 {
		what, does = what+"s", do
	}
	return append(lines[:most:most], fmt.Sprintf("%d more %s %s.", more, what, does))
}

// budgets says which PodDisruptionBudgets are overrun, and which are asked for more than they allow.
func budgets(plan *cliv1alpha1.TaintPlan) []string {
	var overrun, asked []string
	byBreach := func(a, b cliv1alpha1.PlannedBudget) int { return b.Breach - a.Breach }
	worst := slices.SortedStableFunc(slices.Values(plan.Budgets), byBreach)
	for _, budget := range worst {
		allows := fmt.Sprintf("PodDisruptionBudget %s/%s allows %s",
			budget.Namespace, budget.Name, sentence.Counted(int(budget.Allowed), "disruption"))
		if budget.Breach > 0 {
			overrun = append(overrun, fmt.Sprintf("%s, but %s.", allows, missing(budget)))
		}
		if budget.Asked > int(budget.Allowed) {
			asked = append(asked, fmt.Sprintf("%s, so it delays evictions: EvictionPolicies use the Eviction API for %s.",
				allows, sentence.Counted(budget.Asked, "pod")))
		}
	}
	lines := firstOf(overrun, "PodDisruptionBudget", "is overrun", "are overrun")
	if len(overrun) > 0 {
		lines = append(lines, "kubectl drain respects budgets; taints do not"+unlessAsked(plan)+".")
	}
	const tooFew = " too few disruptions for EvictionPolicies"
	asked = firstOf(asked, "PodDisruptionBudget", "allows"+tooFew, "allow"+tooFew)
	return slices.Concat(lines, asked)
}

// missing says how many pods of an overrun budget leave, and how many of them are missing at one time if it is not all.
func missing(budget cliv1alpha1.PlannedBudget) string {
	if most := int(budget.Allowed) + budget.Breach; most < budget.Leave {
		return fmt.Sprintf("%d of its %d pods that leave %s missing at one time", most, budget.Leave, are(most))
	}
	return fmt.Sprintf("%d of its pods %s", budget.Leave, leave(budget.Leave))
}

// unlessAsked is the exception to the rule that evictions ignore budgets.
func unlessAsked(plan *cliv1alpha1.TaintPlan) string {
	if slices.ContainsFunc(plan.Budgets, func(budget cliv1alpha1.PlannedBudget) bool { return budget.Asked > 0 }) {
		return ", except where an EvictionPolicy uses the Eviction API"
	}
	return ""
}

// Policies says which breakers would trip, how long the evictions take if a policy sets a pace, and what a resume would
// let go.
func Policies(plan *cliv1alpha1.TaintPlan) []string {
	var lines []string
	for _, p := range plan.Policies {
		if p.TripsAt != nil {
			when := strings.Replace(in(plan, p.TripsAt), "now", "at once", 1)
			lines = append(lines, fmt.Sprintf("EvictionPolicy %s would trip %s: %s.", p.Name, when, p.Trips))
		}
	}
	for _, p := range plan.Policies {
		if p.LastAt != nil {
			lines = append(lines, fmt.Sprintf("EvictionPolicy %s sets a pace of %s. It lets %s go %s, at %s.",
				p.Name, p.Pace, sentence.Agree(p.Pods, "the pod", "the last pod"), in(plan, p.LastAt), sentence.Absolute(p.LastAt.Time)))
		}
	}
	return append(lines, resumed(plan)...)
}

// resumed says what happens after a resume to the pods that pauses and open breakers keep.
func resumed(plan *cliv1alpha1.TaintPlan) []string {
	is := plan.Resumed
	if is == nil {
		return nil
	}
	release := policies.Release{
		Leave: is.Leave, Asked: is.Asked, Late: is.Late, First: is.LateFrom.Duration, Last: is.LateTo.Duration,
	}
	return []string{fmt.Sprintf("Pauses and open breakers keep %s: 'kubectl taintkeeper resume --all' lets %d leave.%s",
		sentence.Counted(is.Pods, "pod"), is.Leave, release.Deadlines())}
}

// objections counts the due pods by the answer of policies. It is empty if no policy keeps one.
func objections(plan *cliv1alpha1.TaintPlan) string {
	free, asked := plan.Summary.Leave, 0
	var held []string
	for _, p := range plan.Policies {
		free, asked = free-p.Asked-p.Held, asked+p.Asked
		if p.Held > 0 {
			held = append(held, fmt.Sprintf("%d %s held by policy %s", p.Held, are(p.Held), p.Name))
		}
	}
	paced := pacedBy(plan)
	if asked == 0 && len(held) == 0 && paced == nil {
		return ""
	}
	var parts []string
	if free > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", free, leave(free))+atPace(paced, free))
	}
	if asked > 0 {
		parts = append(parts, fmt.Sprintf("%d %s if PodDisruptionBudgets allow it", asked, leave(asked)))
	}
	return ": " + strings.Join(slices.Concat(parts, held), ", ")
}

// atPace says that pods leave at the pace of a policy. It is empty if they do not.
func atPace(paced *cliv1alpha1.PlannedPolicy, pods int) string {
	switch {
	case paced == nil:
		return ""
	case paced.Pods < pods:
		return ", some at the pace of policy " + paced.Name
	}
	return " at the pace of policy " + paced.Name
}

// pacedBy returns the slowest policy whose pace lets pods leave after the last one is due, or nil.
func pacedBy(plan *cliv1alpha1.TaintPlan) *cliv1alpha1.PlannedPolicy {
	var slowest *cliv1alpha1.PlannedPolicy
	for i := range plan.Policies {
		p := &plan.Policies[i]
		if p.LastAt == nil || !p.LastAt.After(plan.Summary.Last.Time) || !p.LastAt.After(plan.At.Time) {
			continue
		}
		if slowest == nil || p.LastAt.After(slowest.LastAt.Time) {
			slowest = p
		}
	}
	return slowest
}

func are(n int) string { return sentence.Agree(n, "is", "are") }

func leave(n int) string { return sentence.Agree(n, "leaves", "leave") }

// in formats the time until an instant of a plan.
func in(plan *cliv1alpha1.TaintPlan, at *metav1.MicroTime) string {
	if text := sentence.Relative(plan.At.Time, at.Time); text != "now" {
		return "in " + text
	}
	return "now"
}

// AsksWhereTo reports whether a plan says where pods would go.
func AsksWhereTo(plan *cliv1alpha1.TaintPlan) bool {
	return slices.ContainsFunc(plan.Pods, func(pod cliv1alpha1.PlannedPod) bool { return pod.WhereTo != nil })
}

// mostWarned is how many different warnings are printed above a table.
const mostWarned = 10

// whereToLines says how many pods have somewhere to go, and what to look at, with one line for all pods that have the
// same warning.
func whereToLines(plan *cliv1alpha1.TaintPlan) []string {
	if !AsksWhereTo(plan) {
		return nil
	}
	s := plan.Summary
	parts := []string{fmt.Sprintf("%d to a node", s.Placed), fmt.Sprintf("%d nowhere", s.Nowhere)}
	if uncertain := uncertain(plan); uncertain > 0 {
		parts = append(parts, fmt.Sprintf("%d uncertain", uncertain))
	}
	if s.NoSuccessor > 0 {
		parts = append(parts, fmt.Sprintf("%d without a successor", s.NoSuccessor))
	}
	lines := []string{fmt.Sprintf("Where the pods that leave would go: %s.", strings.Join(parts, ", "))}
	if s.LeaveAgain > 0 {
		lines = append(lines, fmt.Sprintf("Of the pods that go to a node, %d must leave it again: %s its NoExecute taints only for a while.",
			s.LeaveAgain, sentence.Agree(s.LeaveAgain, "it tolerates", "they tolerate")))
	}
	if s.Preempted > 0 {
		lines = append(lines, fmt.Sprintf("To make room for them, %s of lower priority %s preempted.",
			sentence.Counted(s.Preempted, "more pod"), sentence.Agree(s.Preempted, "is", "are")))
	}
	remarks := remarksOf(plan)
	for _, remark := range remarks[:min(len(remarks), mostWarned)] {
		lines = append(lines, fmt.Sprintf("%s: %s", sentence.Also(remark.pods), remark.message))
	}
	if more := len(remarks) - mostWarned; more > 0 {
		lines = append(lines, fmt.Sprintf("%s: -o json and -o yaml list all.", sentence.Counted(more, "more warning")))
	}
	return lines
}

// uncertain counts the pods for which it is not certain that a node would take them.
func uncertain(plan *cliv1alpha1.TaintPlan) int {
	s := plan.Summary
	return s.Leave - s.Placed - s.Nowhere - s.NoSuccessor
}

// remark is a warning or reason that some pods share.
type remark struct {
	kind    cliv1alpha1.PlacementWarningType
	message string
	pods    []string
}

// gravest is the order of warnings.
var gravest = []cliv1alpha1.PlacementWarningType{
	cliv1alpha1.WarningNowhere, cliv1alpha1.WarningPreempts, cliv1alpha1.WarningVolume, cliv1alpha1.WarningOutAgain,
	cliv1alpha1.WarningZoneSpread, cliv1alpha1.WarningSkew,
	noAnswer,
}

// noAnswer is the kind of remark that says why there is no answer, or no successor.
const noAnswer cliv1alpha1.PlacementWarningType = ""

// remarksOf returns the warnings of a plan, and the reasons why no node was asked, the gravest first.
func remarksOf(plan *cliv1alpha1.TaintPlan) []*remark {
	var all []*remark
	byMessage := map[string]*remark{}
	add := func(kind cliv1alpha1.PlacementWarningType, message, pod string) {
		if byMessage[message] == nil {
			byMessage[message] = &remark{kind: kind, message: message}
			all = append(all, byMessage[message])
		}
		byMessage[message].pods = append(byMessage[message].pods, pod)
	}
	for _, pod := range plan.Leaving() {
		if pod.WhereTo == nil {
			continue
		}
		name := pod.Namespace + "/" + pod.Name
		if pod.WhereTo.Reason != "" {
			add(noAnswer, pod.WhereTo.Reason, name)
		}
		for _, warning := range pod.WhereTo.Warnings {
			add(warning.Type, warning.Message, name)
		}
	}
	slices.SortStableFunc(all, func(a, b *remark) int {
		return slices.Index(gravest, a.kind) - slices.Index(gravest, b.kind)
	})
	return all
}
