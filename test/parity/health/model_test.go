// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// What both models share: what the conditions of a node say, and what the nodes of a zone say. It is written down here
// again, apart from the code of either contestant.

var pressures = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure: corev1.TaintNodeMemoryPressure, corev1.NodeDiskPressure: corev1.TaintNodeDiskPressure,
	corev1.NodePIDPressure: corev1.TaintNodePIDPressure, corev1.NodeNetworkUnavailable: corev1.TaintNodeNetworkUnavailable,
}

// readinessTaint is the key of the taint for a readiness, empty for none.
func readinessTaint(ready corev1.ConditionStatus) string {
	switch ready {
	case corev1.ConditionFalse:
		return corev1.TaintNodeNotReady
	case corev1.ConditionUnknown:
		return corev1.TaintNodeUnreachable
	}
	return ""
}

// taintNoSchedule makes the NoSchedule taints of a node what its conditions say.
func (c *cluster) taintNoSchedule(name string) {
	node := c.nodes[name]
	if node == nil {
		return
	}
	want := map[string]bool{readinessTaint(readyStatus(node)): true, corev1.TaintNodeUnschedulable: node.Spec.Unschedulable}
	for kind, key := range pressures {
		known := condition(node, kind)
		want[key] = known != nil && known.Status == corev1.ConditionTrue
	}
	for _, key := range noScheduleKeys {
		if want[key] != hasTaint(c.nodes[name], key, corev1.TaintEffectNoSchedule) {
			c.setTaint(name, key, corev1.TaintEffectNoSchedule, want[key], 0) // when plays no part
		}
	}
}

// setNoExecute makes the wanted taint the only NoExecute taint for readiness on a node; with an empty key, it removes
// them all.
func (c *cluster) setNoExecute(name, wanted string, at time.Duration) {
	for _, key := range noExecuteKeys {
		if node := c.nodes[name]; node != nil && hasTaint(node, key, corev1.TaintEffectNoExecute) != (key == wanted) {
			c.setTaint(name, key, corev1.TaintEffectNoExecute, key == wanted, at)
		}
	}
}

// exchangeNoExecute gives a node that has one of the NoExecute taints for readiness the wanted one in its place, with
// the time since when it has had any.
func (c *cluster) exchangeNoExecute(name, wanted string, at time.Duration) {
	since, stays := undated, false
	if node := c.nodes[name]; node != nil {
		since = executedSince(node)
		stays = hasTaint(node, wanted, corev1.TaintEffectNoExecute) && !hasTaint(node, opposite(wanted), corev1.TaintEffectNoExecute)
	}
	if stays {
		return
	}
	c.setNoExecute(name, wanted, at)
	if since != undated {
		c.setTaint(name, wanted, corev1.TaintEffectNoExecute, true, since)
	}
}

func (c *cluster) setTaint(name, key string, effect corev1.TaintEffect, there bool, at time.Duration) {
	c.edit(name, func(node *corev1.Node) {
		if there {
			added := instant(at)
			node.Spec.Taints = withTaint(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect, TimeAdded: &added})
			return
		}
		node.Spec.Taints = withoutTaint(node.Spec.Taints, key, effect)
	})
}

// setUnknown sets what only a kubelet knows to Unknown.
func (c *cluster) setUnknown(name string) {
	c.edit(name, func(node *corev1.Node) {
		for _, kind := range kubeletConditions {
			heartbeat := node.CreationTimestamp
			if known := condition(node, kind); known != nil {
				heartbeat = known.LastHeartbeatTime
			}
			node.Status.Conditions = withCondition(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, LastHeartbeatTime: heartbeat,
			})
		}
	})
}

// graceOf is for how long a node may be silent.
func graceOf(node *corev1.Node) time.Duration {
	if condition(node, corev1.NodeReady) == nil {
		return grace.Startup
	}
	return grace.Monitor
}

func created(node *corev1.Node) time.Duration { return node.CreationTimestamp.Sub(arena.Epoch) }

func heartbeat(node *corev1.Node) metav1.Time {
	if c := condition(node, corev1.NodeReady); c != nil {
		return c.LastHeartbeatTime
	}
	return metav1.Time{}
}

func zoneOf(node *corev1.Node) string { return node.Labels[corev1.LabelTopologyZone] }

func counts(node *corev1.Node) bool {
	_, excluded := node.Labels["node.kubernetes.io/exclude-disruption"]
	return !excluded
}

// tally counts the nodes of a zone.
type tally struct{ size, notReady int }

// tallies counts the nodes of every zone that count.
func (c *cluster) tallies() map[string]tally {
	all := map[string]tally{}
	for _, node := range c.nodes {
		if !counts(node) {
			continue
		}
		zone := all[zoneOf(node)]
		zone.size++
		if readyStatus(node) != corev1.ConditionTrue {
			zone.notReady++
		}
		all[zoneOf(node)] = zone
	}
	return all
}

func (t tally) state() readiness.State {
	switch {
	case t.notReady > 0 && t.notReady == t.size:
		return readiness.FullDisruption
	case t.notReady > 2 && float32(t.notReady)/float32(t.size) >= policy.UnhealthyShare:
		return readiness.PartialDisruption
	}
	return readiness.Normal
}

func (t tally) rate(state readiness.State) float32 {
	switch {
	case state != readiness.PartialDisruption:
		return policy.Rate
	case t.size > policy.LargeZone:
		return policy.SecondaryRate
	}
	return 0
}

// allFull reports whether every zone is fully disrupted.
func allFull(zones map[string]tally) bool {
	for _, zone := range zones {
		if zone.state() != readiness.FullDisruption {
			return false
		}
	}
	return len(zones) > 0
}

// taintedAt reports whether a node got a NoExecute taint at an instant.
func (o outcome) taintedAt(name string, at time.Duration) bool {
	looks := o[name]
	return slices.ContainsFunc(looks, func(l look) bool { return l.noExecute != "" && (l.at-at).Abs() <= exactly })
}
