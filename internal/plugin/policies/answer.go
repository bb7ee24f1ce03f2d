// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// steps are the API's values for the steps of policies.
var steps = map[policy.Step]cliv1alpha1.PolicyStep{
	policy.Free: cliv1alpha1.PolicyFree, policy.Ask: cliv1alpha1.PolicyAsk,
	policy.Wait: cliv1alpha1.PolicyWait, policy.Hold: cliv1alpha1.PolicyHold,
}

// AnswerOf says what policies do with a pod.
func AnswerOf(course Course) *cliv1alpha1.PolicyAnswer {
	first := course.First
	answer := &cliv1alpha1.PolicyAnswer{
		Says: steps[first.Step], Policy: first.Policy, Reason: string(first.Why),
		Until: MicroTime(first.Until), LeavesAt: MicroTime(course.Leaves), LastPolicy: course.Last.Policy,
	}
	if first.Policy != "" {
		answer.Message = first.String()
	}
	return answer
}

// PaceOf says how fast a policy releases pods. It is empty if the policy sets no pace.
func PaceOf(p *policy.Policy) string {
	pace := p.Pace()
	if pace == nil {
		return ""
	}
	scope := map[string]string{"Node": "each node", "Zone": "each zone", "Cluster": "the cluster"}[string(pace.Scope)]
	pods := sentence.Counted(pace.Pods, "pod")
	return fmt.Sprintf("at most %s per %s in %s", pods, sentence.Duration(pace.Per), scope)
}

// MicroTime returns an instant, or nil for zero.
func MicroTime(at time.Time) *metav1.MicroTime {
	if at.IsZero() {
		return nil
	}
	return new(metav1.NewMicroTime(at))
}
