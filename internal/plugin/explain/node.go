// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// onNode is the subject on its node: what the rule needs to know, and what it says.
type onNode struct {
	*Subject

	facts   verdict.Pod
	taints  []verdict.Taint // NoExecute
	decided verdict.Verdict
}

// explainNode adds what the taints of the pod's node mean for it.
func (s *Subject) explainNode(e *cliv1alpha1.Explanation) {
	on := onNode{Subject: s, facts: state.FactsOf(s.Pod, s.At), taints: state.Tainted(s.Node, s.At)}
	on.decided = s.Decide(on.facts, on.taints)
	e.LastWrite = state.LastWriteOf(s.Node)
	for i := range s.Node.Spec.Taints {
		on.explainTaint(e, &s.Node.Spec.Taints[i])
	}
	if e.Reason != "" { // taints do not decide
		return
	}
	decided := on.decided
	e.Leaves, e.Due, e.Toleration = decided.Leaves, state.DueOf(decided), decided.Toleration.DeepCopy()
	if decided.Taint.Key != "" {
		e.Taint = taints.Format(decided.Taint.Taint)
	}
	if decided.Leaves {
		e.Timing = on.timing()
	}
	e.Notes = append(e.Notes, sentence.Grouped(state.Undated(s.Node, on.taints, s.At))...)
	if state.Compares(on.facts.Tolerations) {
		e.Notes = append(e.Notes, state.ComparisonNotes(1)...)
	}
	on.note(e)
	on.explainPolicies(e)
	on.noteRestart(e)
	e.Changes = on.changes()
}

// explainTaint adds how the pod tolerates one taint of its node.
func (on *onNode) explainTaint(e *cliv1alpha1.Explanation, taint *corev1.Taint) {
	explained := cliv1alpha1.ExplainedTaint{
		Taint: taints.Format(*taint), Effect: taint.Effect, TimeAdded: taint.TimeAdded,
		Tolerated: cliv1alpha1.ToleratedNotAtAll,
	}
	// Judge matches a taint with any effect, but its instants are meaningful only for NoExecute.
	counted, evicts := verdict.Taint{Taint: *taint}, taint.Effect == corev1.TaintEffectNoExecute
	if i := slices.IndexFunc(on.taints, func(other verdict.Taint) bool { return other.MatchTaint(taint) }); i >= 0 {
		counted = on.taints[i]
	}
	reason := state.Rule.Judge(on.facts, counted)
	if reason.Toleration != nil {
		explained.Tolerated = cliv1alpha1.ToleratedIndefinitely
		explained.Toleration, explained.Shadowed = new(reason.TolerationIndex), reason.Shadowed
		counts := &e.Tolerations[reason.TolerationIndex]
		counts.Counts = append(counts.Counts, explained.Taint)
		for _, i := range append([]int{reason.TolerationIndex}, reason.Shadowed...) {
			e.Tolerations[i].Matches = append(e.Tolerations[i].Matches, explained.Taint)
		}
	}
	if on.IsBuiltIn() && evicts {
		reason = on.Decide(on.facts, []verdict.Taint{counted}).Reason
	}
	if evicts && reason.Leaves {
		explained.Due = new(metav1.NewMicroTime(reason.Due))
		if reason.Toleration != nil {
			explained.Tolerated = cliv1alpha1.ToleratedForAWhile
		}
	}
	explained.Decides = on.decided.Leaves && evicts && taint.Key == on.decided.Taint.Key
	e.Taints = append(e.Taints, explained)
}

// timing says how a due time is computed.
func (on *onNode) timing() *cliv1alpha1.Timing {
	decided := on.decided
	timing := &cliv1alpha1.Timing{
		Since: metav1.NewMicroTime(decided.Taint.Since), SinceFrom: cliv1alpha1.FromTimeAdded,
		Bound: metav1.NewMicroTime(on.facts.Bound), BoundFrom: cliv1alpha1.FromCreationTimestamp,
		Start: metav1.NewMicroTime(decided.Start),
		Due:   metav1.NewMicroTime(decided.Due),
	}
	if decided.Toleration != nil {
		timing.TolerationSeconds = decided.Toleration.TolerationSeconds
	}
	switch {
	case !decided.Taint.Since.Before(on.At):
		timing.SinceFrom = cliv1alpha1.FromNow
	case decided.Taint.TimeAdded.IsZero():
		timing.SinceFrom = cliv1alpha1.FromManagedFields
	}
	scheduled := func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue
	}
	switch bound := verdict.Bound(on.Pod); {
	case bound.IsZero() || bound.After(on.At):
		timing.BoundFrom = cliv1alpha1.FromNow
	case slices.ContainsFunc(on.Pod.Status.Conditions, scheduled):
		timing.BoundFrom = cliv1alpha1.FromPodScheduled
	}
	return timing
}

