// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// finds plays a scenario in virtual time. The check must find something that begins with the given words or, if there
// are none, nothing.
func finds(t *testing.T, words string, s Scenario, check Check) {
	t.Helper()
	s.Promised = []Check{check}
	found, err := PlayVirtually(t, Ours, s)
	if err != nil || found.Right != (words == "") || !strings.HasPrefix(found.Seen, words) {
		t.Errorf("%v, %v, want %q", found, err, words)
	}
}

func TestTheTurnsOfAZone(t *testing.T) {
	taint := func(node string, effects ...corev1.TaintEffect) Step {
		return ChangeTaints(node, func([]corev1.Taint) (all []corev1.Taint) {
			for _, effect := range effects {
				all = append(all, corev1.Taint{Key: unreachable, Effect: effect})
			}
			return all
		})
	}
	const noNew, leave = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	for name, test := range map[string]struct {
		when []Step
		want string
	}{
		"as they should be": {[]Step{After(grace), taint("a", noNew, leave), taint("b", noNew), After(taintEvery), taint("b", noNew, leave), taint("a")}, ""},
		"too soon":          {[]Step{taint("a", noNew, leave), After(taintEvery), taint("b", noNew, leave)}, "a was tainted when it had been silent for 0 ms; b was"},
		"too fast":          {[]Step{After(grace), taint("a", noNew, leave), After(time.Second), taint("b", noNew, leave)}, "the zone was tainted within 1.0 s"},
		"one by one":        {[]Step{After(grace), taint("a", noNew, leave), After(taintEvery), taint("b", noNew, leave), taint("b", leave)}, "b lost one of its taints"},
	} {
		t.Run(name, func(t *testing.T) {
			z := newZone("a", "b")
			hear := func(context.Context, *Play) error {
				z.heard["a"], z.heard["b"] = time.Now(), time.Now()
				return nil
			}
			finds(t, test.want, Scenario{Given: []Step{Simulated("a", "b"), hear}, When: test.when}, z.inTurn)
		})
	}
	finds(t, "node a of another zone", Scenario{When: []Step{Node("a"), Taint("a", "gone")}}, neverTainted("a"))
}

// TestWhatAPlanDidNotSay lets one pod leave after three seconds, and another stay.
func TestWhatAPlanDidNotSay(t *testing.T) {
	type planned struct {
		leaves bool
		after  time.Duration
	}
	asItIs := planned{true, 3 * time.Second}
	for name, test := range map[string]struct {
		leaver, stayer planned
		tainted        time.Duration
		want           string
	}{
		"all as planned":                {asItIs, planned{}, 0, ""},
		"a pod leaves early":            {planned{true, 9 * time.Second}, planned{}, 0, "leaver left after 3.0 s, according to the plan after 9.0 s"},
		"a pod leaves that was to stay": {planned{}, planned{}, 0, "leaver left: true, according to the plan: false"},
		"a pod stays that was to leave": {asItIs, planned{leaves: true}, 0, "stayer left: false, according to the plan: true"},
		"a node is tainted early":       {planned{true, 13 * time.Second}, planned{}, 10 * time.Second, "a node was tainted "},
	} {
		t.Run(name, func(t *testing.T) {
			var said foresight
			foretell := func(_ context.Context, p *Play) error {
				node := p.NodeName("node")
				said = foresight{
					at: time.Now(), nodes: []string{node}, taints: map[string]time.Time{}, leaves: map[types.UID]time.Time{},
				}
				if test.tainted > 0 {
					said.taints[node] = said.at.Add(test.tainted)
				}
				for name, pod := range map[string]planned{"leaver": test.leaver, "stayer": test.stayer} {
					if pod.leaves {
						said.leaves[p.Named(name).UID] = said.at.Add(pod.after)
					}
				}
				return nil
			}
			finds(t, test.want, Scenario{
				Given: []Step{Node("node"), On("node", "leaver", scene.Tolerating("gone", 3)), On("node", "stayer", agent), foretell},
				When:  []Step{After(time.Millisecond), Taint("node", "gone"), Gone("leaver")},
			}, func(_ context.Context, p *Play) (Finding, error) { return compare(p, said), nil })
		})
	}
}
