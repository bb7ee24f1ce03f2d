// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package pausecmd

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/check"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// read returns the nodes and pods.
func read(ctx context.Context, reader *source.Reader, wants source.Wants) (*found, error) {
	defer reader.Progress.End()
	err := reader.Read(ctx, wants)
	return &found{reader.Cluster}, err
}

// found is what a policy is applied to.
type found struct{ *plan.Cluster }

// effect is how many pods a policy selects, and how many of them are due and held by it.
type effect struct{ selected, held int }

// effect says what a policy made by pause does at an instant.
func (f *found) effect(object *v1alpha1.EvictionPolicy, now time.Time) effect {
	rule, _ := policy.New(object) // pause has parsed the selectors
	seen := verdict.SeenAt(now)
	nodes := map[string]*corev1.Node{}
	taints := map[string][]verdict.Taint{}
	for _, node := range f.Nodes {
		nodes[node.Name] = node
		taints[node.Name] = verdict.Advance(nil, node.Spec.Taints, seen)
	}
	var e effect
	for _, pod := range f.Pods {
		node := nodes[pod.Spec.NodeName]
		if node == nil || plan.IsStatic(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		facts := &policy.Pod{
			Labels: labels.Set(pod.Labels), NodeLabels: labels.Set(node.Labels),
			NamespaceLabels: labels.Set{corev1.LabelMetadataName: pod.Namespace},
		}
		if !rule.Selects(facts) {
			continue
		}
		e.selected++
		judged := verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: seen.Start(verdict.Bound(pod))}
		answer, _ := policy.Decide([]*policy.Policy{rule}, facts, causes(judged, taints[node.Name]), now,
			func(*policy.Policy) policy.State { return policy.State{} })
		if answer.Stays() {
			e.held++
		}
	}
	return e
}

// causes are the taints because of which a pod must leave.
func causes(pod verdict.Pod, taints []verdict.Taint) []policy.Cause {
	var all []policy.Cause
	for i := range taints {
		if reason := (verdict.Rule{}).Judge(pod, taints[i]); reason.Leaves {
			all = append(all, policy.Cause{Taint: &taints[i].Taint, Due: reason.Due})
		}
	}
	return all
}

// doubt says that evictions may go on in spite of a policy; empty if Taintkeeper alone evicts.
func (f *found) doubt(at time.Time) string {
	f.Signs.At = at
	eviction := check.Make(f.Cluster, nil, "", at).Controllers[0]
	switch eviction.Who {
	case cliv1alpha1.WhoBuiltIn, cliv1alpha1.WhoBoth:
		return "Warning: the built-in controller knows no EvictionPolicies, so its evictions go on: " + eviction.Message
	case cliv1alpha1.WhoUnknown:
		return "Note: " + eviction.Message + " Only Taintkeeper knows EvictionPolicies."
	}
	return ""
}

func (e effect) ofPause(name string) string {
	resume := fmt.Sprintf("'kubectl taintkeeper resume %s'", name)
	switch {
	case e.selected == 0:
		return "Warning: it selects no pod, so it holds nothing: check --namespace, --selector and --node-selector, and remove it with " + resume + "."
	case e.held == 0:
		return fmt.Sprintf("It selects %s, none of which is due now; those that become due stay until %s.",
			sentence.Counted(e.selected, "pod"), resume)
	}
	return fmt.Sprintf("It selects %s, %d due now and held until %s; then all that are due leave at once.",
		sentence.Counted(e.selected, "pod"), e.held, resume)
}

func (e effect) ofResume(others bool) string {
	switch {
	case e.held == 0:
		return "No pod that it held is due, so none leaves now."
	case others:
		return fmt.Sprintf("Pods that may leave at once: %d, unless another EvictionPolicy holds them.", e.held)
	}
	return fmt.Sprintf("Pods that leave at once: %d.", e.held)
}
