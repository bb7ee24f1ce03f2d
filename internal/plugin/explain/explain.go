// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says what the taints of a node, its tolerations and EvictionPolicies mean for one pod: whether it
// leaves, when and why, where its tolerations come from, and what would keep it. It is pure.
package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Subject is the input of an explanation: one pod and the objects around it.
type Subject struct {
	Pod *corev1.Pod
	// Node is the pod's node. It is nil if the pod has none or if it could not be read. NodeGone is true if it does not
	// exist.
	Node     *corev1.Node
	NodeGone bool
	// Nodes are all nodes, if the pod is not bound.
	Nodes []*corev1.Node
	Owner *cliv1alpha1.Owner
	// Template is the pod template of the owner, and Namespace is the pod's namespace. They are nil if they could not be
	// read.
	Template  *state.Template
	Namespace *corev1.Namespace
	// Policies are all EvictionPolicies, or nil if there are none.
	Policies *policies.Set
	state.Evictor
	// Missing says what could not be read, and how that limits the answer.
	Missing []string
	At      time.Time
}

// Explain says whether, when and why a pod leaves its node. For a pod without a node, it says which nodes refuse it.
func Explain(s Subject) *cliv1alpha1.Explanation {
	e := &cliv1alpha1.Explanation{
		TypeMeta:  cliv1alpha1.Type("Explanation"),
		At:        metav1.NewMicroTime(s.At),
		Namespace: s.Pod.Namespace, Name: s.Pod.Name, UID: s.Pod.UID, Node: s.Pod.Spec.NodeName,
		State: s.state(), Owner: s.Owner, EvictedBy: s.By(),
		Taints:      []cliv1alpha1.ExplainedTaint{},
		Tolerations: []cliv1alpha1.ExplainedToleration{},
		Notes:       slices.Clone(s.Missing),
	}
	e.Reason = s.reason(e.State)
	for i := range s.Pod.Spec.Tolerations {
		e.Tolerations = append(e.Tolerations, s.toleration(i))
	}
	if e.State == cliv1alpha1.PodTerminating {
		s.explainTerminating(e)
	}
	switch {
	case s.Node != nil:
		s.explainNode(e)
	case e.State == cliv1alpha1.PodPending:
		s.explainPending(e)
	}
	if note := s.writers(); note != "" {
		e.Notes = append(e.Notes, note)
	}
	return e
}

func (s *Subject) state() cliv1alpha1.PodState {
	switch {
	case state.IsStatic(s.Pod):
		return cliv1alpha1.PodStatic
	case s.Pod.DeletionTimestamp != nil:
		return cliv1alpha1.PodTerminating
	case s.NodeGone:
		return cliv1alpha1.PodNodeGone
	case s.Pod.Spec.NodeName != "" && s.Node == nil:
		return cliv1alpha1.PodNodeUnknown
	case state.IsOver(s.Pod):
		return cliv1alpha1.PodFinished
	case s.Pod.Spec.NodeName == "":
		return cliv1alpha1.PodPending
	}
	return cliv1alpha1.PodBound
}

// reason says why taints do not decide about a pod in this state. It is empty if they do.
func (s *Subject) reason(state cliv1alpha1.PodState) string {
	switch state {
	case cliv1alpha1.PodStatic:
		return "A static pod: only its kubelet can stop it."
	case cliv1alpha1.PodNodeGone:
		return fmt.Sprintf("Node %s no longer exists, so pod garbage collection deletes the pod.", s.Pod.Spec.NodeName)
	case cliv1alpha1.PodNodeUnknown:
		return fmt.Sprintf("Node %s could not be read, so its taints are not known.", s.Pod.Spec.NodeName)
	}
	return ""
}

// facts are what the rule needs to know about the pod.
func (s *Subject) facts() verdict.Pod {
	return state.FactsOf(s.Pod, s.At)
}

