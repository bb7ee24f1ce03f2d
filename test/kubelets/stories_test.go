// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	rig "github.com/taintkeeper/taintkeeper/test/rig/kubelets"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const unreachable, notReady = corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady

// The casts.
var (
	// insteadOfTheBuiltIn is Taintkeeper instead of the built-in controllers for evictions and node health.
	insteadOfTheBuiltIn = cast{
		without: "-taint-eviction-controller,-node-lifecycle-controller",
		config:  &localcluster.TaintkeeperConfig{Args: []string{"--controllers=*", "--node-monitor-grace-period=12s"}},
	}
	// nextToTheBuiltIn is Taintkeeper next to a kube-controller-manager whose flags nobody changed.
	nextToTheBuiltIn = cast{config: &localcluster.TaintkeeperConfig{Coexist: true}}
	// builtIn is kube-controller-manager alone.
	builtIn = cast{}
)

// TestAfterTheBuiltIn comes first, because the built-in may not evict for a while after another test.
func TestAfterTheBuiltIn(t *testing.T) { play(t, builtIn, begun...) }

func TestInsteadOfTheBuiltIn(t *testing.T) {
	play(t, insteadOfTheBuiltIn, slices.Concat(failures, containers, holds)...)
}

func TestNextToTheBuiltIn(t *testing.T) {
	play(t, nextToTheBuiltIn, slices.Concat(containers, holds)...)
}

// away lets a pod tolerate for some seconds that its node is not ready or silent.
func away(seconds int64) Edit {
	return func(pod *corev1.Pod) {
		for _, edit := range scene.ToleratingNotReady(seconds) {
			edit(pod)
		}
	}
}

// containers are stories about what containers see of a taint.
var containers = []Scenario{
	{
		Name: "each container is told when its pod is due, and has its grace period",
		Given: []Step{
			Machine("n"),
			On("n", "plain", Runs()),
			On("n", "three", Runs(), scene.Tolerating("gone", 3)),
			On("n", "forever", Runs(), scene.Indefinitely("gone")),
			On("n", "any", Runs(), scene.Indefinitely("")),
			On("n", "ignores", Runs("-ignore"), Grace(8)),
			On("n", "slow", Runs("-stop=4s")),
			On("n", "hook", Runs(), Hook("3s")),
			On("n", "long-hook", Runs(), Hook("60s"), Grace(5)),
			On("n", "sidecar", Runs("-stop=2s"), Sidecar),
			On("n", "init", Runs(), Init("600s")),
			On("n", "completed", Runs("-exit=100ms"), Once),
			On("n", "finalizer", Runs(), Finalizer),
			Static("n", "static", Runs()),
			Wrote("main starts", "plain", "three", "forever", "any", "ignores", "slow", "hook", "long-hook", "sidecar",
				"finalizer", "static"),
			Wrote("init starts", "init"), Wrote("main ends", "completed"),
		},
		When: []Step{Taint("n", "gone")},
		Promised: []Check{
			ByRule,
			Saw("plain", "0s main SIGTERM", "0s main ends"),
			Saw("three", "0s main SIGTERM", "0s main ends"),
			Saw("ignores", "0s main SIGTERM"), GoneAfter("ignores", 8*time.Second),
			Saw("slow", "0s main SIGTERM", "4s main ends"),
			Saw("hook", "0s hook starts", "3s hook ends", "3s main SIGTERM",
				"3s main ends"),
			Saw("long-hook", "0s hook starts", "5s main SIGTERM", "5s main ends"),
			Saw("sidecar", "0s main SIGTERM", "2s main ends", "2s sidecar SIGTERM",
				"2s sidecar ends"),
			Saw("init", "0s init SIGTERM"),
			Saw("finalizer", "0s main SIGTERM", "0s main ends"),
			SawNothing("forever", "any", "completed", "static"),
		},
	},
	{
		Name: "a countdown continues while the kubelet restarts",
		Given: []Step{
			Machine("n"), On("n", "twenty", Runs(), scene.Tolerating("gone", 20)), On("n", "never", Runs(), scene.Indefinitely("gone")),
			Wrote("main starts", "twenty", "never"),
		},
		When:     []Step{Taint("n", "gone"), After(2 * time.Second), RestartKubelet("n")},
		Promised: []Check{ByRule, Saw("twenty", "0s main SIGTERM", "0s main ends"), SawNothing("never")},
	},
	{
		Name: "a held pod with a toleration of its taint, even for 0 s, survives a restart of the kubelet",
		Given: []Step{
			Machine("n"), On("n", "zero", Runs(), scene.Tolerating("gone", 0)), Wrote("main starts", "zero"),
			Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}),
		},
		When:     []Step{Taint("n", "gone"), Held(1), RestartKubelet("n")},
		Promised: []Check{Stays("zero"), SawNothing("zero")},
	},
	{
		Name: "a pod is bound to a node that is already tainted",
		Given: []Step{
			Machine("n"), Taint("n", "gone"), On("n", "refused", Runs()), On("n", "five", Runs(), scene.Tolerating("gone", 5)),
		},
		Promised: []Check{ByRule, Saw("five", "0s main SIGTERM", "0s main ends"), SawNothing("refused")},
	},
}

