// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// Pod is a pod of a scenario and what has happened to it so far.
type Pod struct {
	*corev1.Pod

	node   string
	alias  string // its name in the scenario, if it has another in the cluster
	made   oracle.Span
	states []oracle.State
	ended  bool // by the scenario
}

// Tainted says which taints a node has now, and between which instants it got them.
func (p *Play) Tainted(node string, took scene.Span, taints []corev1.Taint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[node] = append(p.nodes[node], oracle.Version{At: oracle.Span(took), Taints: taints})
}

// History returns what is known about the taints of a node, and since when.
func (p *Play) History(node string) []oracle.Version {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.nodes[node])
}

func (p *Play) add(node string, from time.Time, made ...*corev1.Pod) {
	took := oracle.Span{From: from, To: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range made {
		if pod == nil { // it could not be made
			continue
		}
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		state := oracle.State{At: took, Tolerations: pod.Spec.Tolerations, Spared: mirror}
		p.pods = append(p.pods, &Pod{Pod: pod, node: node, made: took, states: []oracle.State{state}})
	}
}

// became says what holds of a pod from now on.
func (p *Play) became(pod *Pod, from time.Time, change func(*oracle.State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := pod.states[len(pod.states)-1]
	state.At = oracle.Span{From: from, To: time.Now()}
	change(&state)
	pod.states = append(pod.states, state)
}

// end says that the scenario deletes a pod: nothing is promised to it any longer.
func (p *Play) end(pod *Pod, from time.Time) {
	p.became(pod, from, func(s *oracle.State) { pod.ended, s.Spared = true, true })
}

// Named returns the newest pod with a name.
func (p *Play) Named(name string) *Pod {
	for _, pod := range slices.Backward(p.pods) {
		if pod.Name == name || pod.alias == name && name != "" {
			return pod
		}
	}
	panic("the scenario has no pod " + name)
}

// Began returns the instant from which the times of a pod are counted: just before the first taint of its node or, if
// that was there already, just before it was made.
func (p *Play) Began(pod *Pod) time.Time {
	began := pod.made.From
	if versions := p.nodes[pod.node]; len(versions) > 0 {
		began = oracle.Later(began, versions[0].At.From)
	}
	return began
}

// rule is the one that everybody is judged by.
var rule = oracle.Rule{ComparisonOperators: true}

// promise is what the rule means for a pod.
func (p *Play) promise(pod *Pod) oracle.Promise {
	return rule.Promise(p.nodes[pod.node], pod.made, pod.states)
}
