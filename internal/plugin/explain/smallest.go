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

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// This file looks for the smallest changes that alter a verdict. It tries each change with the rule before it suggests
// it.
//
// The API server allows tolerations of a pod to be added and reordered, and their tolerationSeconds to change.
// Tolerations cannot be removed, and only those with effect NoExecute may have tolerationSeconds.

// trial is a change to try: the pod's tolerations and the node's taints after it.
type trial struct {
	change      cliv1alpha1.SmallestChange
	tolerations []corev1.Toleration
	taints      []verdict.Taint
}

// changesOnNode returns the smallest changes that would alter the verdict on a pod on its node.
func (s *Subject) changesOnNode(facts verdict.Pod, onNode []verdict.Taint,
	decided verdict.Verdict) []cliv1alpha1.SmallestChange {
	trials := s.toMakeItLeave(facts, onNode, decided)
	if decided.Leaves {
		trials = s.toLetItStay(facts, onNode)
	}
	var changes []cliv1alpha1.SmallestChange
	for _, trial := range trials {
		then := s.Change(decided, verdict.Pod{Tolerations: trial.tolerations, Bound: facts.Bound}, trial.taints, s.At)
		if then.Leaves == decided.Leaves && then.Due.Equal(decided.Due) {
			continue
		}
		trial.change.Leaves, trial.change.Due = then.Leaves, state.DueOf(then)
		changes = append(changes, trial.change)
	}
	return changes
}

// toLetItStay returns changes that could make a pod stay, or leave later.
func (s *Subject) toLetItStay(facts verdict.Pod, onNode []verdict.Taint) []trial {
	var causes []verdict.Reason
	for _, taint := range onNode {
		if reason := state.Rule.Judge(facts, taint); reason.Leaves {
			causes = append(causes, reason)
		}
	}
	slices.SortStableFunc(causes, func(a, b verdict.Reason) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Taint.Key, b.Taint.Key))
	})
	var trials []trial
	if len(causes) > 1 {
		trials = append(trials, s.withoutTaints(facts, onNode, causes[:1]))
	}
	trials = append(trials, s.withoutTaints(facts, onNode, causes), tolerating(facts, onNode, causes))
	if longer, ok := s.longer(facts, onNode, causes[0]); ok {
		trials = append(trials, longer)
	}
	return trials
}

// withoutTaints removes taints from the node. Those of a node that is not ready are set again until it is.
func (s *Subject) withoutTaints(facts verdict.Pod, onNode []verdict.Taint, causes []verdict.Reason) trial {
	var removals, specs, again []string
	left := slices.Clone(onNode)
	for _, cause := range causes {
		left = slices.DeleteFunc(left, func(taint verdict.Taint) bool { return taint.Key == cause.Taint.Key })
		spec := taints.Format(cause.Taint.Taint)
		if readiness.OwnsNoExecute(cause.Taint.Taint) && !readiness.IsReady(s.Node) {
			again = append(again, spec)
			continue
		}
		specs = append(specs, spec)
		removals = append(removals, taints.Removal{Key: cause.Taint.Key, Effect: cause.Taint.Effect}.String())
	}
	var change cliv1alpha1.SmallestChange
	var parts []string
	if len(specs) > 0 {
		taint := sentence.Agree(len(specs), "taint", "taints")
		parts = append(parts, fmt.Sprintf("Remove %s %s from node %s.", taint, enumerate(specs), s.Node.Name))
		change.Command = fmt.Sprintf("kubectl taint nodes %s %s", s.Node.Name, strings.Join(removals, " "))
	}
	if len(again) > 0 {
		parts = append(parts, fmt.Sprintf("Bring node %s back, because %s is set again as long as it is not ready. "+
			"To keep the pod until then, pause evictions (kubectl taintkeeper pause).", s.Node.Name, enumerate(again)))
	}
	change.What = strings.Join(parts, " ")
	return trial{change: change, tolerations: facts.Tolerations, taints: left}
}

// listed is a toleration with its position in the pod.
type listed struct {
	corev1.Toleration

	position int
}

// tolerating changes the pod so that it tolerates each cause indefinitely: it moves a later toleration to the front,
// removes tolerationSeconds, or adds a toleration.
func tolerating(facts verdict.Pod, onNode []verdict.Taint, causes []verdict.Reason) trial {
	var list []listed
	for i, toleration := range facts.Tolerations {
		list = append(list, listed{*toleration.DeepCopy(), i})
	}
	var parts []string
	var added []corev1.Toleration
	for _, cause := range causes {
		late := slices.IndexFunc(cause.Shadowed, func(i int) bool { return facts.Tolerations[i].TolerationSeconds == nil })
		switch {
		case cause.Toleration == nil:
			toleration := tolerationOf(cause.Taint.Taint)
			added = append(added, toleration)
			list = append(list, listed{toleration, -1})
			parts = append(parts, "add a toleration for "+taints.Format(cause.Taint.Taint))
		case late >= 0:
			list = movedBefore(list, cause.Shadowed[late], cause.TolerationIndex)
			parts = append(parts, fmt.Sprintf("put tolerations[%d] before tolerations[%d]",
				cause.Shadowed[late], cause.TolerationIndex))
		default:
			list[indexOf(list, cause.TolerationIndex)].TolerationSeconds = nil
			parts = append(parts, fmt.Sprintf("remove tolerationSeconds from tolerations[%d]", cause.TolerationIndex))
		}
	}
	slices.Sort(parts)
	what := "In the pod, " + enumerate(slices.Compact(parts)) + "."
	return trial{
		change:      cliv1alpha1.SmallestChange{What: what, Tolerations: added},
		tolerations: unlisted(list), taints: onNode,
	}
}

