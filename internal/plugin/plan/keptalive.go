// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// endedBy returns a taint, formatted, because of which a kubelet that starts ends a pod with these tolerations. It is
// empty if there is none.
func endedBy(tolerations []corev1.Toleration, onNode []verdict.Taint) string {
	for _, taint := range onNode {
		if len(Rule.Matcher.Unadmitted([]corev1.Taint{taint.Taint}, tolerations)) > 0 {
			return taints.Format(taint.Taint)
		}
	}
	return ""
}

// endingNotes says how many pods that stay would end with a restart of their kubelet.
func endingNotes(pods []cliv1alpha1.PendingPod) []string {
	ending := 0
	for i := range pods {
		ending += count(pods[i].EndsWithKubelet != "")
	}
	if ending == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s if the kubelet restarts, because no toleration matches a taint of the node. Taintkeeper adds one to due pods that stay, which takes moments.",
		sentence.Do(ending, "held pod", "ends", "end"))}
}

// keptAlive says what a restart of its kubelet does to a due pod that stays.
func (s *Subject) keptAlive(e *cliv1alpha1.Explanation, onNode []verdict.Taint) []string {
	if !e.Answer.Stays() || e.Due.After(s.At) || IsOver(s.Pod) {
		return nil
	}
	if taint := endedBy(s.Pod.Spec.Tolerations, onNode); taint != "" {
		return []string{fmt.Sprintf("The pod ends if its kubelet restarts, because no toleration matches taint %s. Taintkeeper adds one to a due pod that stays, which takes moments.", taint)}
	}
	ours := slices.IndexFunc(s.Pod.Spec.Tolerations, taints.IsForNoTime)
	if ours < 0 {
		return nil
	}
	return []string{fmt.Sprintf("tolerations[%d] keeps the pod alive if its kubelet restarts. It changes neither whether nor when the pod leaves.", ours)}
}
