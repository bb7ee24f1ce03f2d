// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
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

// due is the rule: when a pod has to leave because of the taints of its node.
type due struct {
	at          time.Duration // never: it stays
	untolerated bool          // because of a taint that no toleration matches
}

func (m *model) due(known *knownPod) due {
	node := m.nodes[known.object.Spec.NodeName]
	if node == nil {
		return due{at: never}
	}
	earliest := due{at: never}
	shortest := int64(math.MaxInt64)
	for i := range node.taints {
		seconds, tolerated := tolerationSeconds(known.object.Spec.Tolerations, &node.taints[i].Taint)
		if !tolerated {
			earliest.untolerated = true
		}
		shortest = min(shortest, seconds)
		for _, countdown := range m.countdowns(known, &node.taints[i]) {
			earliest.at = min(earliest.at, after(countdown.start, countdown.seconds))
		}
	}
	if m.has.has(overflow) && earliest.at == ages {
		earliest.at = never // a product that is negative counts as for ever
		if countdown := time.Duration(shortest) * time.Second; countdown >= 0 {
			earliest.at = min(m.earliestStart(known, node)+min(countdown, ages), ages)
		}
	}
	return earliest
}

func (m *model) earliestStart(known *knownPod, node *knownNode) time.Duration {
	start := never
	for i := range node.taints {
		start = min(start, m.startOf(known, node.taints[i].spells()[0]))
	}
	return start
}

// countdown is what one value of a taint sets in motion for a pod.
type countdown struct {
	of      spell
	start   time.Duration
	seconds int64
}

// countdowns returns which countdowns of a taint run for a pod. That of a value goes on when another follows that the
// pod tolerates for a while only, and ends with one that it tolerates for ever, or not at all. It does not begin for a
// pod that comes to the node when the value is another.
func (m *model) countdowns(known *knownPod, taint *knownTaint) []countdown {
	var all []countdown
	for i, value := range taint.spells() {
		seconds, tolerated := tolerationSeconds(known.object.Spec.Tolerations, &value.Taint)
		present := countdown{value, m.startOf(known, value), seconds}
		switch {
		case i == 0 && !tolerated:
			return []countdown{present}
		case seconds == forEver || !tolerated || i > 0 && (m.has.has(frozen) || !m.begun(known, value, taint.spells()[i-1])):
			return all
		}
		all = append(all, present)
	}
	return all
}

// begun reports whether a pod was there before a value of a taint was followed by the next.
func (m *model) begun(known *knownPod, value, next spell) bool {
	if m.has.has(fromSight) {
		_, ok := known.begun[m.nameOf(value)]
		return ok
	}
	return boundAt(known) < next.since
}

// startOf is the instant from which the seconds of a toleration count.
func (m *model) startOf(known *knownPod, value spell) time.Duration {
	switch {
	case m.has.has(fromSight) && m.has.has(frozen):
		return m.at
	case m.has.has(fromSight):
		if begun, ok := known.begun[m.nameOf(value)]; ok {
			return begun
		}
		return m.at
	}
	return max(value.since, boundAt(known))
}

// boundAt is when a pod was bound.
func boundAt(known *knownPod) time.Duration {
	recorded := known.object.CreationTimestamp.Time
	for _, condition := range known.object.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			recorded = condition.LastTransitionTime.Time
		}
	}
	return toTheSecond(recorded.Sub(arena.Epoch), known.seen)
}

// forEver are the tolerationSeconds of a toleration that sets none. As many seconds as that, if they are set, are not
// for ever.
const forEver = math.MaxInt64

// ages is an instant that no history reaches, and that yet is not never: a countdown runs.
const ages = never / 2

func after(start time.Duration, seconds int64) time.Duration {
	if seconds > int64(ages/time.Second)-int64(start/time.Second) {
		return ages
	}
	return start + time.Duration(max(seconds, 0))*time.Second
}

// tolerationSeconds returns the seconds of the first toleration that matches a taint, and zero
// and false when none does.
func tolerationSeconds(tolerations []corev1.Toleration, taint *corev1.Taint) (seconds int64, tolerated bool) {
	for i := range tolerations {
		if !matches(&tolerations[i], taint) {
			continue
		}
		if tolerations[i].TolerationSeconds == nil {
			return forEver, true
		}
		return min(max(*tolerations[i].TolerationSeconds, 0), forEver-1), true
	}
	return 0, false
}

func matches(toleration *corev1.Toleration, taint *corev1.Taint) bool {
	if toleration.Effect != "" && toleration.Effect != taint.Effect || toleration.Key != "" && toleration.Key != taint.Key {
		return false
	}
	switch toleration.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return toleration.Value == taint.Value
	}
	if !comparisonOperators() {
		return false
	}
	limit, limited := integer(toleration.Value)
	value, valued := integer(taint.Value)
	if !limited || !valued {
		return false
	}
	if toleration.Operator == corev1.TolerationOpGt {
		return value > limit
	}
	return value < limit
}

// integer reads a decimal integer of 64 bits in canonical form: without zeros in front.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

// comparisonOperators reports whether the operators Gt and Lt are on.
func comparisonOperators() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
}

// look is what a controller does that acts on changes: it looks at a pod when the taints of its
// node, its tolerations or its node have changed.
func (m *model) look(known *knownPod) {
	known.done = false
	node := m.nodes[known.object.Spec.NodeName]
	if node == nil || len(node.taints) == 0 || m.excluded(known.object) {
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

// remember notes for which taints a pod has to leave, and since when: that is when the countdown
// begins for a controller that knows nothing else.
func (m *model) remember() {
	if !m.running || !m.has.has(fromSight) || m.has.has(frozen) {
		return
	}
	for _, known := range m.pods {
		begun := map[string]time.Duration{}
		if node := m.nodes[known.object.Spec.NodeName]; node != nil {
			for i := range node.taints {
				for _, countdown := range m.countdowns(known, &node.taints[i]) {
					begun[m.nameOf(countdown.of)] = countdown.start
				}
			}
		}
		known.begun = begun
	}
}

// nameOf names the countdown of a value of a taint.
func (m *model) nameOf(value spell) string {
	if m.oneCause(value.Key, corev1.TaintNodeNotReady) {
		return "not ready=" + value.Value
	}
	return value.Key + "=" + value.Value
}
