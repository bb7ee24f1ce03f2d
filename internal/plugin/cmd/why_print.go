// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// explainer prints an explanation for people: the answer, the reasons, and what would alter it.
type explainer struct {
	*show.Printer
	*cliv1alpha1.Explanation
}

func printAll(o *show.Printer, explanation *cliv1alpha1.Explanation) {
	e := explainer{o, explanation}
	if o.Format == show.Name {
		o.Names(e.Explanation.Notes, []string{"pod/" + e.Name})
		return
	}
	answer := e.answer()
	if e.State == cliv1alpha1.PodBound || e.State == cliv1alpha1.PodFinished {
		answer[0] = show.EvictedBy(e.EvictedBy, answer[0])
	}
	for _, line := range answer {
		o.Line("%s", line)
	}
	if e.State == cliv1alpha1.PodGone {
		return
	}
	e.printTiming()
	e.printTaints()
	e.printTolerations()
	e.printPolicies()
	e.printClasses()
	e.printChanges()
	e.printNotes()
}

// answer says what the pod does, and why.
func (e *explainer) answer() []string {
	pod := fmt.Sprintf("Pod %s/%s", e.Namespace, e.Name)
	switch e.State {
	case cliv1alpha1.PodPending:
		return []string{fmt.Sprintf("%s has no node: %s.", pod, e.refusals())}
	case cliv1alpha1.PodFinished:
		return append([]string{pod + " has finished, and " + e.finished()}, slices.Concat(e.why(), e.objection())...)
	case cliv1alpha1.PodNodeUnknown:
		return []string{fmt.Sprintf("%s on node %s: it is not known whether it leaves.", pod, e.Node), e.Reason}
	case cliv1alpha1.PodGone:
		return e.gone(pod)
	case cliv1alpha1.PodTerminating:
		since := e.Terminating.Since.Time
		return []string{fmt.Sprintf("%s has been terminating for %s, since %s.", pod+e.onNode(), sentence.Between(since, e.At.Time), sentence.Absolute(since)), e.Reason}
	case cliv1alpha1.PodStatic, cliv1alpha1.PodNodeGone:
		return []string{pod + e.onNode() + ": taints do not affect it.", e.Reason}
	}
	switch {
	case !e.Leaves:
		return append([]string{fmt.Sprintf("%s stays on node %s.", pod, e.Node)}, e.why()...)
	case e.Due.Time.Before(e.At.Time):
		return append([]string{fmt.Sprintf("%s was due to leave node %s %s ago, at %s, and is still there.", pod, e.Node, sentence.Between(e.Due.Time, e.At.Time), sentence.Absolute(e.Due.Time))}, slices.Concat(e.why(), e.objection())...)
	}
	leaves := "leaves"
	if e.Answer != nil && e.Answer.Says != cliv1alpha1.PolicyFree {
		leaves = "is due to leave"
	}
	line := fmt.Sprintf("%s %s node %s %s, at %s.",
		pod, leaves, e.Node, sentence.When(e.At.Time, e.Due.Time), sentence.Absolute(e.Due.Time))
	return append([]string{line}, slices.Concat(e.why(), e.objection())...)
}

// gone says what an event says about a pod that does not exist any more.
func (e *explainer) gone(pod string) []string {
	from, because := "", "Its event does not say why: only Taintkeeper's events name the node and the taint."
	if e.Node != "" {
		from = " from node " + e.Node
	}
	if e.Taint != "" {
		because = fmt.Sprintf("The reason was taint %s.", e.Taint)
	}
	if e.Due != nil {
		because += fmt.Sprintf(" It was due at %s.", sentence.Absolute(e.Due.Time))
	}
	at := e.Evicted.At.Time
	return []string{fmt.Sprintf("%s is gone: %s evicted it%s %s ago, at %s.", pod, evictorName(e.Evicted.By), from, sentence.Between(at, e.At.Time), sentence.Absolute(at)), because}
}