// note says why a taint counts from before it was added, and what Taintkeeper would do if that is different from what
// kube-controller-manager does.
func (on *onNode) note(e *cliv1alpha1.Explanation) {
	is, ours := on.decided, state.Rule.Decide(on.facts, on.taints)
	// A timeAdded in the future comes from a clock that is ahead. Such a taint counts from now.
	added := is.Taint.TimeAdded
	if is.Leaves && !added.IsZero() && !added.After(on.At) && is.Taint.Since.Before(added.Time) {
		e.Notes = append(e.Notes, fmt.Sprintf("Taint %s counts from before it was added, because not-ready and unreachable count as one taint and the other was there first.", e.Taint))
	}
	switch {
	case on.Forgot(is, on.At):
		e.Notes = append(e.Notes, "kube-controller-manager has probably tried without success to delete the pod. It tries five times within 50 ms, and "+
			"again when the pod's tolerations or the node's NoExecute taints change. Taintkeeper would try until the pod leaves.")
	case !on.IsBuiltIn() || ours.Leaves == is.Leaves && ours.Due.Sub(is.Due).Abs() <= time.Second:
	case !ours.Leaves:
		e.Notes = append(e.Notes, "With Taintkeeper, the pod would stay.")
	default:
		e.Notes = append(e.Notes, fmt.Sprintf("With Taintkeeper, the pod would leave at %s, because of taint %s.",
			sentence.Absolute(ours.Due), ours.Taint.Key))
	}
}

// noteRestart says what a restart of its kubelet does to a due pod that stays.
func (on *onNode) noteRestart(e *cliv1alpha1.Explanation) {
	if !e.Answer.Stays() || e.Due.After(on.At) || state.IsOver(on.Pod) {
		return
	}
	ours := slices.IndexFunc(on.Pod.Spec.Tolerations, taints.IsForNoTime)
	if taint := state.EndedBy(on.Pod.Spec.Tolerations, on.taints); taint != "" {
		e.Notes = append(e.Notes, fmt.Sprintf("The pod ends if its kubelet restarts, because no toleration matches taint %s. Taintkeeper adds one to a due pod that stays, which takes moments.", taint))
	} else if ours >= 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("tolerations[%d] keeps the pod alive if its kubelet restarts. It changes neither whether nor when the pod leaves.", ours))
	}
}

// explainPolicies adds what each policy says about a pod on its node, and what all of them say together.
func (on *onNode) explainPolicies(e *cliv1alpha1.Explanation) {
	if on.Policies == nil || on.IsBuiltIn() { // they hold no pods that kube-controller-manager evicts
		return
	}
	e.Notes = append(e.Notes, on.Policies.Flaws...)
	pod, node := policies.PodOf(on.Pod), policies.NodeOf(on.Node)
	causes := policy.CausesOf(state.Rule, on.facts, on.taints)
	leaves := e.Leaves && len(causes) > 0
	if leaves && state.Unwanted(on.Pod, causes) {
		leaves = false
		e.Notes = append(e.Notes, "The DaemonSet controller deletes the pod, whatever EvictionPolicies say, because it does not tolerate the taint at all.")
	}
	for _, p := range on.Policies.All {
		explained := cliv1alpha1.ExplainedPolicy{Name: p.Name, DryRun: p.DryRun, Pace: policies.PaceOf(p)}
		explained.Mismatch = on.Policies.Mismatch(p, pod, node)
		explained.Selects = explained.Mismatch == ""
		if due, applies := p.Due(causes); leaves && applies && explained.Selects {
			its := slices.DeleteFunc(slices.Clone(causes), func(cause policy.Cause) bool { return !p.Applies(cause.Taint) })
			course := on.Policies.Course([]*policy.Policy{p}, pod, node, its, on.At)
			explained.Answer = policies.AnswerOf(course)
			explained.Release, explained.ReleaseCommand = on.release(p, course.First, due)
		}
		e.Policies = append(e.Policies, explained)
	}
	if selecting := on.Policies.Selecting(pod, node); leaves && len(selecting) > 0 {
		e.Answer = policies.AnswerOf(on.Policies.Course(selecting, pod, node, causes, on.At))
	}
}

