// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/shadow"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/scenarios"
)

const (
	// kwok renews the Lease of a node four times in leaseSeconds.
	leaseSeconds = 4
	renewal      = leaseSeconds * time.Second / 4
	// stormPods are due at once. Other stories use a few pods.
	stormPods = 300
)

// TestEvictions plays Taintkeeper instead of the built-in taint-eviction-controller.
func TestEvictions(t *testing.T) {
	play(t, cast{without: onlyOurs, replicas: 1},
		slices.Concat(scenarios.All, evictions, callByCall, policies)...)
}

var evictions = []Scenario{
	{
		Name:     "many pods are due at once",
		Given:    []Step{Node("tainted"), Crowd("tainted", stormPods)},
		When:     []Step{Taint("tainted", "gone")},
		Promised: []Check{storm},
		Alone:    true, // in a storm, events of other stories are left out
	},
	{
		Name:     "untainted while evictions wait",
		Given:    []Step{Node("tainted"), Crowd("tainted", 20)},
		When:     []Step{WhileRefused(Taint("tainted", "gone"), After(2*time.Second), Untaint("tainted", "gone"))},
		Promised: []Check{NoneAfterUntaint("tainted"), allStay},
	},
	{
		Name:  "replaced under its name while its eviction waits",
		Given: []Step{Node("healthy"), Alone("web-0")},
		When: []Step{
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}), Taint("web-0", "gone"), Held(1),
			Delete("web-0"), On("healthy", "web-0"), Unfollow,
		},
		Promised: []Check{Stays("web-0")},
	},
	{
		Name:  "the API server restarts while pods are due",
		Given: []Step{Node("tainted"), countdowns("tainted", 12)},
		When:  []Step{Taint("tainted", "gone"), After(4 * time.Second), restartAPIServer},
		Alone: true,
	},
	{
		Name:     "the metrics say what is ahead, and how late evictions were, in seconds",
		Given:    []Step{Alone("due"), On("due", "pending", scene.Tolerating("gone", scenarios.LongTime))},
		When:     []Step{Taint("due", "gone"), Gone("due"), After(time.Second)},
		Promised: []Check{metricsAreRight, ByRule},
	},
	{
		Name:  "a plan comes true",
		Given: []Step{Alone("now"), On("now", "soon", scene.Tolerating("gone", 4)), On("now", "agent", scene.Indefinitely(""))},
		When:  []Step{planned("now", "gone:NoExecute"), Taint("now", "gone")},
		Promised: []Check{
			ByRule, asPlanned,
		},
	},
	{
		Name:     "a replacement starts where the plan says",
		Given:    []Step{Simulated("one", "two", "three"), deployment("web", 3)},
		When:     []Step{planned("one", "gone:NoExecute", "--where-to"), Taint("one", "gone")},
		Promised: []Check{replacedAsPlanned("web", 3)},
	},
	{
		Name:     "the plugin taints, waits and says what left",
		Given:    []Step{Simulated("node"), On("node", "pod", scene.Tolerating("gone", 2))},
		When:     []Step{kubectlTaint("node", "gone:NoExecute", "--wait", "--timeout=2m")},
		Promised: []Check{ByRule},
	},
	{
		Name:     "leaving and the board show a pod that will leave",
		Given:    []Step{Alone("pod", scene.Tolerating("gone", scenarios.LongTime))},
		When:     []Step{Taint("pod", "gone"), After(time.Second)},
		Promised: []Check{isPending("pod"), isOnBoard("pod")},
	},
	{
		Name:     "a rule turns a condition into a taint, and back",
		Given:    []Step{Alone("pod", scene.Tolerating("example.com/broken", 3)), rule("pod", "Broken", "example.com/broken")},
		When:     []Step{condition("pod", "Broken", corev1.ConditionTrue), AwaitTaint("pod", "example.com/broken")},
		Promised: []Check{ByRule, heals("pod", "Broken", "example.com/broken")},
	},
}

// TestShadow plays shadow mode next to the built-in, before anything keeps that from evicting.
func TestShadow(t *testing.T) {
	play(t, cast{replicas: 1, args: []string{"--shadow"}}, append(slices.Clone(shadows), metricsOfShadow)...)
}

var shadows = []Scenario{
	{
		Name:     "a restart of kube-controller-manager begins a countdown again, and the report says so",
		Given:    []Step{Alone("punctual"), Alone("late", scene.Tolerating("gone", 12))},
		When:     []Step{Taint("punctual", "gone"), Taint("late", "gone"), After(8 * time.Second), restartBuiltIn, Gone("late")},
		Promised: []Check{reported("punctual", "late")},
		Alone:    true,
	},
	{
		Name:     "an eviction that a webhook refused for a moment is never carried out, and the report says so",
		Given:    []Step{Alone("forgotten")},
		When:     []Step{WhileRefused(Taint("forgotten", "gone"), refused("forgotten", builtInTries, theBuiltIns)), After(shadow.MissedAfter)},
		Promised: []Check{reportedNever("forgotten")},
		Alone:    true,
		Long:     true,
	},
}
