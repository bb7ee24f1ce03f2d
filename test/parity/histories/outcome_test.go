// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// look is how a node looks from an instant on: its readiness, and those of its taints that a contestant owns. Of a pod
// it says only that a delete was accepted.
type look struct {
	at         time.Duration
	deleted    bool                   // a pod
	ready      corev1.ConditionStatus // empty: no condition Ready
	noSchedule string
	noExecute  string
	since      time.Duration // of noExecute: the earliest timeAdded, in whole seconds
	gone       bool          // a node
}

func (l look) String() string {
	at := l.at.Round(ms).String()
	switch {
	case l.deleted:
		return at
	case l.gone:
		return at + " gone"
	}
	words := []string{at, string(l.ready)}
	if l.noSchedule != "" {
		words = append(words, "NoSchedule:"+l.noSchedule)
	}
	if l.noExecute != "" {
		words = append(words, fmt.Sprintf("NoExecute:%s since %s", l.noExecute, l.since))
	}
	return strings.Join(words, " ")
}

// undated is the since of what has no timeAdded.
const undated = -time.Hour

// at returns deletes of a pod.
func at(instants ...time.Duration) (deletes []look) {
	for _, instant := range instants {
		deletes = append(deletes, look{at: instant, deleted: true})
	}
	return deletes
}

// same reports whether two looks are the same, no matter when, and with timeAdded at most the given time apart.
func (l look) same(other look, apart time.Duration) bool {
	if (l.since - other.since).Abs() <= apart {
		l.since = other.since
	}
	l.at = other.at
	return l == other
}

// outcome says about every node, by name, how it looked over time, or about every pod, by UID, when it was deleted.
type outcome map[string][]look

func (o outcome) deleted(uid string, instant time.Duration) { o[uid] = append(o[uid], at(instant)...) }

// blink is how long a look must last to be remembered. Contestants need some calls to change what belongs together, and
// each takes a few microseconds.
const blink = ms

// note notes how a node looks after a change; after is nil when it is gone.
func (o outcome) note(name string, after *corev1.Node, at time.Duration) {
	next := look{at: at, since: undated, gone: after == nil}
	if after != nil {
		next.ready = readyStatus(after)
		next.noSchedule = owned(after, corev1.TaintEffectNoSchedule, noScheduleKeys)
		next.noExecute = owned(after, corev1.TaintEffectNoExecute, noExecuteKeys)
		next.since = executedSince(after)
	}
	looks := o[name]
	if n := len(looks); n > 0 && at-looks[n-1].at < blink {
		next.at = looks[n-1].at
		looks = looks[:n-1]
	}
	if n := len(looks); n == 0 || !looks[n-1].same(next, 0) {
		looks = append(looks, next)
	}
	o[name] = looks
}

var (
	noScheduleKeys = []string{
		corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure,
		corev1.TaintNodePIDPressure, corev1.TaintNodeNetworkUnavailable, corev1.TaintNodeUnschedulable,
	}
	noExecuteKeys = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}
)

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	if c := condition(node, corev1.NodeReady); c != nil {
		return c.Status
	}
	return ""
}

func owned(node *corev1.Node, effect corev1.TaintEffect, keys []string) string {
	var found []string
	for _, t := range node.Spec.Taints {
		if t.Effect == effect && slices.Contains(keys, t.Key) {
			found = append(found, strings.TrimPrefix(t.Key, "node.kubernetes.io/"))
		}
	}
	slices.Sort(found)
	return strings.Join(found, ",")
}

// executedSince is the earliest timeAdded of a node's NoExecute taints for readiness.
func executedSince(node *corev1.Node) time.Duration {
	since := undated
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectNoExecute || !slices.Contains(noExecuteKeys, t.Key) || t.TimeAdded == nil {
			continue
		}
		if at := t.TimeAdded.Sub(epoch).Truncate(resolution); since == undated || at < since {
			since = at
		}
	}
	return since
}

const (
	// resolution of timeAdded.
	resolution = sec
	// exactly is how far two equal instants may be apart: calls take microseconds, and ours comes back a millisecond
	// after its token.
	exactly = 5 * ms
	// roughly is how far apart two instants that agree to the second may be.
	roughly = sec
)

// equal reports whether two outcomes are the same, except that two instants may be the given time apart.
func equal(a, b []look, apart time.Duration) bool {
	return slices.EqualFunc(a, b, func(a, b look) bool { return a.same(b, resolution) && (a.at-b.at).Abs() <= apart })
}

// taintedAt reports whether a node got a NoExecute taint at an instant.
func (o outcome) taintedAt(name string, at time.Duration) bool {
	return slices.ContainsFunc(o[name], func(l look) bool { return l.noExecute != "" && (l.at-at).Abs() <= exactly })
}