// release returns what makes a policy release the pod, as a sentence without a full stop, and the command for it, if
// one command can do it. Both are empty if the policy releases the pod soon anyway.
func (s *Subject) release(p *policy.Policy, first policy.Answer, due time.Time) (what, command string) {
	resume := "kubectl taintkeeper resume " + p.Name
	switch first.Why {
	case policy.Paused:
		switch {
		case s.Policies.IsPause(p):
			return "End the pause " + p.Name, resume
		case p.HoldsWithoutEnd():
			return "Remove spec.paused from EvictionPolicy " + p.Name + " and set its spec.deadline, because Hold without a deadline keeps pods indefinitely", ""
		}
		return "Remove spec.paused from EvictionPolicy " + p.Name, resume
	case policy.BreakerOpen:
		let := "Let"
		if due.After(s.At) {
			let = "Once the pod is due, let"
		}
		return let + " EvictionPolicy " + p.Name + " release the pods that are due", resume
	case policy.Held:
		verb := "Set"
		if !first.Until.IsZero() {
			verb = "Shorten"
		}
		return verb + " spec.deadline of EvictionPolicy " + p.Name + ", or change its selectors so that they do not match the pod", ""
	case policy.Finished:
		return "Delete the pod", s.deletion()
	case policy.NotPermitted:
		return "Allow Taintkeeper's ServiceAccount to create pods/eviction", ""
	case policy.SeveralBudgets:
		return "Delete all but one of the PodDisruptionBudgets " + first.Detail, ""
	case policy.Budget:
		return "Raise what PodDisruptionBudget " + first.Detail + " allows, or start more of its pods", ""
	}
	return "", ""
}

func (s *Subject) deletion() string {
	return fmt.Sprintf("kubectl delete pod %s -n %s", s.Pod.Name, s.Pod.Namespace)
}

// trial is a change to try: the pod's tolerations and the node's taints after it. The API server allows tolerations of
// a pod to be added, and their tolerationSeconds to change, but tolerations cannot be removed, and only those with
// effect NoExecute may have tolerationSeconds.
type trial struct {
	change      cliv1alpha1.SmallestChange
	tolerations []corev1.Toleration
	taints      []verdict.Taint
}

// changes returns the smallest changes that would alter the verdict, each tried with the rule.
func (on *onNode) changes() (all []cliv1alpha1.SmallestChange) {
	try := on.toMakeItLeave
	if on.decided.Leaves {
		try = on.toLetItStay
	}
	for _, trial := range try() {
		then := on.Change(on.decided, verdict.Pod{Tolerations: trial.tolerations, Bound: on.facts.Bound}, trial.taints, on.At)
		if then.Leaves != on.decided.Leaves || !then.Due.Equal(on.decided.Due) {
			trial.change.Leaves, trial.change.Due = then.Leaves, state.DueOf(then)
			all = append(all, trial.change)
		}
	}
	return all
}

// toLetItStay returns changes that could make a pod stay, or leave later.
func (on *onNode) toLetItStay() (trials []trial) {
	var causes []verdict.Reason
	for _, taint := range on.taints {
		if reason := state.Rule.Judge(on.facts, taint); reason.Leaves {
			causes = append(causes, reason)
		}
	}
	slices.SortStableFunc(causes, func(a, b verdict.Reason) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Taint.Key, b.Taint.Key))
	})
	if len(causes) > 1 {
		trials = append(trials, on.withoutTaints(causes[:1]))
	}
	return append(append(trials, on.withoutTaints(causes)), on.tolerating(causes)...)
}

