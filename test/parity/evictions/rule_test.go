// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// leavesAt is when the model evicts a pod, by what its process knows now. It may lie in the past.
func (m *model) leavesAt(known *knownPod) time.Duration {
	switch {
	case m.excluded(known.object):
		return never
	case m.has.has(frozen):
		return known.work
	case known.done:
		return never
	}
	return min(known.carried, m.due(known).at)
}

// due is when a pod must leave because of the taints of its node.
type due struct {
	at          time.Duration // never: it stays
	untolerated bool          // because of a taint that no toleration matches
}

func (m *model) due(known *knownPod) due {
	node := m.nodes[known.object.Spec.NodeName]
	if node == nil {
		return due{at: never}
	}
	pod := oracle.Pod{Tolerations: known.object.Spec.Tolerations}
	if !m.has.has(fromSight) {
		pod.Bound = bound(known)
	}
	var earliest due
	var taints []oracle.Taint
	for _, taint := range node.taints {
		taints = append(taints, m.counts(known, taint))
		earliest.untolerated = earliest.untolerated || rule().First(pod.Tolerations, taint.Taint) == nil
	}
	earliest.at = afterEpoch(rule().Due(pod, taints).To)
	if m.has.has(overflow) && earliest.at == ages {
		earliest.at = overflowed(pod, taints)
	}
	return earliest
}

// rule is the rule with the feature gates of upstream's controller.
func rule() oracle.Rule { return oracle.Rule{ComparisonOperators: comparisonOperators()} }

// ages is an instant that no history reaches, and that yet is not never: a countdown runs.
const ages = never / 2

func afterEpoch(instant time.Time) time.Duration {
	if instant.Equal(oracle.Never) {
		return never
	}
	return min(instant.Sub(arena.Epoch), ages)
}

func (m *model) now() oracle.Span { return oracle.At(arena.Epoch.Add(m.at)) }

// overflowed is when a pod leaves if its shortest tolerationSeconds, which end in ages, are counted in 64-bit
// nanoseconds. A product that is negative counts as tolerated indefinitely.
func overflowed(pod oracle.Pod, taints []oracle.Taint) time.Duration {
	shortest, start := int64(math.MaxInt64), never
	for _, taint := range taints {
		if seconds := rule().First(pod.Tolerations, taint.Taint).TolerationSeconds; seconds != nil {
			shortest = min(shortest, *seconds)
		}
		start = min(start, afterEpoch(taint.Since.Max(pod.Bound).To))
	}
	if countdown := time.Duration(shortest) * time.Second; countdown >= 0 {
		return min(start+min(countdown, ages), ages)
	}
	return never
}

// counts returns a taint as it counts for a pod. With fromSight, each of its values counts from when the process saw
// that the pod had to leave because of it; with frozen, earlier values do not count.
func (m *model) counts(known *knownPod, taint oracle.Taint) oracle.Taint {
	if m.has.has(frozen) {
		taint.Values = nil
	}
	if !m.has.has(fromSight) {
		return taint
	}
	values := append([]oracle.Taint{taint}, taint.Values...)
	for i := range values {
		begun, ok := known.begun[m.nameOf(values[i])]
		if !ok && i > 0 {
			values = values[:i]
			break
		}
		if !ok {
			begun = m.now()
		}
		values[i].Since = begun
	}
	taint, taint.Values = values[0], values[1:]
	return taint
}

// bound is when a pod was bound.
func bound(known *knownPod) oracle.Span {
	recorded := known.object.CreationTimestamp.Time
	for _, condition := range known.object.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			recorded = condition.LastTransitionTime.Time
		}
	}
	return oracle.Dated(recorded, known.seen)
}

// comparisonOperators reports whether the operators Gt and Lt are on.
func comparisonOperators() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
}

// look is what a controller that acts on changes does: it looks at a pod when the taints of its node, its tolerations
// or its node have changed.
func (m *model) look(known *knownPod) {
	known.done = false
	node := m.nodes[known.object.Spec.NodeName]
	if node == nil || len(node.taints) == 0 || m.excluded(known.object) {
		return
	}
	if m.byTimers {
		m.lookByTimers(known, node)
		return
	}
	due := m.due(known)
	if due.at == never {
		known.carried = never
	}
	if due.at == never || due.untolerated || known.work == never {
		known.work = due.at
	}
}

// remember notes for which taints a pod must leave, and since when. The countdown of a controller that knows nothing
// else begins at that time.
func (m *model) remember() {
	if !m.running || !m.has.has(fromSight) || m.has.has(frozen) {
		return
	}
	for _, known := range m.pods {
		begun := map[string]oracle.Span{}
		if node := m.nodes[known.object.Spec.NodeName]; node != nil {
			for _, taint := range node.taints {
				m.begin(begun, known, m.counts(known, taint))
			}
		}
		known.begun = begun
	}
}

// begin notes the countdowns of a taint that run for a pod.
func (m *model) begin(begun map[string]oracle.Span, known *knownPod, taint oracle.Taint) {
	for i, value := range append([]oracle.Taint{taint}, taint.Values...) {
		first := rule().First(known.object.Spec.Tolerations, value.Taint)
		if first == nil && i > 0 || first != nil && first.TolerationSeconds == nil {
			return
		}
		begun[m.nameOf(value)] = value.Since
		if first == nil {
			return
		}
	}
}

// nameOf names the countdown of a value of a taint. Not-ready and unreachable have one name, unless they count apart.
func (m *model) nameOf(value oracle.Taint) string {
	if value.Key == corev1.TaintNodeUnreachable && !m.has.has(apart) {
		value.Key = corev1.TaintNodeNotReady
	}
	return value.Key + "=" + value.Value
}