// onNode names the node of a pod that has one.
func (e *explainer) onNode() string {
	if e.Node == "" {
		return ""
	}
	return " on node " + e.Node
}

func (e *explainer) finished() string {
	switch {
	case e.Node == "":
		return "is on no node, so no taint counts."
	case !e.Leaves:
		return fmt.Sprintf("no taint of node %s causes its deletion.", e.Node)
	case e.Due.Time.Before(e.At.Time):
		return fmt.Sprintf("was due to be deleted %s ago, at %s, like a running pod.", sentence.Between(e.Due.Time, e.At.Time), sentence.Absolute(e.Due.Time))
	}
	return fmt.Sprintf("is due to be deleted %s, at %s, like a running pod.", sentence.When(e.At.Time, e.Due.Time), sentence.Absolute(e.Due.Time))
}

// why is the second line of the answer.
func (e *explainer) why() []string {
	switch {
	case e.Taint == "" && e.Node == "":
		return nil
	case e.Taint == "":
		return []string{"The node has no NoExecute taint."}
	case e.Toleration == nil:
		return []string{fmt.Sprintf("No toleration matches taint %s.", e.Taint)}
	}
	return []string{fmt.Sprintf("Taint %s is tolerated by %s: %s.", e.Taint, e.position(), show.Toleration(*e.Toleration))}
}

// position names the toleration that applies to the deciding taint.
func (e *explainer) position() string {
	for i := range e.Taints {
		if taint := &e.Taints[i]; taint.Taint == e.Taint && taint.Toleration != nil {
			return at(*taint.Toleration)
		}
	}
	return "a toleration"
}

func at(position int) string { return fmt.Sprintf("tolerations[%d]", position) }

func (e *explainer) refusals() string {
	all, refuse := 0, 0
	for i := range e.NodeClasses {
		all += len(e.NodeClasses[i].Nodes)
		if len(e.NodeClasses[i].Refuse) > 0 {
			refuse += len(e.NodeClasses[i].Nodes)
		}
	}
	switch {
	case all == 0:
		return "there is no node that it can go to"
	case refuse == 0:
		return "taints are not the reason: they keep it off 0 of " + sentence.Counted(all, "node")
	case refuse == all:
		return fmt.Sprintf("taints keep it off %d of %s", refuse, sentence.Counted(all, "node"))
	}
	return fmt.Sprintf("taints keep it off %d of %d nodes, but not off the rest", refuse, all)
}

// section begins a part of the text.
func (e *explainer) section(format string, args ...any) {
	if e.NoHeaders {
		return
	}
	e.Line("")
	e.Line(format, args...)
}

func (e *explainer) printTiming() {
	t := e.Timing
	if t == nil {
		return
	}
	later := "the later of the two: the taint"
	switch {
	case t.Start.Time.Equal(t.Bound.Time):
		later = "the later of the two: the binding"
	case !t.Start.Time.Equal(t.Since.Time): // the rule of kube-controller-manager
		later = "when the leader of kube-controller-manager began to lead"
	}
	rows := []instant{
		{"since", &t.Since, sourceWords[t.SinceFrom]}, {"bound", &t.Bound, sourceWords[t.BoundFrom]},
		{"start", &t.Start, later},
	}
	if t.TolerationSeconds != nil {
		rows = append(rows, instant{"tolerated", nil, e.position()})
	}
	e.section("How the due time is computed:")
	show.Table(e.Printer, []show.Column[instant]{
		{Title: "Time", Cell: func(i instant) string { return i.name }},
		{Title: "At", Cell: func(i instant) string {
			if i.at == nil {
				return fmt.Sprintf("+ %ds", *t.TolerationSeconds)
			}
			return e.Instant(e.At.Time, i.at)
		}},
		{Title: "Relative", Cell: func(i instant) string {
			if i.at == nil {
				return ""
			}
			return sentence.When(e.At.Time, i.at.Time)
		}},
		{Title: "From", Below: true, Cell: func(i instant) string { return i.from }},
	}, append(rows, instant{"due", &t.Due, ""}))
}

