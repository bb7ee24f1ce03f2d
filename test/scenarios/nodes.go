// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// Nodes are the scenarios of node health: nodes whose kubelets fall silent or are not ready. They are played in virtual
// time and, by test/e2e, on a real control plane, each alone. A zone that another scenario has just disturbed
// may give the first node no turn yet.
var Nodes = []Scenario{
	{
		Name: "a silent node is tainted in one write, and its return takes both taints in one",
		Given: []Step{
			ExtraGraceOver, Kubelets("a", 3), Kubelets("b", 1), Mute("mute", "b"),
			On("a-0", "on-silent", scene.ToleratingNotReady(LongTime)...), PostReady("on-silent"),
		},
		When: []Step{
			FallSilent("a-0"),
			Then(
				Becomes("a-0", Silent, Unreachable), Dated("a-0"),
				Missed("a-0", "NodeStatusUnknown", "Kubelet stopped posting node status."),
				SaysOfNode("Normal NodeNotReady", "status is now: NodeNotReady", "a-0"),
				SaysOfPod("Warning NodeNotReady", "Node is not ready", "on-silent"), MarkedNotReady("on-silent"),
			),
			// A restart changes nothing for nodes that are already Unknown. A node whose grace period is still running
			// gets a new one.
			FallSilent("a-1"), Restart,
			Then(
				Becomes("a-1", Silent, Unreachable), Becomes("a-0"),
				SaysOfNode("Normal NodeNotReady", "status is now: NodeNotReady", "a-0"),
			),
			Return("a-0", "a-1"),
		},
		Promised: []Check{
			Becomes("a-0", Untainted), Becomes("a-1", Untainted), Becomes("a-2"), Becomes("b-0"),
			Becomes("mute", Silent, Unreachable),
			Missed("mute", "NodeStatusNeverUpdated", "Kubelet never posted node status."),
		},
	},
	{
		Name:  "the nodes of a silent zone are tainted at its rate, and other zones are untouched",
		Given: []Step{Kubelets("a", 3), Kubelets("b", 2)}, // a zone of three nodes is never in PartialDisruption
		When: []Step{
			FallSilent("a-0", "a-1", "a-2"), Tainted(2, "a-0", "a-1", "a-2"), Restart, Tainted(3, "a-0", "a-1", "a-2"),
			Then(
				OneByOne("a-0", "a-1", "a-2"),
				SaysOfNode("Warning NoExecuteTaintHeld", "zone local/a is in state ", "a-0", "a-1", "a-2"),
				SaysOfNode("Warning NoExecuteTaintHeld", "one of its nodes is tainted every 2 s", "a-0", "a-1", "a-2"),
				Becomes("a-0", Silent, Perhaps(Unscheduled), Unreachable),
				Becomes("a-1", Silent, Perhaps(Unscheduled), Unreachable),
				Becomes("a-2", Silent, Perhaps(Unscheduled), Unreachable),
			),
			Return("a-0", "a-1", "a-2"),
		},
		Promised: []Check{
			Becomes("a-0", Untainted), Becomes("a-1", Untainted), Becomes("a-2", Untainted), Becomes("b-0"), Becomes("b-1"),
		},
	},
	{
		Name:  "while all zones are silent no node is tainted NoExecute, until one comes back",
		Given: []Step{Kubelets("a", 2), Kubelets("b", 2)},
		When: []Step{
			FallSilent("a-0", "a-1"), Tainted(2, "a-0", "a-1"), FallSilent("b-0", "b-1"),
			Then(
				Ends("a-0", Unreachable, Unscheduled), Ends("a-1", Unreachable, Unscheduled),
				Ends("b-0", Unscheduled), Ends("b-1", Unscheduled),
				SaysOfNode("Warning NoExecuteTaintHeld", "every zone is fully disrupted (zone local/", "b-0"),
				SaysOfNode("Warning NoExecuteTaintHeld", "every zone is fully disrupted (zone local/", "b-1"),
			),
			// Nor does a restart change anything.
			FromNow("a-0", "a-1", "b-0", "b-1"), Restart, After(4 * time.Second),
			Then(Becomes("a-0"), Becomes("a-1"), Becomes("b-0"), Becomes("b-1")),
			FromNow("a-0", "a-1", "b-1"), Return("b-0"),
		},
		Promised: []Check{
			Becomes("b-0", Untainted), Becomes("b-1", Unreachable), Becomes("a-0", Unreachable), Becomes("a-1", Unreachable),
			OneByOne("a-0", "a-1"),
		},
	},
	{
		Name: "pods leave a node that is not ready or silent when their toleration ends",
		Given: []Step{
			Kubelet("failing", "c", ExcludeDisruption), Kubelet("falling", "c", ExcludeDisruption),
			Kubelet("fine", "c", ExcludeDisruption), tolerating("failing"), tolerating("falling"), tolerating("fine"),
		},
		When: []Step{
			FallSilent("falling"), notReady("failing"),
			Then(Becomes("failing", NotReady), Becomes("falling", Silent, Unreachable)),
			Gone("failing-zero"), Gone("failing-three"), Gone("falling-zero"), Gone("falling-three"),
			After(time.Second), Return("failing", "falling"),
		},
		Promised: []Check{
			Becomes("failing", Untainted), Becomes("falling", Untainted), Becomes("fine"), ByRule,
			SaysCancelled("failing-long", 1), SaysCancelled("falling-long", 1),
		},
	},
	{
		Name: "pods leave a node that falls silent after it was not ready as if it had one taint",
		Given: []Step{
			Kubelet("sick", "d", ExcludeDisruption), Kubelet("fine", "d", ExcludeDisruption),
			On("sick", "pod", scene.ToleratingNotReady(20)...),
		},
		When: []Step{
			notReady("sick"), Then(Becomes("sick", NotReady)), After(time.Second), FallSilent("sick"),
			Then(Becomes("sick", Silent, Unreachable), Dated("sick")),
		},
	},
}

func notReady(node string) Step {
	return Post(node, Conditions{corev1.NodeReady: corev1.ConditionFalse})
}

// tolerating makes a pod for each way of tolerating that a node is not ready or silent. On a real API server the one
// without tolerations gets some that last five minutes.
func tolerating(node string) Step {
	return Steps(
		On(node, node+"-zero", scene.ToleratingNotReady(0)...), On(node, node+"-three", scene.ToleratingNotReady(3)...),
		On(node, node+"-long", scene.ToleratingNotReady(LongTime)...), On(node, node+"-default"),
		On(node, node+"-ever", tolerateAll),
	)
}
