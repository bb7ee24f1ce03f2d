// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/observer"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// evictionReason is the reason of the condition DisruptionTarget that a taint eviction sets, upstream's and
// Taintkeeper's.
const evictionReason = "DeletionByTaintManager"

// sighting is what was seen of one pod, identified by its UID, and when. It is a value.
type sighting struct {
	pod    *corev1.Pod
	bound  time.Time // when it was first seen on a node
	left   time.Time // when it was first seen terminating, or gone
	marked bool      // as evicted by a taint, before it left
}

// see returns the sighting after the pod was seen in a new state.
func (s sighting) see(pod *corev1.Pod, at time.Time) sighting {
	s.pod = pod
	if s.bound.IsZero() && pod.Spec.NodeName != "" {
		s.bound = at
	}
	if s.left.IsZero() && pod.DeletionTimestamp != nil {
		s.left = at
	}
	s.marked = s.marked || isMarked(pod)
	return s
}

// gone returns the sighting after the pod was deleted.
func (s sighting) gone(pod *corev1.Pod, at time.Time) sighting {
	s = s.see(pod, at)
	if s.left.IsZero() {
		s.left = at
	}
	return s
}

// corrected returns the sighting with better instants of what was seen, where there are any.
func (s sighting) corrected(bound, left time.Time) sighting {
	if !s.bound.IsZero() && !bound.IsZero() {
		s.bound = bound
	}
	if !s.left.IsZero() && !left.IsZero() {
		s.left = left
	}
	return s
}

func isMarked(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == evictionReason
	})
}

func (s sighting) leftBefore(at time.Time) bool { return !s.left.IsZero() && s.left.Before(at) }

func (s sighting) running() bool {
	return s.left.IsZero() && !s.bound.IsZero() && s.pod.Status.Phase == corev1.PodRunning
}

// rule is what the rule needs to know of the pod.
func (s sighting) rule() verdict.Pod {
	return verdict.Pod{Tolerations: s.pod.Spec.Tolerations, Bound: verdict.SeenAt(s.bound).Start(verdict.Bound(s.pod))}
}

// sightings returns what was seen of all pods until now, in no order.
func sightings(seen *observer.Pods) []sighting {
	var all []sighting
	for _, h := range seen.All() {
		all = append(all, sightingIn(h))
	}
	return all
}

// sightingIn returns what the demo wants to know of a pod's history.
func sightingIn(h observer.History) sighting {
	var s sighting
	for _, version := range h.Sightings {
		s = s.see(version.Pod, version.At)
	}
	if h.Gone.IsZero() {
		return s
	}
	return s.gone(s.pod, h.Gone)
}
