// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/scenarios"
)

// TestNodeHealth plays Taintkeeper instead of the built-in node-lifecycle-controller, too. The state of a zone depends
// on all nodes, so each story is alone.
func TestNodeHealth(t *testing.T) {
	stories := slices.Concat(scenarios.Nodes, nodes, conditions, outages)
	for i := range stories {
		stories[i].Alone = true
	}
	play(t, cast{
		without: onlyOurs, replicas: 1,
		args: slices.Concat([]string{"--controllers=*"}, healthFlags), recovers: readiness.ExtraGrace,
	}, stories...)
}

var nodes = []Scenario{
	{
		Name: "a simulation of an outage comes true",
		Given: []Step{
			ExtraGraceOver, Simulated("a-1", "a-2", "b-1"), On("a-1", "brief", scene.Tolerating(corev1.TaintNodeUnreachable, 3)),
			On("a-1", "loyal", scene.Indefinitely("")), On("a-2", "elsewhere", scene.Tolerating(corev1.TaintNodeUnreachable, 3)),
		},
		When:     []Step{fallSilentAsSimulated("a-1")},
		Promised: []Check{asPlanned},
	},
}

// healthFlags are the flags of both taintkeeper and the simulation.
var healthFlags = []string{
	"--node-monitor-grace-period=" + NodeGrace.String(), "--node-startup-grace-period=" + NodeStartupGrace.String(),
	fmt.Sprintf("--node-eviction-rate=%g", 1/NodeTokenEvery.Seconds()),
}

// conditions are the scenarios of upstream's TestTaintNodeByCondition (test/integration/scheduler/taint), and the way
// back. A node that is not ready is tainted NoExecute, too; every pod tolerates that for five minutes.
var conditions = []Scenario{
	keepsAway("not ready", Post("sick", Conditions{corev1.NodeReady: no}), NotReady, "not-ready"),
	keepsAway("cordoned", Cordon("sick", true), "unschedulable:NoSchedule", "unschedulable"),
	keepsAway("memory", Post("sick", Conditions{corev1.NodeMemoryPressure: yes}), "memory-pressure:NoSchedule", "memory-pressure"),
	keepsAway("disk", Post("sick", Conditions{corev1.NodeDiskPressure: yes}), "disk-pressure:NoSchedule", "disk-pressure"),
	keepsAway("pid", Post("sick", Conditions{corev1.NodePIDPressure: yes}), "pid-pressure:NoSchedule", "pid-pressure"),
	keepsAway("network", Post("sick", Conditions{corev1.NodeNetworkUnavailable: yes}),
		"network-unavailable:NoSchedule", "network-unavailable"),
	keepsAway("network and not ready", Post("sick", Conditions{corev1.NodeReady: no, corev1.NodeNetworkUnavailable: yes}),
		"network-unavailable:NoSchedule not-ready:NoExecute not-ready:NoSchedule", "network-unavailable", "not-ready"),
	keepsAway("many",
		Steps(Post("sick", Conditions{corev1.NodeMemoryPressure: yes, corev1.NodePIDPressure: yes}), Cordon("sick", true)),
		"memory-pressure:NoSchedule pid-pressure:NoSchedule unschedulable:NoSchedule",
		"memory-pressure", "pid-pressure", "unschedulable"),
}

const no, yes = corev1.ConditionFalse, corev1.ConditionTrue

// keepsAway is a scenario in which something happens to a node, so that it gets taints that keep pods away.
func keepsAway(name string, happens Step, taints string, keys ...string) Scenario {
	return Scenario{
		Name:  "a condition keeps pods away for as long as it holds: " + name,
		Long:  true,
		Given: []Step{Kubelet("sick", "a"), Kubelets("b", 2)},
		When: []Step{
			unbound("strict"), unbound("tolerant", keys...),
			happens, Then(Ends("sick", taints)), Label("sick", opened),
			bound("tolerant"), heldOff("strict"),
			Cordon("sick", false), Post("sick", Conditions{corev1.NodeNetworkUnavailable: corev1.ConditionFalse}), Return("sick"),
			bound("strict"),
		},
		Promised: []Check{Ends("sick", Untainted), Becomes("b-0"), Becomes("b-1")},
	}
}

// opened is the label of a node that the scheduler may use. A scheduler that sees the label sees the taints that the
// node got before, but it may see a new pod before the taints of a node.
const opened = "opened"

// unbound makes a pod for the scheduler. It may run only on node sick once that is opened, and tolerates the NoSchedule
// taints with the given keys.
func unbound(name string, keys ...string) Step {
	return func(ctx context.Context, p *Play) error {
		_, err := p.Pod(ctx, name, "", func(pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.NodeName("sick"), opened: ""}
			for _, key := range keys {
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
					Key: "node.kubernetes.io/" + key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
				})
			}
		})
		return err
	}
}

// bound waits until the scheduler has bound a pod.
func bound(name string) Step {
	return awaitPod(name, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
}

// heldOff waits until the scheduler has found that the node's taints keep a pod away. It has words of its own for a
// cordoned node.
func heldOff(name string) Step {
	return awaitPod(name, func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && pod.Spec.NodeName == "" &&
				(strings.Contains(c.Message, "had untolerated taint") || strings.Contains(c.Message, "were unschedulable"))
		})
	})
}

func awaitPod(name string, wanted func(*corev1.Pod) bool) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(ctx context.Context) error {
			pod, err := p.Admin.CoreV1().Pods(p.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && !wanted(pod) {
				err = fmt.Errorf("pod %s on node %q: %v", name, pod.Spec.NodeName, pod.Status.Conditions)
			}
			return err
		})
	}
}

// outages are of the control plane, and longer than the grace period.
var outages = []Scenario{
	outageOf("the API server ends and is started again", stopAPIServer, startAPIServer),
	outageOf("the API server and Taintkeeper end and are started again",
		Steps(stopAPIServer, stopKeeper), Steps(startAPIServer, startKeeper)),
	outageOf("the API server and etcd stand still", freeze(localcluster.Etcd, localcluster.APIServer),
		thaw(localcluster.Etcd, localcluster.APIServer)),
	outageOf("Taintkeeper stands still", freeze(keeperOne), thaw(keeperOne)),
	outageOf("all of them stand still, and Taintkeeper goes on first", freeze(localcluster.Etcd, localcluster.APIServer, keeperOne),
		thaw(keeperOne, localcluster.APIServer, localcluster.Etcd)),
}

// keeperOne is the only replica.
const keeperOne = localcluster.Component("taintkeeper-1")

// outageOf is an outage that is longer than the grace period. A node that falls silent after it shows when Taintkeeper
// sees and acts again. If it had called other nodes silent, it would have done so before that.
func outageOf(name string, begin, end Step) Scenario {
	return Scenario{
		Name:  "no node that lives is called silent when " + name,
		Long:  true,
		Given: []Step{ExtraGraceOver, Kubelets("a", 2), Kubelets("b", 2), FallSilent("b-1"), Then(Becomes("b-1", Silent, Unreachable))},
		When: []Step{
			outageDuring(begin, After(NodeGrace+time.Second), end), Heard("a-0"), FallSilent("a-0"),
			Then(Becomes("a-0", Silent, Unreachable), Becomes("b-1"), Becomes("a-1"), Becomes("b-0")),
			Return("a-0"),
		},
		Promised: []Check{Becomes("a-0", Untainted), Becomes("b-1"), Becomes("a-1"), Becomes("b-0")},
	}
}