// instant is a time that matters for the due time, and where it comes from. The time of a toleration is its seconds.
type instant struct {
	name string
	at   *metav1.MicroTime
	from string
}

// sourceWords say where an instant was read. The API records whole seconds, and no pod is evicted early.
var sourceWords = map[cliv1alpha1.TimeSource]string{
	cliv1alpha1.FromTimeAdded:         "the end of the second in timeAdded",
	cliv1alpha1.FromManagedFields:     "about: when the taints were last written, according to managedFields",
	cliv1alpha1.FromPodScheduled:      "the end of the second in PodScheduled",
	cliv1alpha1.FromCreationTimestamp: "the end of the second in creationTimestamp",
	cliv1alpha1.FromNow:               "now: no earlier time is recorded",
}

func (e *explainer) printTaints() {
	if len(e.Taints) == 0 {
		return
	}
	type taint = cliv1alpha1.ExplainedTaint
	e.section("The taints of node %s:", e.Node)
	show.Table(e.Printer, []show.Column[taint]{
		{Title: "Taint", Cell: func(t taint) string { return t.Taint }},
		{Title: "Age", Cell: func(t taint) string {
			if t.TimeAdded.IsZero() {
				return "unknown"
			}
			return sentence.Age(t.TimeAdded.Time, e.At.Time)
		}},
		{Title: "Tolerated", Cell: func(t taint) string { return e.tolerated(&t) }},
		{Title: "By", Cell: func(t taint) string {
			if t.Toleration == nil {
				return ""
			}
			return at(*t.Toleration)
		}},
		{Title: "On its own", Below: true, Cell: func(t taint) string { return e.means(&t) }},
	}, e.Taints)
	if e.LastWrite != nil && !e.NoHeaders {
		e.Line("%s", lastWrite(e.LastWrite, e.At.Time))
	}
}

// lastWrite says who last wrote the taints of a node.
func lastWrite(write *cliv1alpha1.Write, now time.Time) string {
	return fmt.Sprintf("%s last wrote the taints of the node, %s ago, at %s.", write.By, sentence.Between(write.At.Time, now), sentence.Absolute(write.At.Time))
}

func (e *explainer) tolerated(taint *cliv1alpha1.ExplainedTaint) string {
	switch taint.Tolerated {
	case cliv1alpha1.ToleratedIndefinitely:
		return "forever"
	case cliv1alpha1.ToleratedForAWhile:
		return fmt.Sprintf("for %ds", *e.Tolerations[*taint.Toleration].Toleration.TolerationSeconds)
	}
	return "not at all"
}

func (e *explainer) means(taint *cliv1alpha1.ExplainedTaint) string {
	words := "stays"
	switch {
	case taint.Effect != corev1.TaintEffectNoExecute:
		return "nothing for a pod that already runs here"
	case taint.Due != nil && taint.Due.Time.Before(e.At.Time):
		words = fmt.Sprintf("was due %s ago", sentence.Between(taint.Due.Time, e.At.Time))
	case taint.Due != nil:
		words = "leaves " + sentence.When(e.At.Time, taint.Due.Time)
	}
	if taint.Decides && e.Leaves {
		words += ", and decides"
	}
	return words
}

func (e *explainer) printTolerations() {
	if len(e.Tolerations) == 0 {
		e.section("The pod has no tolerations.")
		return
	}
	positions := make([]int, len(e.Tolerations))
	for i := range positions {
		positions[i] = i
	}
	e.section("The pod's tolerations:")
	show.Table(e.Printer, []show.Column[int]{
		{Title: "#", Cell: strconv.Itoa},
		{Title: "Toleration", Cell: func(i int) string { return show.Toleration(e.Tolerations[i].Toleration) }},
		{Title: "Applies to", Below: true, Cell: func(i int) string { return e.countsFor(&e.Tolerations[i]) }},
		{Title: "From", Below: true, Cell: func(i int) string {
			t := &e.Tolerations[i]
			if t.Certain || t.Origin == cliv1alpha1.OriginUnknown {
				return t.OriginDetail
			}
			return t.OriginDetail + ", inferred from its form"
		}},
	}, positions)
}

