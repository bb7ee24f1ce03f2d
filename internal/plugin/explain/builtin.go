// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/verdict"
)

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
		return []string{"kube-controller-manager has probably tried in vain to delete the pod. It tries five times within 50 ms, and " +
			"again when the pod's tolerations or the node's NoExecute taints change. Taintkeeper would try until the pod leaves."}
	case !s.IsBuiltIn() || ours.Leaves == is.Leaves && ours.Due.Sub(is.Due).Abs() <= time.Second:
		return nil
	case !ours.Leaves:
		return []string{"With Taintkeeper, the pod would stay."}
	}
	return []string{fmt.Sprintf("With Taintkeeper, the pod would leave at %s, because of taint %s.",
		ours.Due.UTC().Format(time.RFC3339), ours.Taint.Key)}
}
