// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// foreseenFor is the plan of the last act, made at its start, with these pods.
func foreseenFor(seen ...sighting) *cliv1alpha1.TaintPlan {
	const rate = float32(time.Second) / float32(taintEvery)
	cluster := &plan.Cluster{}
	silence := plan.Silence{
		At: start, Grace: readiness.Grace{Monitor: grace},
		Policy: readiness.Policy{Rate: rate, FullDisruptionRate: rate, UnhealthyShare: 1},
	}
	for _, spec := range nodes {
		node := seenNode(spec.Name, corev1.ConditionTrue)
		node.Labels = map[string]string{corev1.LabelTopologyZone: spec.Zone}
		cluster.Nodes = append(cluster.Nodes, &node)
		if spec.Zone == silentZone {
			silence.Nodes = append(silence.Nodes, &node)
		}
	}
	for _, s := range seen {
		cluster.Pods = append(cluster.Pods, s.pod)
	}
	return plan.MakeSilent(cluster, silence)
}

func identified(s sighting) sighting {
	s.pod.UID = types.UID(s.pod.Name)
	return s
}

func TestWhatHappensInTheLastActIsWhatThePlanOfItSaid(t *testing.T) {
	tolerant, loyal := forSeconds(unreached, 6), forEver(unreached)
	here, there := identified(sightingOf("here", north1, tolerant)), identified(sightingOf("there", north2, loyal))
	made := foreseenFor(here, there)
	if got := made.Summary; got.Leave != 1 || got.Pods != 2 || got.Held != 0 {
		t.Fatalf("the plan counts %+v, want one of two pods to leave", got)
	}
	for name, test := range map[string]struct {
		spoil func(v *vigil, seen []sighting)
		want  string
	}{
		"all as it was said":     {func(*vigil, []sighting) {}, ""},
		"a node is tainted late": {func(v *vigil, _ []sighting) { v.nodes[1].leave.before = after(20) }, "node north-2 was tainted "},
		"a node is tainted soon": {func(v *vigil, _ []sighting) { v.nodes[0].leave.before = after(6) }, "node north-1 was tainted "},
		"a pod leaves early":     {func(_ *vigil, seen []sighting) { seen[0] = seen[0].evictedAfter(12) }, "pod here left "},
		"a pod stays that was to leave": {
			func(v *vigil, seen []sighting) { seen[0], v.back = here, after(20) }, "pod here stayed, and the plan had it leave",
		},
		"a pod leaves that was to stay": {
			func(_ *vigil, seen []sighting) { seen[1] = seen[1].evictedAfter(13) }, "pod there left, and the plan had it stay",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, seen := silentVigil(t), []sighting{here.evictedAfter(14.2), there}
			test.spoil(v, seen)
			got := v.unforeseen(made, seen)
			if test.want == "" && len(got) > 0 {
				t.Errorf("it says %q, want nothing", got)
			}
			if test.want != "" && !slices.ContainsFunc(got, func(p string) bool { return strings.HasPrefix(p, test.want) }) {
				t.Errorf("it says %q, want one that begins with %q", got, test.want)
			}
		})
	}
}