func (e *explainer) countsFor(toleration *cliv1alpha1.ExplainedToleration) string {
	switch {
	case len(toleration.Counts) > 0:
		return strings.Join(toleration.Counts, ", ")
	case toleration.ShadowedBy != nil:
		return fmt.Sprintf("never: %s matches everything this one matches", at(*toleration.ShadowedBy))
	case len(toleration.Matches) > 0:
		return fmt.Sprintf("none here: %s comes first", at(e.first(toleration.Matches[0])))
	case e.Node == "" || e.State == cliv1alpha1.PodNodeUnknown || e.State == cliv1alpha1.PodNodeGone:
		return ""
	}
	return "none here"
}

// first returns the position of the toleration that applies to a taint.
func (e *explainer) first(taint string) int {
	for i := range e.Taints {
		if e.Taints[i].Taint == taint && e.Taints[i].Toleration != nil {
			return *e.Taints[i].Toleration
		}
	}
	return 0
}

func (e *explainer) printClasses() {
	if len(e.NodeClasses) == 0 {
		return
	}
	type class = cliv1alpha1.NodeClass
	e.section("The nodes, grouped by taints:")
	show.Table(e.Printer, []show.Column[class]{
		{Title: "Nodes", Cell: func(c class) string { return strconv.Itoa(len(c.Nodes)) }},
		{Title: "Taints", Cell: func(c class) string { return strings.Join(c.Taints, ", ") }},
		{Title: "Answer", Below: true, Cell: func(c class) string {
			switch {
			case len(c.Refuse) > 0:
				return "refuse it: " + strings.Join(c.Refuse, ", ")
			case c.LeavesAfterSeconds != nil:
				return fmt.Sprintf("open, but it leaves again after %ds", *c.LeavesAfterSeconds)
			}
			return "open"
		}},
		{Title: "Names", Below: true, Cell: func(c class) string { return sentence.Some(c.Nodes) }},
	}, e.NodeClasses)
}

func (e *explainer) printChanges() {
	if len(e.Changes) == 0 {
		return
	}
	leaves := "it leaves"
	if e.Answer.Stays() {
		leaves = "it is due" // policies may still hold it
	}
	if e.Terminating == nil {
		e.section("The smallest changes that would alter the answer:")
	} else {
		e.section("What helps, one of these:")
	}
	for i := range e.Changes {
		change := &e.Changes[i]
		what := strings.TrimSuffix(change.What, ".")
		switch {
		case e.Terminating != nil:
			e.Line("- %s.", what)
		case change.Nodes > 0:
			e.Line("- %s: the taints of %s no longer keep it away.", what, sentence.Counted(change.Nodes, "node"))
		case !change.Leaves:
			e.Line("- %s: it stays.", what)
		case change.Due.Time.Before(e.At.Time):
			e.Line("- %s: it is due at once.", what)
		default:
			e.Line("- %s: %s %s, at %s.", what, leaves, sentence.When(e.At.Time, change.Due.Time), sentence.Absolute(change.Due.Time))
		}
		if change.Command != "" {
			e.Line("    %s", change.Command)
		}
	}
}

func (e *explainer) printNotes() {
	if len(e.Explanation.Notes) > 0 && !e.NoHeaders {
		e.Line("")
	}
	for _, note := range e.Explanation.Notes {
		e.Line("Note: %s", note)
	}
}

