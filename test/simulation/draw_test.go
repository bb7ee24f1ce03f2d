// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
)

const (
	// apart is the time between two steps. Together with [tolerated] it keeps removals of taints away from evictions.
	apart = 4 * time.Second
	// tolerated is the tolerationSeconds of pods that leave later.
	tolerated = 8
	// rest is how long a simulation lasts after the last step: a silence, a turn and a toleration.
	rest = 17 * time.Second
	// down is for how long the API server is down. After more than the grace period it would be luck who is heard first,
	// kwok or Taintkeeper, both of which wait for an answer.
	down = 3 * time.Second
)

// drawNodes draws two or three zones with up to three nodes, and names them after the round.
func (r *round) drawNodes() {
	for _, zone := range []string{"a", "b", "c"}[:2+r.random.IntN(2)] {
		for i := range 1 + r.random.IntN(3) {
			r.nodes = append(r.nodes, localcluster.NodeSpec{Name: fmt.Sprintf("%s-%s%d", r.Name, zone, i), Zone: zone})
		}
	}
}

// drawSteps draws three or four steps. Each is possible when it comes: silent nodes come back, and taints that are set
// are removed. In every third round the API server is down when pods are due that tolerate the first for some time.
func (r *round) drawSteps() (steps []cliv1alpha1.SimulationStep) {
	silent, tainted := map[string]bool{}, map[string][]string{}
	at := time.Second
	for i := range 3 + r.random.IntN(2) {
		if i == 2 && r.index%3 == 1 {
			steps = append(steps, cliv1alpha1.SimulationStep{At: metav1.Duration{Duration: at - time.Second}, APIServerDown: &metav1.Duration{Duration: down}})
			at += apart
		}
		step := cliv1alpha1.SimulationStep{At: metav1.Duration{Duration: at}}
		switch kind := r.random.IntN(3); {
		case kind == 0 && len(silent) > 0:
			step.Back = &cliv1alpha1.SimulationNodes{Nodes: r.some(silent)}
			for _, name := range step.Back.Nodes {
				delete(silent, name)
			}
		case kind == 1:
			step.Taint = r.drawTaint(tainted)
		default:
			step.Silent = &cliv1alpha1.SimulationNodes{Nodes: r.drawSilence(silent)}
			for _, name := range step.Silent.Nodes {
				silent[name] = true
			}
		}
		steps = append(steps, step)
		at += apart
	}
	return steps
}

// some draws some of a set, at least one.
func (r *round) some(set map[string]bool) (some []string) {
	all := make([]string, 0, len(set))
	for _, node := range r.nodes {
		if set[node.Name] {
			all = append(all, node.Name)
		}
	}
	for _, i := range r.random.Perm(len(all))[:1+r.random.IntN(len(all))] {
		some = append(some, all[i])
	}
	slices.Sort(some)
	return some
}

// drawSilence draws one node, or all of a zone. If others of a zone fell silent at one instant, it would be luck whether
// the first of them is tainted before the state of the zone is known.
func (r *round) drawSilence(already map[string]bool) (names []string) {
	chosen := r.nodes[r.random.IntN(len(r.nodes))]
	whole := r.random.IntN(2) == 0
	for _, node := range r.nodes {
		if node.Name == chosen.Name || whole && node.Zone == chosen.Zone {
			names = append(names, node.Name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return already[name] && len(names) > 1 })
}

// drawTaint draws a taint that is set on some nodes, or one that is removed.
func (r *round) drawTaint(tainted map[string][]string) *cliv1alpha1.SimulationTaint {
	key := workloads.Pick(r.random, keys...)
	step := &cliv1alpha1.SimulationTaint{}
	if nodes := tainted[key]; len(nodes) > 0 {
		delete(tainted, key)
		step.Nodes, step.Taints = nodes, []string{key + "-"}
		return step
	}
	for _, node := range r.nodes {
		if r.random.IntN(2) == 0 {
			step.Nodes = append(step.Nodes, node.Name)
		}
	}
	if len(step.Nodes) == 0 {
		step.Nodes = []string{r.nodes[0].Name}
	}
	tainted[key] = step.Nodes
	step.Taints = []string{key + workloads.Pick(r.random, "", "=now") + ":" + workloads.Pick(r.random, "NoExecute", "NoExecute", "NoSchedule")}
	return step
}