// explainNode adds what the taints of the pod's node mean for it.
func (s *Subject) explainNode(e *cliv1alpha1.Explanation) {
	facts, onNode := s.facts(), state.Tainted(s.Node, s.At)
	decided := s.Decide(facts, onNode)
	e.LastWrite = state.LastWriteOf(s.Node)
	for i := range s.Node.Spec.Taints {
		taint := &s.Node.Spec.Taints[i]
		explained := s.explainTaint(facts, taint, onNode)
		explained.Decides = decided.Leaves && taint.Effect == corev1.TaintEffectNoExecute && taint.Key == decided.Taint.Key
		e.Taints = append(e.Taints, explained)
		s.matrix(e, taint)
	}
	if e.Reason != "" {
		return
	}
	e.Leaves, e.Due, e.Toleration = decided.Leaves, state.DueOf(decided), decided.Toleration.DeepCopy()
	if decided.Taint.Key != "" {
		e.Taint = taints.Format(decided.Taint.Taint)
	}
	if decided.Leaves {
		e.Timing = s.timing(facts, decided)
	}
	e.Notes = append(e.Notes, state.Undated(s.Node, onNode, s.At)...)
	if state.Compares(facts.Tolerations) {
		e.Notes = append(e.Notes, state.ComparisonNotes(1)...)
	}
	e.Notes = append(e.Notes, s.oneCause(decided)...)
	e.Notes = append(e.Notes, s.unmoved(facts)...)
	e.Notes = append(e.Notes, s.otherwise(facts, onNode, decided)...)
	s.explainPolicies(e, facts, onNode)
	e.Notes = append(e.Notes, s.keptAlive(e, onNode)...)
	e.Changes = s.changesOnNode(facts, onNode, decided)
}

// unmoved returns a note if almost no taint can make the pod leave.
func (s *Subject) unmoved(facts verdict.Pod) []string {
	unknown := state.Rule.Judge(facts, verdict.Taint{Taint: anyTaint, Since: s.At})
	switch {
	case unknown.Leaves:
		return nil
	case unknown.TolerationIndex == 0:
		return []string{"tolerations[0] tolerates every NoExecute taint indefinitely, so no taint can make the pod leave."}
	}
	return []string{fmt.Sprintf("tolerations[%d] tolerates every NoExecute taint indefinitely, so only a taint that an earlier toleration matches can make the pod leave.", unknown.TolerationIndex)}
}

// explainTaint says how the pod tolerates one taint of its node.
func (s *Subject) explainTaint(facts verdict.Pod, taint *corev1.Taint,
	onNode []verdict.Taint) cliv1alpha1.ExplainedTaint {
	explained := cliv1alpha1.ExplainedTaint{
		Taint: taints.Format(*taint), Effect: taint.Effect, TimeAdded: taint.TimeAdded,
		Tolerated: cliv1alpha1.ToleratedNotAtAll,
	}
	// Judge matches a taint with any effect, but its instants are meaningful only for NoExecute.
	counted := verdict.Taint{Taint: *taint}
	if i := slices.IndexFunc(onNode, func(other verdict.Taint) bool { return other.MatchTaint(taint) }); i >= 0 {
		counted = onNode[i]
	}
	reason := s.judge(facts, counted)
	if reason.Toleration != nil {
		explained.Tolerated = cliv1alpha1.ToleratedIndefinitely
		explained.Toleration, explained.Shadowed = new(reason.TolerationIndex), reason.Shadowed
	}
	if taint.Effect != corev1.TaintEffectNoExecute || !reason.Leaves {
		return explained
	}
	if reason.Toleration != nil {
		explained.Tolerated = cliv1alpha1.ToleratedForAWhile
	}
	explained.Due = new(metav1.NewMicroTime(reason.Due))
	return explained
}

// matrix records for each toleration which of them match a taint of the node, and which one counts.
func (s *Subject) matrix(e *cliv1alpha1.Explanation, taint *corev1.Taint) {
	first, _ := state.Rule.Matcher.First(s.Pod.Spec.Tolerations, taint)
	for i := range e.Tolerations {
		if toleration := &e.Tolerations[i]; state.Rule.Matcher.Tolerates(&toleration.Toleration, taint) {
			toleration.Matches = append(toleration.Matches, taints.Format(*taint))
			if i == first {
				toleration.Counts = append(toleration.Counts, taints.Format(*taint))
			}
		}
	}
}

