// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// mostEvictions is how many evictions are listed, the newest. All that were seen are counted.
const mostEvictions = 200

// Who evicts.
const (
	byTaintkeeper = "Taintkeeper"
	byBuiltIn     = "built-in"
)

// evictedBy returns whose mark a pod has: the condition that a taint eviction sets before it deletes. Empty: nobody's.
func evictedBy(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type != corev1.DisruptionTarget || condition.Status != corev1.ConditionTrue {
			continue
		}
		switch {
		case condition.Reason != podcache.EvictionReason:
		case strings.HasPrefix(condition.Message, podcache.MarkPrefix):
			return byTaintkeeper
		default:
			return byBuiltIn
		}
	}
	return ""
}

// evict notes an eviction, once.
func (c *cluster) evict(pod *corev1.Pod, by string) {
	if c.counted[pod.UID] {
		return
	}
	c.counted[pod.UID] = true
	c.evicted++
	row := evictionRow{
		ID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName,
		By: by, At: deletedAt(pod, c.now()).UnixMilli(),
	}
	switch pending, ok := c.known.Of(pod.UID); {
	case ok:
		row.Taint, row.Due = sentence.Printable(pending.Taint), pending.Due.UnixMilli()
		row.Late = lateness(row.At, pending.Due.Time)
	case c.known.Has(pod.UID):
		row.Unknown = "its node had no such taint any more when this was seen"
	default:
		row.Unknown = "it was leaving when the board first saw it"
	}
	c.evictions = append(c.evictions, row)
	if surplus := len(c.evictions) - mostEvictions; surplus > 0 {
		c.evictions = append([]evictionRow(nil), c.evictions[surplus:]...)
	}
}

// deletedAt returns when the API server accepted the delete of a pod, which it records to the second; when the pod was
// seen to go, if it went without a grace period.
func deletedAt(pod *corev1.Pod, seen time.Time) time.Time {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return seen
	}
	return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
}

// lateness returns how many seconds after it was due a pod was deleted, in whole seconds of the clock.
func lateness(at int64, due time.Time) *int64 {
	return new(time.UnixMilli(at).Unix() - due.Unix())
}
