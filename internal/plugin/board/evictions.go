// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// mostEvictions is how many evictions are listed, newest first. All evictions that the board saw are counted.
const mostEvictions = 200

// Who evicts.
const (
	byTaintkeeper = "Taintkeeper"
	byBuiltIn     = "built-in"
)

// evictedBy returns who marked a pod with the condition that a taint-based eviction sets before it deletes the pod. It
// is empty if nobody did.
func evictedBy(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		switch v1alpha1.MarkerOf(&pod.Status.Conditions[i]) {
		case v1alpha1.NotMarked:
		case v1alpha1.MarkedByTaintkeeper:
			return byTaintkeeper
		case v1alpha1.MarkedByBuiltIn:
			return byBuiltIn
		}
	}
	return ""
}

// evict records an eviction once.
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
	before, leaves := c.live.Leaving(pod.UID)
	switch decided := before.Verdict; {
	case before.LivePod == nil || before.DeletionTimestamp != nil:
		row.Unknown = "it was already leaving when the board first saw it"
	case leaves:
		row.Taint, row.Due = sentence.Printable(taints.Format(decided.Taint.Taint)), decided.Due.UnixMilli()
		row.Late = lateness(row.At, decided.Due)
	default:
		row.Unknown = "its node no longer had the taint when the board saw the deletion"
	}
	c.evictions = append(c.evictions, row)
	if surplus := len(c.evictions) - mostEvictions; surplus > 0 {
		c.evictions = append([]evictionRow(nil), c.evictions[surplus:]...)
	}
}

// deletedAt returns when the API server accepted the delete of a pod, which it records to the second. For a pod without
// a grace period, it is when the pod disappeared.
func deletedAt(pod *corev1.Pod, seen time.Time) time.Time {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return seen
	}
	return pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
}

// lateness returns how late a pod was deleted, in whole seconds.
func lateness(at int64, due time.Time) *int64 {
	return new(time.UnixMilli(at).Unix() - due.Unix())
}
