// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

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
		At:        metav1.NewMicroTime(s.At),
		Namespace: s.Pod.Namespace, Name: s.Pod.Name, UID: s.Pod.UID, Node: s.Pod.Spec.NodeName,
		State: s.state(), Owner: s.Owner, EvictedBy: s.By(),
		Taints:      []cliv1alpha1.ExplainedTaint{},
		Tolerations: []cliv1alpha1.ExplainedToleration{},
		Notes:       slices.Clone(s.Missing),
	}
	e.SetGroupVersionKind(cliv1alpha1.GroupVersion.WithKind("Explanation"))
	e.Reason = s.reason(e.State)
	for i := range s.Pod.Spec.Tolerations {
		e.Tolerations = append(e.Tolerations, s.toleration(i))
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
	case cliv1alpha1.PodTerminating:
		return "It is already terminating."
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
