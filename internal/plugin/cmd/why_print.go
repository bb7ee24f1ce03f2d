// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"strconv"
	"strings"

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

func (e *explainer) print() {
	if e.Format == show.Name {
		e.Names(e.Explanation.Notes, []string{"pod/" + e.Name})
		return
	}
	for _, line := range e.answer() {
		e.Line("%s", line)
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
	if len(e.Explanation.Notes) > 0 && !e.NoHeaders {
		e.Line("")
	}
	for _, note := range e.Explanation.Notes {
		e.Line("Note: %s", note)
	}
}

// answer says what the pod does, and why.
func (e *explainer) answer() []string {
	pod := fmt.Sprintf("Pod %s/%s", e.Namespace, e.Name)
	on := pod
	if e.Node != "" {
		on += " on node " + e.Node
	}
	switch e.State {
	case cliv1alpha1.PodPending:
		return []string{fmt.Sprintf("%s has no node: %s.", pod, e.refusals())}
	case cliv1alpha1.PodNodeUnknown:
		return []string{on + ": it is not known whether it leaves.", e.Reason}
	case cliv1alpha1.PodGone:
		return e.gone(pod)
	case cliv1alpha1.PodTerminating:
		since := e.Terminating.Since.Time
		return []string{fmt.Sprintf("%s has been terminating for %s, since %s.", on, sentence.Between(since, e.At.Time), sentence.Absolute(since)), e.Reason}
	case cliv1alpha1.PodStatic, cliv1alpha1.PodNodeGone:
		return []string{on + ": taints do not affect it.", e.Reason}
	case cliv1alpha1.PodFinished:
		if pod += ", which has finished,"; e.Node == "" {
			return []string{pod + " is on no node: taints do not affect it."}
		}
	case cliv1alpha1.PodBound:
	}
	return e.verdict(pod)
}

// verdict says whether and when a pod leaves its node, and why.
func (e *explainer) verdict(pod string) []string {
	switch {
	case !e.Leaves:
		pod += fmt.Sprintf(" stays on node %s.", e.Node)
	case e.Due.Time.Before(e.At.Time):
		pod += fmt.Sprintf(" was due to leave node %s %s, and is still there.", e.Node, e.when(e.Due))
	case e.Answer != nil && e.Answer.Says != cliv1alpha1.PolicyFree:
		pod += fmt.Sprintf(" is due to leave node %s %s.", e.Node, e.when(e.Due))
	default:
		pod += fmt.Sprintf(" leaves node %s %s.", e.Node, e.when(e.Due))
	}
	why := "The node has no NoExecute taint."
	switch {
	case e.Toleration != nil:
		why = fmt.Sprintf("Taint %s is tolerated by %s: %s.", e.Taint, e.position(), show.Toleration(*e.Toleration))
	case e.Taint != "":
		why = fmt.Sprintf("No toleration matches taint %s.", e.Taint)
	}
	return append([]string{show.EvictedBy(e.EvictedBy, pod), why}, e.objection()...)
}

// when says when an instant is.
func (e *explainer) when(at *metav1.MicroTime) string {
	return sentence.When(e.At.Time, at.Time) + ", at " + sentence.Absolute(at.Time)
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
	return []string{fmt.Sprintf("%s is gone: %s evicted it%s %s.", pod, evictorName(e.Evicted.By), from, e.when(&e.Evicted.At)), because}
}

// position names the toleration that applies to the deciding taint.
func (e *explainer) position() string {
	for i := range e.Taints {
		if taint := &e.Taints[i]; taint.Taint == e.Taint && taint.Toleration != nil {
			return at(taint.Toleration)
		}
	}
	return "a toleration"
}

// at names the toleration at a position, if there is one.
func at(position *int) string {
	if position == nil {
		return ""
	}
	return fmt.Sprintf("tolerations[%d]", *position)
}

func (e *explainer) refusals() string {
	all, refuse := 0, 0
	for i := range e.NodeClasses {
		all += len(e.NodeClasses[i].Nodes)
		if len(e.NodeClasses[i].Refuse) > 0 {
			refuse += len(e.NodeClasses[i].Nodes)
		}
	}
	switch nodes := sentence.Counted(all, "node"); {
	case all == 0:
		return "there is no node that it can go to"
	case refuse == 0:
		return "taints are not the reason: they keep it off 0 of " + nodes
	case refuse < all:
		return fmt.Sprintf("taints keep it off %d of %s, but not off the rest", refuse, nodes)
	default:
		return fmt.Sprintf("taints keep it off %d of %s", refuse, nodes)
	}
}

// section begins a part of the text.
func (e *explainer) section(title string) {
	if !e.NoHeaders {
		e.Line("")
		e.Line("%s", title)
	}
}

// table prints a part of the text as a table, if it has rows. From a column on, cells are sentences.
func (e *explainer) table(title string, columns []string, sentences int, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	e.section(title)
	var all []show.Column[[]string]
	for i, title := range columns {
		cell := func(row []string) string { return row[i] }
		all = append(all, show.Column[[]string]{Title: title, Below: i >= sentences, Cell: cell})
	}
	show.Table(e.Printer, all, rows)
}

// sourceWords say where an instant was read. The API records whole seconds, and no pod is evicted early.
var sourceWords = map[cliv1alpha1.TimeSource]string{
	cliv1alpha1.FromTimeAdded:         "the end of the second in timeAdded",
	cliv1alpha1.FromManagedFields:     "about: when the taints were last written, according to managedFields",
	cliv1alpha1.FromPodScheduled:      "the end of the second in PodScheduled",
	cliv1alpha1.FromCreationTimestamp: "the end of the second in creationTimestamp",
	cliv1alpha1.FromNow:               "now: no earlier time is recorded",
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
	instant := func(name string, at metav1.MicroTime, from string) []string {
		return []string{name, e.Instant(e.At.Time, &at), sentence.When(e.At.Time, at.Time), from}
	}
	rows := [][]string{
		instant("since", t.Since, sourceWords[t.SinceFrom]), instant("bound", t.Bound, sourceWords[t.BoundFrom]),
		instant("start", t.Start, later),
	}
	if t.TolerationSeconds != nil {
		rows = append(rows, []string{"tolerated", fmt.Sprintf("+ %ds", *t.TolerationSeconds), "", e.position()})
	}
	rows = append(rows, instant("due", t.Due, ""))
	e.table("How the due time is computed:", []string{"Time", "At", "Relative", "From"}, 3, rows)
}

func (e *explainer) printTaints() {
	var rows [][]string
	for i := range e.Taints {
		t, age, tolerated := &e.Taints[i], "unknown", "not at all"
		if !t.TimeAdded.IsZero() {
			age = sentence.Age(t.TimeAdded.Time, e.At.Time)
		}
		switch t.Tolerated {
		case cliv1alpha1.ToleratedIndefinitely:
			tolerated = "forever"
		case cliv1alpha1.ToleratedForAWhile:
			tolerated = show.TolerationSeconds(e.Tolerations[*t.Toleration].Toleration)
		case cliv1alpha1.ToleratedNotAtAll:
		}
		rows = append(rows, []string{t.Taint, age, tolerated, at(t.Toleration), e.means(t)})
	}
	e.table("The taints of node "+e.Node+":", []string{"Taint", "Age", "Tolerated", "By", "On its own"}, 4, rows)
	if e.LastWrite != nil && len(rows) > 0 && !e.NoHeaders {
		e.Line("%s last wrote the taints of the node, %s.", e.LastWrite.By, e.when(&metav1.MicroTime{Time: e.LastWrite.At.Time}))
	}
}

// means says what a taint alone means for the pod.
func (e *explainer) means(taint *cliv1alpha1.ExplainedTaint) string {
	words := "stays"
	switch {
	case taint.Effect != corev1.TaintEffectNoExecute:
		return "nothing for a pod that already runs here"
	case taint.Due != nil && taint.Due.Time.Before(e.At.Time):
		words = "was due " + sentence.When(e.At.Time, taint.Due.Time)
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
	}
	var rows [][]string
	for i := range e.Tolerations {
		t := &e.Tolerations[i]
		from := t.OriginDetail
		if !t.Certain && t.Origin != cliv1alpha1.OriginUnknown {
			from += ", inferred from its form"
		}
		rows = append(rows, []string{strconv.Itoa(i), show.Toleration(t.Toleration), e.countsFor(t), from})
	}
	e.table("The pod's tolerations:", []string{"#", "Toleration", "Applies to", "From"}, 2, rows)
}

// countsFor says which taints a toleration applies to.
func (e *explainer) countsFor(toleration *cliv1alpha1.ExplainedToleration) string {
	switch {
	case len(toleration.Counts) > 0:
		return strings.Join(toleration.Counts, ", ")
	case toleration.ShadowedBy != nil:
		return fmt.Sprintf("never: %s matches everything this one matches", at(toleration.ShadowedBy))
	case len(toleration.Matches) > 0:
		return "none here: an earlier one matches"
	case e.Node == "" || e.State == cliv1alpha1.PodNodeUnknown || e.State == cliv1alpha1.PodNodeGone:
		return ""
	}
	return "none here"
}

func (e *explainer) printClasses() {
	var rows [][]string
	for i := range e.NodeClasses {
		c, answer := &e.NodeClasses[i], "open"
		switch {
		case len(c.Refuse) > 0:
			answer = "refuse it: " + strings.Join(c.Refuse, ", ")
		case c.LeavesAfterSeconds != nil:
			answer = fmt.Sprintf("open, but it leaves again after %ds", *c.LeavesAfterSeconds)
		}
		number := strconv.Itoa(len(c.Nodes))
		rows = append(rows, []string{number, strings.Join(c.Taints, ", "), answer, sentence.Some(c.Nodes)})
	}
	e.table("The nodes, grouped by taints:", []string{"Nodes", "Taints", "Answer", "Names"}, 2, rows)
}

func (e *explainer) printChanges() {
	if len(e.Changes) == 0 {
		return
	}
	title, leaves := "The smallest changes that would alter the answer:", "it leaves"
	if e.Terminating != nil {
		title = "What helps, one of these:"
	}
	if e.Answer.Stays() {
		leaves = "it is due" // policies may still hold it
	}
	e.section(title)
	for i := range e.Changes {
		change := &e.Changes[i]
		follows := ": it stays"
		switch {
		case e.Terminating != nil:
			follows = ""
		case change.Nodes > 0:
			follows = fmt.Sprintf(": the taints of %s no longer keep it away", sentence.Counted(change.Nodes, "node"))
		case change.Leaves && change.Due.Time.Before(e.At.Time):
			follows = ": it is due at once"
		case change.Leaves:
			follows = ": " + leaves + " " + e.when(change.Due)
		}
		e.Line("- %s%s.", strings.TrimSuffix(change.What, "."), follows)
		if change.Command != "" {
			e.Line("    %s", change.Command)
		}
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
	if leaves := e.Answer.LeavesAt; leaves != nil {
		lines = append(lines, fmt.Sprintf("If nothing else changes, it stays until EvictionPolicy %s lets it go, %s.", e.Answer.LastPolicy, e.when(leaves)))
	} else {
		lines = append(lines, fmt.Sprintf("It stays until %s.", sentence.Agree(len(keep),
			"EvictionPolicy "+keep[0]+" lets it go", "all of these EvictionPolicies let it go: "+sentence.Enumerate(keep))))
	}
	if len(release) > 0 {
		lines = append(append(lines, "To let it go sooner:"), release...)
	}
	return lines
}

func (e *explainer) printPolicies() {
	var rows [][]string
	for i := range e.Policies {
		p, selects := &e.Policies[i], "yes"
		if !p.Selects {
			selects = "no: " + p.Mismatch
		}
		rows = append(rows, []string{p.Name, selects, p.Pace, e.says(p)})
	}
	e.table("The EvictionPolicies:", []string{"Policy", "Selects it", "Pace", "Says when due"}, 3, rows)
}

// says is what one policy says about the pod, and until when it keeps the pod if nothing but the time changes.
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
	}
	lasts := ""
	switch {
	case p.Answer.Reason == string(policy.Paced):
		lasts = ", at its pace"
	case p.Answer.LeavesAt != nil:
		lasts = " for " + sentence.Relative(e.At.Time, p.Answer.LeavesAt.Time)
	}
	return "keeps it: " + p.Answer.Reason + lasts
}