// timing says how a due time is computed.
func (s *Subject) timing(facts verdict.Pod, decided verdict.Verdict) *cliv1alpha1.Timing {
	timing := &cliv1alpha1.Timing{
		Since: metav1.NewMicroTime(decided.Taint.Since), SinceFrom: cliv1alpha1.FromTimeAdded,
		Bound: metav1.NewMicroTime(facts.Bound), BoundFrom: s.boundFrom(),
		Start: metav1.NewMicroTime(decided.Start),
		Due:   metav1.NewMicroTime(decided.Due),
	}
	if decided.Toleration != nil {
		timing.TolerationSeconds = decided.Toleration.TolerationSeconds
	}
	switch {
	case !decided.Taint.Since.Before(s.At):
		timing.SinceFrom = cliv1alpha1.FromNow
	case decided.Taint.TimeAdded.IsZero():
		timing.SinceFrom = cliv1alpha1.FromManagedFields
	}
	return timing
}

func (s *Subject) boundFrom() cliv1alpha1.TimeSource {
	switch bound := verdict.Bound(s.Pod); {
	case bound.IsZero() || bound.After(s.At):
		return cliv1alpha1.FromNow
	case slices.ContainsFunc(s.Pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue
	}):
		return cliv1alpha1.FromPodScheduled
	}
	return cliv1alpha1.FromCreationTimestamp
}

// oneCause returns a note if a taint counts from before it was added, because not-ready and unreachable are one cause.
// A taint with a timeAdded in the future, from a clock that is ahead, counts from now.
func (s *Subject) oneCause(decided verdict.Verdict) []string {
	added := decided.Taint.TimeAdded
	if !decided.Leaves || added.IsZero() || added.After(s.At) || !decided.Taint.Since.Before(added.Time) {
		return nil
	}
	return []string{fmt.Sprintf("Taint %s counts from before it was added, because not-ready and unreachable count as one taint and the other was there first.", taints.Format(decided.Taint.Taint))}
}

// keptAlive says what a restart of its kubelet does to a due pod that stays.
func (s *Subject) keptAlive(e *cliv1alpha1.Explanation, onNode []verdict.Taint) []string {
	if !e.Answer.Stays() || e.Due.After(s.At) || state.IsOver(s.Pod) {
		return nil
	}
	if taint := state.EndedBy(s.Pod.Spec.Tolerations, onNode); taint != "" {
		return []string{fmt.Sprintf("The pod ends if its kubelet restarts, because no toleration matches taint %s. Taintkeeper adds one to a due pod that stays, which takes moments.", taint)}
	}
	ours := slices.IndexFunc(s.Pod.Spec.Tolerations, taints.IsForNoTime)
	if ours < 0 {
		return nil
	}
	return []string{fmt.Sprintf("tolerations[%d] keeps the pod alive if its kubelet restarts. It changes neither whether nor when the pod leaves.", ours)}
}

// judge returns what one taint alone means for the pod. Only NoExecute taints have instants.
func (s *Subject) judge(facts verdict.Pod, taint verdict.Taint) verdict.Reason {
	if s.IsBuiltIn() && taint.Effect == corev1.TaintEffectNoExecute {
		return s.Decide(facts, []verdict.Taint{taint}).Reason
	}
	return state.Rule.Judge(facts, taint)
}

// otherwise says what Taintkeeper would do, if that is different from what kube-controller-manager does.
func (s *Subject) otherwise(facts verdict.Pod, onNode []verdict.Taint, is verdict.Verdict) []string {
	ours := state.Rule.Decide(facts, onNode)
	switch {
	case s.Forgot(is, s.At):
		return []string{"kube-controller-manager has probably tried without success to delete the pod. It tries five times within 50 ms, and " +
			"again when the pod's tolerations or the node's NoExecute taints change. Taintkeeper would try until the pod leaves."}
	case !s.IsBuiltIn() || ours.Leaves == is.Leaves && ours.Due.Sub(is.Due).Abs() <= time.Second:
		return nil
	case !ours.Leaves:
		return []string{"With Taintkeeper, the pod would stay."}
	}
	return []string{fmt.Sprintf("With Taintkeeper, the pod would leave at %s, because of taint %s.",
		ours.Due.UTC().Format(time.RFC3339), ours.Taint.Key)}
}

