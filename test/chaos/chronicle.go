// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// podFacts are what the rule needs to know about a pod.
type podFacts struct {
	node        string
	tolerations []corev1.Toleration
	recorded    time.Time // its binding, to the second
	mirror      bool
	terminating bool // or gone
	guarded     bool // the webhook reviews it
}

func factsOfPod(pod *corev1.Pod) podFacts {
	facts := podFacts{
		node:        pod.Spec.NodeName,
		tolerations: pod.Spec.Tolerations,
		recorded:    pod.CreationTimestamp.Time,
		terminating: pod.DeletionTimestamp != nil,
	}
	_, facts.mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]
	_, facts.guarded = pod.Labels[guarded]
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue {
			facts.recorded = condition.LastTransitionTime.Time
		}
	}
	return facts
}

func (f podFacts) same(other podFacts) bool {
	return f.node == other.node && f.recorded.Equal(other.recorded) &&
		f.mirror == other.mirror && f.terminating == other.terminating &&
		slices.EqualFunc(f.tolerations, other.tolerations, func(a, b corev1.Toleration) bool {
			return a.MatchToleration(&b) && ptr.Equal(a.TolerationSeconds, b.TolerationSeconds)
		})
}

// version is one version of an object: its content, and when it was written and seen.
type version[F any] struct {
	number  uint64
	facts   F
	seen    time.Time // by the observer's watch; zero if only the audit log has it
	written span      // by the audit log; zero if only the watch has it
	writer  string    // who wrote it, by the audit log
}

// chronicle is everything that is known about one object, by the number of its version.
type chronicle[F any] struct {
	name     string // with its namespace
	versions map[uint64]*version[F]
	gone     time.Time // when it was seen as gone
}

func (c *chronicle[F]) at(number uint64) *version[F] {
	if c.versions[number] == nil {
		c.versions[number] = &version[F]{number: number}
	}
	return c.versions[number]
}

// anyVersion reports whether something is true of any version of an object.
func anyVersion[F any](c *chronicle[F], holds func(F) bool) bool {
	for _, v := range c.versions {
		if holds(v.facts) {
			return true
		}
	}
	return false
}

// number returns a resource version as a number: etcd counts its revisions.
func number(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// inOrder returns the versions of an object from the first to the last.
func (c *chronicle[F]) inOrder() []*version[F] {
	all := make([]*version[F], 0, len(c.versions))
	for _, v := range c.versions {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *version[F]) int { return cmp.Compare(a.number, b.number) })
	return all
}