// objection says which EvictionPolicies keep a pod that is due, until when, and how to let it go.
func (e *explainer) objection() []string {
	switch {
	case e.Answer == nil || e.Answer.Says == cliv1alpha1.PolicyFree:
		return nil
	case e.Answer.Says == cliv1alpha1.PolicyAsk:
		return []string{e.Answer.Message + "."}
	}
	var lines, keep, release []string
	for i := range e.Policies {
		p := &e.Policies[i]
		if !p.Answer.Stays() {
			continue
		}
		lines, keep = append(lines, p.Answer.Message+"."), append(keep, p.Name)
		if p.Release != "" {
			release = append(release, "- "+p.Release+".")
		}
		if p.ReleaseCommand != "" {
			release = append(release, "    "+p.ReleaseCommand)
		}
	}
	if len(keep) == 0 { // each policy keeps the pod because of a different taint
		lines, keep = []string{e.Answer.Message + "."}, []string{e.Answer.Policy}
	}
	lines = append(lines, e.until(keep))
	if len(release) > 0 {
		lines = append(append(lines, "To let it go sooner:"), release...)
	}
	return lines
}

// until says how long policies keep the pod.
func (e *explainer) until(keep []string) string {
	leaves := e.Answer.LeavesAt
	switch {
	case leaves != nil:
		return fmt.Sprintf("If nothing else changes, it stays until EvictionPolicy %s lets it go, %s, at %s.",
			e.Answer.LastPolicy, sentence.When(e.At.Time, leaves.Time), sentence.Absolute(leaves.Time))
	case len(keep) == 1:
		return fmt.Sprintf("It stays until EvictionPolicy %s lets it go.", keep[0])
	}
	return fmt.Sprintf("It stays until all of these EvictionPolicies let it go: %s.", sentence.Enumerate(keep))
}

func (e *explainer) printPolicies() {
	if len(e.Policies) == 0 {
		return
	}
	type policy = cliv1alpha1.ExplainedPolicy
	e.section("The EvictionPolicies:")
	show.Table(e.Printer, []show.Column[policy]{
		{Title: "Policy", Cell: func(p policy) string { return p.Name }},
		{Title: "Selects it", Cell: func(p policy) string { return whySelects(&p) }},
		{Title: "Says when due", Below: true, Cell: func(p policy) string { return e.says(&p) }},
		{Title: "Lets it go", Below: true, Cell: func(p policy) string { return e.letsGo(&p) }},
		{Title: "Pace", Cell: func(p policy) string { return p.Pace }},
	}, e.Policies)
}

func whySelects(p *cliv1alpha1.ExplainedPolicy) string {
	if p.Selects {
		return "yes"
	}
	return "no: " + p.Mismatch
}

// says is what one policy says about the pod: "waits" if its objection ends by itself, and "holds" if not.
func (e *explainer) says(p *cliv1alpha1.ExplainedPolicy) string {
	switch {
	case p.DryRun && p.Selects:
		return "lets it go: it is a dry run"
	case p.Answer == nil && p.Selects && e.Leaves:
		return "nothing about these taints"
	case p.Answer == nil:
		return ""
	case p.Answer.Says == cliv1alpha1.PolicyFree:
		return "lets it go"
	case p.Answer.Says == cliv1alpha1.PolicyAsk:
		return "asks the Eviction API"
	case p.Answer.Says == cliv1alpha1.PolicyWait, slices.Contains(waiting, policy.Why(p.Answer.Reason)):
		return "waits: " + p.Answer.Reason
	}
	return "holds: " + p.Answer.Reason
}

// waiting are the reasons that end when other pods have started or left.
var waiting = []policy.Why{policy.Budget, policy.BudgetBusy, policy.Paced, policy.Settling}

// letsGo says when a policy releases the pod if nothing but the time changes.
func (e *explainer) letsGo(p *cliv1alpha1.ExplainedPolicy) string {
	switch {
	case p.Answer == nil:
		return ""
	case p.Answer.Says == cliv1alpha1.PolicyAsk:
		return "asks at once"
	case p.Answer.LastPolicy == "":
		return "at once"
	case p.Answer.Reason == string(policy.Paced):
		return "at its pace"
	case p.Answer.LeavesAt == nil:
		return "not by itself"
	}
	return sentence.When(e.At.Time, p.Answer.LeavesAt.Time)
}