// failures are stories about nodes that fail.
var failures = []Scenario{
	{
		Name: "a kubelet is killed: pods that are due are told when it is back",
		Given: []Step{
			ExtraGraceOver, Machine("n"), On("n", "brief", Runs(), away(3)), On("n", "long", Runs(), away(300)),
			On("n", "agent", Runs(), scene.Indefinitely("")), Wrote("main starts", "brief", "long", "agent"),
		},
		When: []Step{
			KillKubelet("n"), AwaitTaint("n", unreachable), Gone("brief"), Then(SawNothing("brief", "long", "agent")),
			StartKubelet("n"), AwaitNoTaint("n", unreachable),
		},
		Promised: []Check{
			ByRule, Saw("brief", "0s main SIGTERM", "0s main ends"), SawNothing("long", "agent"),
		},
	},
	{
		Name:     "a kubelet is back before its pods are due: nothing happens to them",
		Given:    []Step{ExtraGraceOver, Machine("n"), On("n", "long", Runs(), away(15)), Wrote("main starts", "long")},
		When:     []Step{KillKubelet("n"), AwaitTaint("n", unreachable), StartKubelet("n"), AwaitNoTaint("n", unreachable)},
		Promised: []Check{ByRule, SawNothing("long")},
	},
	{
		Name: "the network is cut: pods that are due are told when it is back",
		Given: []Step{
			ExtraGraceOver, Machine("n"), On("n", "brief", Runs(), away(3)), On("n", "long", Runs(), away(300)),
			Wrote("main starts", "brief", "long"),
		},
		When: []Step{
			Cut("n"), AwaitTaint("n", unreachable), Gone("brief"), Then(SawNothing("brief", "long")),
			Heal("n"), AwaitNoTaint("n", unreachable),
		},
		Promised: []Check{
			ByRule, Saw("brief", "0s main SIGTERM", "0s main ends"), SawNothing("long"),
		},
	},
	{
		Name: "the container runtime is killed: the node is not ready, and pods that are due are told when it is back",
		Given: []Step{
			Machine("n"), On("n", "brief", Runs(), away(2)), On("n", "long", Runs(), away(300)),
			Wrote("main starts", "brief", "long"),
		},
		When: []Step{
			KillRuntime("n"), AwaitTaint("n", notReady), Gone("brief"), Then(SawNothing("brief", "long")),
			StartRuntime("n"), AwaitNoTaint("n", notReady),
		},
		Promised: []Check{
			ByRule, Saw("brief", "0s main SIGTERM", "0s main ends"), SawNothing("long"),
		},
	},
	{
		Name: "a node reboots during a countdown: its pods are due as before",
		Given: []Step{
			Machine("n"), On("n", "thirty", Runs(), scene.Tolerating("gone", 30)), Wrote("main starts", "thirty"),
		},
		When:     []Step{Taint("n", "gone"), Reboot("n"), Wrote("main starts", "thirty")},
		Promised: []Check{ByRule},
	},
	{
		Name: "all nodes are cut off: nothing is evicted",
		Given: []Step{
			ExtraGraceOver, Machine("a"), Machine("b"), On("a", "one", Runs(), away(6)), On("b", "two", Runs(), away(6)),
			Wrote("main starts", "one", "two"),
		},
		When:     []Step{Cut("a"), Cut("b"), After(28 * time.Second), Heal("a"), Heal("b"), After(5 * time.Second)},
		Promised: []Check{Stays("one"), Stays("two"), SawNothing("one", "two")},
		Watched:  time.Second,
		Alone:    true,
	},
	{
		Name: "the disk is nearly full: the node is tainted as long as the kubelet says so",
		Given: []Step{
			Machine("n"), On("n", "critical", Runs(), scene.Indefinitely("gone"), nodeCritical),
			Wrote("main starts", "critical"),
		},
		When: []Step{
			Settings("n", map[string]any{"evictionHard": rig.Thresholds(map[string]string{"nodefs.available": "99%"})}),
			AwaitNoSchedule("n", corev1.TaintNodeDiskPressure, true),
			Settings("n", nil), AwaitNoSchedule("n", corev1.TaintNodeDiskPressure, false),
		},
		Promised: []Check{ByRule},
	},
}

// nodeCritical keeps the kubelet from evicting a pod by itself.
func nodeCritical(pod *corev1.Pod) { pod.Spec.PriorityClassName = "system-node-critical" }

// begun are stories that the built-in begins, and in which Taintkeeper starts next to it.
var begun = []Scenario{
	{
		Name: "a pod that the built-in evicts ends as it would",
		Given: []Step{
			Machine("n"), On("n", "slow", Runs("-stop=10s"), Grace(60)), On("n", "ignores", Runs("-ignore"), Grace(10)),
			Wrote("main starts", "slow", "ignores"),
		},
		When: []Step{letGo, Taint("n", "gone"), Gone("slow"), Gone("ignores"), joins},
		Promised: []Check{
			Saw("slow", "0s main SIGTERM", "10s main ends"), GoneAfter("slow", 10*time.Second),
			Saw("ignores", "0s main SIGTERM"), GoneAfter("ignores", 10*time.Second),
		},
	},
}

// letGo waits until the built-in may evict, whatever came before.
func letGo(ctx context.Context, _ *Play) error { return cluster.WaitLetGo(ctx) }

// joins starts Taintkeeper next to the built-in.
func joins(ctx context.Context, p *Play) error {
	started, err := cluster.StartTaintkeeper(context.WithoutCancel(ctx), localcluster.TaintkeeperConfig{Binary: keeper, Coexist: true})
	if err == nil {
		p.Finally(func(context.Context) error { return started.Stop() })
	}
	return err
}