// withoutTaints removes taints from the node. Node health sets its own again within seconds, until the node is ready.
func (on *onNode) withoutTaints(causes []verdict.Reason) trial {
	var removals, specs, again, parts []string
	left := slices.Clone(on.taints)
	for _, cause := range causes {
		left = slices.DeleteFunc(left, func(taint verdict.Taint) bool { return taint.Key == cause.Taint.Key })
		if spec := taints.Format(cause.Taint.Taint); readiness.OwnsNoExecute(cause.Taint.Taint) {
			again = append(again, spec)
		} else {
			specs = append(specs, spec)
			removals = append(removals, taints.Removal{Key: cause.Taint.Key, Effect: cause.Taint.Effect}.String())
		}
	}
	is := trial{tolerations: on.facts.Tolerations, taints: left}
	if len(specs) > 0 {
		parts = append(parts, fmt.Sprintf("Remove %s %s from node %s.",
			sentence.Agree(len(specs), "taint", "taints"), sentence.Enumerate(specs), on.Node.Name))
		is.change.Command = fmt.Sprintf("kubectl taint nodes %s %s", on.Node.Name, strings.Join(removals, " "))
	}
	if len(again) > 0 {
		parts = append(parts, fmt.Sprintf("Bring node %s back: node health sets %s again until the node is ready, and then removes it.",
			on.Node.Name, sentence.Enumerate(again)))
		if !on.IsBuiltIn() { // which ignores pauses
			parts = append(parts, "To keep the pod until then, pause evictions (kubectl taintkeeper pause).")
		}
	}
	is.change.What = strings.Join(parts, " ")
	return is
}

// tolerating makes the pod tolerate each cause indefinitely. It does not advise pods to tolerate sick nodes.
func (on *onNode) tolerating(causes []verdict.Reason) []trial {
	is := trial{tolerations: slices.Clone(on.facts.Tolerations), taints: on.taints}
	var parts []string
	older := false
	for _, cause := range causes {
		switch taint := cause.Taint.Taint; {
		case readiness.SaysSick(taint.Key):
			return nil
		case cause.Toleration == nil && on.templateTolerates(&taint):
			older = true
			is.tolerations = append(is.tolerations, tolerationOf(taint))
		case cause.Toleration == nil:
			is.change.Tolerations = append(is.change.Tolerations, tolerationOf(taint))
			is.tolerations = append(is.tolerations, tolerationOf(taint))
			parts = append(parts, "add a toleration for "+taints.Format(taint))
		default:
			is.tolerations[cause.TolerationIndex].TolerationSeconds = nil
			parts = append(parts, fmt.Sprintf("remove tolerationSeconds from tolerations[%d]", cause.TolerationIndex))
		}
	}
	if slices.Sort(parts); len(parts) > 0 {
		is.change.What = "In the pod, " + sentence.Enumerate(slices.Compact(parts)) + "."
	}
	if older {
		is.change.What, is.change.Command = strings.TrimSpace(is.change.What+" "+recreate), on.deletion()
	}
	return []trial{is}
}

// recreate is the advice for a pod without a toleration that its template has.
const recreate = "Recreate the pod: it is older than its template, which tolerates the taint."

// templateTolerates reports whether the next pod of the same owner tolerates a taint.
func (s *Subject) templateTolerates(taint *corev1.Taint) bool {
	if s.Newest == nil {
		return false
	}
	_, refused := state.Rule.Matcher.Untolerated([]corev1.Taint{*taint}, s.Newest.Tolerations)
	return !refused
}

// toMakeItLeave limits the toleration that keeps the pod on its node, if there is one.
func (on *onNode) toMakeItLeave() []trial {
	i, decided := on.decided.TolerationIndex, on.decided
	switch {
	case decided.Toleration == nil:
		return nil
	case decided.Toleration.Effect == corev1.TaintEffectNoExecute:
		is := trial{tolerations: slices.Clone(on.facts.Tolerations), taints: on.taints}
		is.tolerations[i].TolerationSeconds = new(int64(0))
		is.change.What = fmt.Sprintf("In the pod, set tolerationSeconds in tolerations[%d] (they count from %s, so 0 means immediately).", i, sentence.Absolute(decided.Start))
		return []trial{is}
	}
	var names []string
	for _, position := range append([]int{i}, decided.Shadowed...) {
		names = append(names, fmt.Sprintf("tolerations[%d]", position))
	}
	left := slices.DeleteFunc(slices.Clone(on.facts.Tolerations), func(toleration corev1.Toleration) bool {
		return state.Rule.Matcher.Tolerates(&toleration, &decided.Taint.Taint)
	})
	what := fmt.Sprintf("In the pod's template, remove %s (tolerations cannot be removed from an existing pod).", sentence.Enumerate(names))
	return []trial{{change: cliv1alpha1.SmallestChange{What: what}, tolerations: left, taints: on.taints}}
}