// explainPolicies adds what each policy says about a pod on its node, and what all of them say together.
func (s *Subject) explainPolicies(e *cliv1alpha1.Explanation, facts verdict.Pod, onNode []verdict.Taint) {
	if s.Policies == nil || s.IsBuiltIn() { // they hold no pods that kube-controller-manager evicts
		return
	}
	e.Notes = append(e.Notes, s.Policies.Flaws...)
	pod, node := policies.PodOf(s.Pod), policies.NodeOf(s.Node)
	causes := policy.CausesOf(state.Rule, facts, onNode)
	leaves := e.Leaves && len(causes) > 0
	if leaves && state.Unwanted(s.Pod, causes) {
		leaves = false
		e.Notes = append(e.Notes, "The DaemonSet controller deletes the pod, whatever EvictionPolicies say, because it does not tolerate the taint at all.")
	}
	for _, p := range s.Policies.All {
		explained := cliv1alpha1.ExplainedPolicy{Name: p.Name, DryRun: p.DryRun, Pace: policies.PaceOf(p)}
		explained.Mismatch = s.Policies.Mismatch(p, pod, node)
		explained.Selects = explained.Mismatch == ""
		if due, applies := p.Due(causes); leaves && applies && explained.Selects {
			course := s.course([]*policy.Policy{p}, applying(p, causes))
			explained.Answer = policies.AnswerOf(course)
			s.release(&explained, p, course.First, due)
		}
		e.Policies = append(e.Policies, explained)
	}
	if selecting := s.Policies.Selecting(pod, node); leaves && len(selecting) > 0 {
		e.Answer = policies.AnswerOf(s.course(selecting, causes))
	}
}

func (s *Subject) course(selecting []*policy.Policy, causes []policy.Cause) policies.Course {
	return s.Policies.Course(selecting, policies.PodOf(s.Pod), policies.NodeOf(s.Node), causes, s.At)
}

// applying returns the causes that a policy applies to.
func applying(p *policy.Policy, causes []policy.Cause) (all []policy.Cause) {
	for _, cause := range causes {
		if p.Applies(cause.Taint) {
			all = append(all, cause)
		}
	}
	return all
}

// release adds to a policy that keeps the pod what makes it release the pod, as a sentence without a full stop, and the
// command for it, if one command can do it. It adds nothing if the policy releases the pod soon anyway.
func (s *Subject) release(
	explained *cliv1alpha1.ExplainedPolicy, p *policy.Policy, first policy.Answer, due time.Time,
) {
	say := func(what, command string) { explained.Release, explained.ReleaseCommand = what, command }
	switch first.Why {
	case policy.Paused:
		if s.Policies.IsPause(p) {
			say("End the pause "+p.Name, "kubectl taintkeeper resume "+p.Name)
			return
		}
		if p.HoldsWithoutEnd() {
			say("Remove spec.paused from EvictionPolicy "+p.Name+" and set its spec.deadline, because Hold without a deadline keeps pods indefinitely", "")
			return
		}
		say("Remove spec.paused from EvictionPolicy "+p.Name, "kubectl taintkeeper resume "+p.Name)
	case policy.BreakerOpen:
		let := "Let"
		if due.After(s.At) {
			let = "Once the pod is due, let"
		}
		say(let+" EvictionPolicy "+p.Name+" release the pods that are due", "kubectl taintkeeper resume "+p.Name)
	case policy.Held:
		verb := "Set"
		if !first.Until.IsZero() {
			verb = "Shorten"
		}
		say(fmt.Sprintf("%s spec.deadline of EvictionPolicy %s, or change its selectors so that they do not match the pod", verb, p.Name), "")
	case policy.Finished:
		say("Delete the pod", fmt.Sprintf("kubectl delete pod %s -n %s", s.Pod.Name, s.Pod.Namespace))
	case policy.NotPermitted:
		say("Allow Taintkeeper's ServiceAccount to create pods/eviction", "")
	case policy.SeveralBudgets:
		say("Delete all but one of the PodDisruptionBudgets "+first.Detail, "")
	case policy.Budget:
		say("Raise what PodDisruptionBudget "+first.Detail+" allows, or start more of its pods", "")
	}
}