func indexOf(list []listed, position int) int {
	return slices.IndexFunc(list, func(one listed) bool { return one.position == position })
}

// movedBefore moves a toleration before another one. Both are identified by their positions in the pod.
func movedBefore(list []listed, which, before int) []listed {
	from, to := indexOf(list, which), indexOf(list, before)
	if from < to {
		return list // it has already been moved
	}
	moved := list[from]
	return slices.Insert(slices.Delete(list, from, from+1), to, moved)
}

func unlisted(list []listed) []corev1.Toleration {
	all := make([]corev1.Toleration, 0, len(list))
	for _, one := range list {
		all = append(all, one.Toleration)
	}
	return all
}

// mostLate is how late a pod may be for advice to raise its tolerationSeconds. If a pod is days late, something else is
// wrong, and seconds that count from days ago would not help.
const mostLate = time.Hour

// longer gives a late pod just enough tolerationSeconds not to be due yet.
func (s *Subject) longer(facts verdict.Pod, onNode []verdict.Taint, cause verdict.Reason) (trial, bool) {
	if cause.Toleration == nil || cause.Due.After(s.At) || s.At.Sub(cause.Due) > mostLate {
		return trial{}, false
	}
	seconds := int64(s.At.Sub(cause.Start)/time.Second) + 1
	tolerations := withSeconds(facts.Tolerations, cause.TolerationIndex, seconds)
	return trial{
		change: cliv1alpha1.SmallestChange{
			What: fmt.Sprintf("In the pod, raise tolerationSeconds of tolerations[%d] from %d to %d or more.", cause.TolerationIndex, *cause.Toleration.TolerationSeconds, seconds),
		},
		tolerations: tolerations, taints: onNode,
	}, true
}

func withSeconds(tolerations []corev1.Toleration, i int, seconds int64) []corev1.Toleration {
	changed := slices.Clone(tolerations)
	changed[i].TolerationSeconds = &seconds
	return changed
}

// anyTaint stands for a taint that no toleration names.
var anyTaint = corev1.Taint{Key: "example.com/any", Effect: corev1.TaintEffectNoExecute}

// toMakeItLeave returns changes that could make a pod leave although it stays now.
func (s *Subject) toMakeItLeave(facts verdict.Pod, onNode []verdict.Taint, decided verdict.Verdict) []trial {
	one := state.Rule.Judge(facts, verdict.Taint{Taint: anyTaint, Since: s.At})
	var what string
	switch {
	case one.Toleration == nil:
		what = fmt.Sprintf("Set a NoExecute taint on node %s that no toleration matches.", s.Node.Name)
	case one.TolerationIndex == 0:
		what = fmt.Sprintf("Set any NoExecute taint on node %s.", s.Node.Name)
	default:
		what = fmt.Sprintf("Set a NoExecute taint on node %s that no toleration before tolerations[%d] matches.",
			s.Node.Name, one.TolerationIndex)
	}
	tainted := trial{
		change:      cliv1alpha1.SmallestChange{What: what},
		tolerations: facts.Tolerations, taints: append(slices.Clone(onNode), one.Taint),
	}
	if decided.Toleration == nil {
		return []trial{tainted}
	}
	return []trial{s.withoutPatience(facts, onNode, decided), tainted}
}

// withoutPatience limits the toleration that keeps a pod on its node.
func (s *Subject) withoutPatience(facts verdict.Pod, onNode []verdict.Taint, decided verdict.Verdict) trial {
	i := decided.TolerationIndex
	if decided.Toleration.Effect == corev1.TaintEffectNoExecute {
		return trial{
			change:      cliv1alpha1.SmallestChange{What: fmt.Sprintf("In the pod, set tolerationSeconds in tolerations[%d] (they count from %s, so 0 means immediately).", i, decided.Start.UTC().Format(time.RFC3339))},
			tolerations: withSeconds(facts.Tolerations, i, 0), taints: onNode,
		}
	}
	left := slices.DeleteFunc(slices.Clone(facts.Tolerations), func(toleration corev1.Toleration) bool {
		return state.Rule.Matcher.Tolerates(&toleration, &decided.Taint.Taint)
	})
	matching := append([]int{i}, decided.Shadowed...)
	names := make([]string, 0, len(matching))
	for _, position := range matching {
		names = append(names, fmt.Sprintf("tolerations[%d]", position))
	}
	return trial{
		change:      cliv1alpha1.SmallestChange{What: fmt.Sprintf("In the pod's template, remove %s (tolerations cannot be removed from an existing pod).", enumerate(names))},
		tolerations: left, taints: onNode,
	}
}
