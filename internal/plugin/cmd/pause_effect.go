// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/check"
	"github.com/taintkeeper/taintkeeper/internal/plugin/policies"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// read reads the nodes, the pods and the policies.
func read(ctx context.Context, reader *source.Reader, wants source.Wants) (*pauseFound, error) {
	defer reader.Progress.End()
	wants.Policies = true
	err := reader.Read(ctx, wants)
	return &pauseFound{reader.Cluster}, err
}

// pauseFound is what was read to compute the effect of a policy.
type pauseFound struct{ *state.Cluster }

// effect says how many pods a policy selects, how many of those are due and held by it, and how many of these no policy
// holds once it has changed, so that they then leave at the pace of policies.
type effect struct {
	selected, held, free int
	paces                []string
	keeper               string // who holds the others then
	release              policies.Release
}

// effect returns the effect of a policy at an instant, and of what resume makes of it.
func (f *pauseFound) effect(change ending, now time.Time) effect {
	name := change.object.Name
	before, after := f.with(name, change.object), f.with(name, change.becomes)
	nodes, taints := map[string]policies.Node{}, map[string][]verdict.Taint{}
	for _, node := range f.Nodes {
		nodes[node.Name] = policies.NodeOf(node)
		taints[node.Name] = state.Tainted(node, now)
	}
	e := effect{keeper: "other EvictionPolicies still hold"}
	if change.becomes != nil {
		e.keeper = "EvictionPolicies still hold"
	}
	for _, pod := range f.Pods {
		node, known := nodes[pod.Spec.NodeName]
		if !known || state.IsStatic(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		is := policies.PodOf(pod)
		selecting := before.Selecting(is, node)
		i := slices.IndexFunc(selecting, func(p *policy.Policy) bool { return p.Name == name })
		if i < 0 {
			continue
		}
		e.selected++
		causes := policy.CausesOf(state.Rule, state.FactsOf(pod, now), taints[pod.Spec.NodeName])
		causes = slices.DeleteFunc(causes, func(cause policy.Cause) bool { return cause.Due.After(now) })
		if len(causes) == 0 || !before.Course(selecting[i:i+1], is, node, causes, now).Held() {
			continue
		}
		e.held++
		rest, from := after.Selecting(is, node), change.from(now)
		course := after.Course(rest, is, node, before.Released(selecting, causes, now, from), from)
		if e.release.Add(course, from); !course.Held() {
			e.free++
			e.slow(rest, causes)
		}
	}
	return e
}

// with returns the policies when the one with this name is as given; nil means that there is none. Without the right to
// read namespaces, each has the label that all have.
func (f *pauseFound) with(name string, object *v1alpha1.EvictionPolicy) *policies.Set {
	namespaces := f.Namespaces
	if len(namespaces) == 0 {
		for _, pod := range f.Pods {
			namespaces = append(namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: pod.Namespace, Labels: map[string]string{corev1.LabelMetadataName: pod.Namespace},
			}})
		}
	}
	return policies.New(f.policies(name, object), namespaces, f.BudgetsOf())
}

func (f *pauseFound) policies(name string, object *v1alpha1.EvictionPolicy) []*v1alpha1.EvictionPolicy {
	all := slices.DeleteFunc(slices.Clone(f.Policies), func(other *v1alpha1.EvictionPolicy) bool {
		return other.Name == name
	})
	if object != nil {
		all = append(all, object)
	}
	return all
}

// slow notes which policies set a pace for a pod.
func (e *effect) slow(selecting []*policy.Policy, causes []policy.Cause) {
	for _, p := range selecting {
		_, applies := p.Due(causes)
		if p.Pace() != nil && !p.DryRun && applies && !slices.Contains(e.paces, p.Name) {
			e.paces = append(e.paces, p.Name)
		}
	}
}

// doubt warns that evictions may continue despite the policy. It is empty if only Taintkeeper evicts.
func (f *pauseFound) doubt(at time.Time) string {
	f.Signs.At = at
	eviction := check.Make(f.Cluster, nil, "", at).Controllers[0]
	switch eviction.Who {
	case cliv1alpha1.WhoBuiltIn, cliv1alpha1.WhoBoth:
		return "Warning: the built-in controller evicts too, and only ValidatingAdmissionPolicy taintkeeper-held of " +
			"config/coexistence.yaml, if it is installed, keeps it from these pods: " + eviction.Message
	case cliv1alpha1.WhoUnknown:
		return "Note: " + eviction.Message + " Only Taintkeeper obeys EvictionPolicies."
	}
	return ""
}

func (e effect) ofPause(name string) string {
	resume := fmt.Sprintf("'kubectl taintkeeper resume %s'", name)
	switch {
	case e.selected == 0:
		return "Warning: it selects no pods, so it holds nothing: check --namespace, --selector and --node-selector, and remove it with " + resume + "."
	case e.held == 0:
		return fmt.Sprintf("It selects %s and holds none now; pods that become due stay until you run %s.",
			sentence.Counted(e.selected, "pod"), resume)
	}
	then := "all that are due leave " + e.speed()
	switch e.free {
	case e.held:
	case 0:
		then = e.keeper + " " + sentence.Agree(e.held, "it", "them")
	default:
		then = fmt.Sprintf("%d %s %s, and %s %d",
			e.free, sentence.Agree(e.free, "leaves", "leave"), e.speed(), e.keeper, e.held-e.free)
	}
	return fmt.Sprintf("It selects %s, %d due now and held until you run %s; then %s.%s",
		sentence.Counted(e.selected, "pod"), e.held, resume, then, e.release.Deadlines())
}

func (e effect) ofResume() string {
	switch {
	case e.held == 0:
		return "It held no pod, so no pod leaves now because of this."
	case e.free == 0:
		return fmt.Sprintf("No pod leaves now: %s %s.%s", e.keeper, sentence.Counted(e.held, "pod"), e.release.Deadlines())
	case e.free < e.held:
		return fmt.Sprintf("Pods that leave %s: %d; %s %d.%s",
			e.speed(), e.free, e.keeper, e.held-e.free, e.release.Deadlines())
	}
	return fmt.Sprintf("Pods that leave %s: %d.%s", e.speed(), e.free, e.release.Deadlines())
}

// speed says how fast the pods that no policy holds leave.
func (e effect) speed() string {
	if len(e.paces) == 0 {
		return "at once"
	}
	kind := sentence.Agree(len(e.paces), "EvictionPolicy", "EvictionPolicies")
	return "at the pace of " + kind + " " + sentence.Enumerate(e.paces)
}
