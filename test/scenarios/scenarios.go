// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenarios lists the stories that hold for every evictor that keeps the rule. Add a new one to [All] or, if it
// is about silent nodes, to [Nodes]. It is played in virtual time and, by test/e2e, on a real control plane; if
// test/defects names it, the built-in controller plays it as well. test/rig/scenario has the steps and the checks.
package scenarios

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// LongTime is a toleration in seconds that outlasts every scenario.
const LongTime = 600

// Named returns scenarios by their names.
func Named(names ...string) []Scenario {
	var found []Scenario
	for _, name := range names {
		i := slices.IndexFunc(All, func(s Scenario) bool { return s.Name == name })
		if i < 0 {
			panic("there is no scenario " + name)
		}
		found = append(found, All[i])
	}
	return found
}

// All are the scenarios.
var All = []Scenario{
	{
		Name: "a taint that nobody tolerates",
		Given: []Step{
			Alone("leaves"), On("leaves", "tolerates", scene.Tolerating("gone", LongTime)), Alone("elsewhere"),
			On("leaves", "tolerates-another", scene.Tolerating("other", LongTime)),
			On("leaves", "zero", scene.Tolerating("gone", 0)), On("leaves", "tolerates-all", tolerateAll),
		},
		When: []Step{Taint("leaves", "gone")},
	},
	{
		Name:  "seconds count from the taint",
		Given: []Step{Alone("short", scene.Tolerating("gone", 3)), On("short", "long", scene.Tolerating("gone", 6))},
		When:  []Step{Taint("short", "gone"), On("short", "late", scene.Tolerating("gone", 3))},
	},
	{
		Name:  "second, shorter taint",
		Given: []Step{Alone("pod", scene.Tolerating("long", LongTime), scene.Tolerating("short", 3))},
		When:  []Step{Taint("pod", "long"), After(time.Second), Taint("pod", "short")},
	},
	{
		Name:     "shorter one removed",
		Given:    []Step{Alone("pod", scene.Tolerating("long", 15), scene.Tolerating("short", 5))},
		When:     []Step{Taint("pod", "long", "short"), After(2 * time.Second), Untaint("pod", "short")},
		Promised: []Check{ByRule, SaysCancelled("pod", 0)},
	},
	changedSeconds("seconds shortened", LongTime, 5),
	changedSeconds("seconds lengthened", 5, 15),
	changedSeconds("seconds shortened to a time that has passed", LongTime, 0),
	changedSeconds("seconds shortened to less than nothing", LongTime, -5),
	changedSeconds("seconds lengthened beyond all bounds", 5, 1<<62),
	changedSeconds("seconds shortened from beyond all bounds", 1<<62, 5),
	{
		Name: "seconds that overflow",
		Given: []Step{
			Alone("585-years", scene.Tolerating("gone", 18_446_744_074)),
			On("585-years", "largest", scene.Tolerating("gone", 1<<63-1)),
			On("585-years", "negative", scene.Tolerating("gone", -1<<62)),
		},
		When: []Step{Taint("585-years", "gone")},
	},
	{
		Name:  "restart in mid-countdown",
		Given: []Step{Alone("pod", scene.Tolerating("gone", 15))},
		When:  []Step{Taint("pod", "gone"), After(5 * time.Second), Restart},
		Alone: true,
	},
	{
		Name:     "untaint",
		Given:    []Step{Alone("pod", scene.Tolerating("gone", 5))},
		When:     []Step{Taint("pod", "gone"), After(2 * time.Second), Untaint("pod", "gone")},
		Promised: []Check{ByRule, SaysCancelled("pod", 1)},
	},
	whilePending("tolerated indefinitely while pending", 1, TolerateIndefinitely("pending")),
	whilePending("untainted while pending", 1, Untaint("pending", "gone")),
	whilePending("deleted while pending", 0, Terminate("pending")),
	whilePending("deleted at once while pending", 0, Delete("pending")),
	whilePending("deleted and untainted while pending", 0, Terminate("pending"), Untaint("pending", "gone")),
	whilePending("replaced while pending", 0, Delete("pending"), Node("healthy"), On("healthy", "pending")),
	whilePending("node deleted while pending", 0, DeleteNode("pending")),
	{
		Name: "finished pods leave as upstream lets them",
		Given: []Step{
			Alone("succeeded"), Finish("succeeded", corev1.PodSucceeded), Alone("failed"), Finish("failed", corev1.PodFailed),
		},
		When: []Step{Taint("succeeded", "gone"), Taint("failed", "gone")},
	},
	{
		Name: "pods that are nobody's to evict",
		Given: []Step{
			Alone("ordinary"), On("ordinary", "mirror", Mirror), On("a-node-that-never-was", "orphan"),
			On("ordinary", "terminating"), Terminate("terminating"),
		},
		When: []Step{Taint("ordinary", "gone"), After(time.Second), Taint("ordinary", "again")},
	},
	{
		Name:     "node deleted",
		Given:    []Step{Alone("pod", scene.Tolerating("gone", 3))},
		When:     []Step{Taint("pod", "gone"), After(time.Second), DeleteNode("pod")},
		Promised: []Check{ByRule, SaysCancelled("pod", 0)},
	},
	{
		Name:  "replacement on a healthy node",
		Given: []Step{Alone("web-0", scene.Tolerating("gone", 3)), Node("healthy")},
		When:  []Step{Taint("web-0", "gone"), After(time.Second), Delete("web-0"), On("healthy", "web-0")},
	},
	{
		Name:  "replacement on the tainted node",
		Given: []Step{Alone("web-0", scene.Tolerating("gone", LongTime))},
		When: []Step{
			Taint("web-0", "gone"), After(time.Second), Delete("web-0"), On("web-0", "web-0", scene.Tolerating("gone", 2)),
		},
	},
	{
		Name:    "deletes refused",
		Given:   []Step{Alone("pod")},
		When:    []Step{WhileRefused(Taint("pod", "gone"), After(3*time.Second))},
		Watched: 20 * time.Second,
	},
	{
		Name:  "pod seen before the untaint",
		Given: []Step{Alone("before")},
		When: []Step{
			Taint("before", "gone"), Gone("before"), After(time.Second), Lag, Untaint("before", "gone"), On("before", "after"),
		},
		Alone: true,
	},
}

// changedSeconds is a pod whose tolerationSeconds change in mid-countdown.
func changedSeconds(name string, before, after int64) Scenario {
	return Scenario{
		Name:  name,
		Given: []Step{Alone("pod", scene.Tolerating("gone", before))},
		When:  []Step{Taint("pod", "gone"), After(2 * time.Second), Tolerate("pod", after)},
	}
}

// whilePending is a pod to which something happens while its eviction is pending. The witness, which came later, shows
// that it is.
func whilePending(name string, cancelled int, happens ...Step) Scenario {
	return Scenario{
		Name:     name,
		Given:    []Step{Alone("pending", scene.Tolerating("gone", LongTime)), On("pending", "witness")},
		When:     append([]Step{Taint("pending", "gone"), Gone("witness"), After(time.Second)}, happens...),
		Promised: []Check{ByRuleFor("pending"), SaysCancelled("pending", cancelled)},
	}
}

// tolerateAll lets a pod tolerate everything indefinitely.
func tolerateAll(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}
