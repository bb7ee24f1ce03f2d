// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// common is what many pods have in common. Records share it and never modify it. nil has neither.
type common struct {
	tolerations []corev1.Toleration
	labels      labels.Set // those with the keys that are kept
}

// commonOf returns what a pod has in common with others. Of its labels those with some keys are kept.
func commonOf(pod *corev1.Pod, keys []string) *common {
	c := &common{tolerations: slices.Clip(pod.Spec.Tolerations)}
	for _, key := range keys {
		if value, ok := pod.Labels[key]; ok {
			if c.labels == nil {
				c.labels = labels.Set{}
			}
			c.labels[key] = value
		}
	}
	if len(c.tolerations) == 0 && c.labels == nil {
		return nil
	}
	return c
}

// Tolerations returns the pod's toleration list, which is shared by all pods with an equal one.
func (p *Pod) Tolerations() []corev1.Toleration {
	if p.common == nil {
		return nil
	}
	return p.common.tolerations
}

// Labels returns the labels of the pod that are kept; see [Cache.KeepLabels].
func (p *Pod) Labels() labels.Set {
	if p.common == nil {
		return nil
	}
	return p.common.labels
}

// SameTolerations reports whether two records have equal toleration lists.
func SameTolerations(a, b *Pod) bool {
	return a.common == b.common || equalTolerations(a.Tolerations(), b.Tolerations())
}

// SameLabels reports whether those labels of two records are equal that are kept.
func SameLabels(a, b *Pod) bool {
	return a.common == b.common || maps.Equal(a.Labels(), b.Labels())
}

func sameCommon(a, b *Pod) bool { return SameTolerations(a, b) && SameLabels(a, b) }

func equalTolerations(a, b []corev1.Toleration) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Toleration) bool {
		return x.MatchToleration(&y) && ptr.Equal(x.TolerationSeconds, y.TolerationSeconds)
	})
}

// identity writes it down so that what is equal, and only that, is written alike: no field of a valid toleration or
// label holds a NUL.
func (c *common) identity() string {
	key := make([]byte, 0, 256)
	for i := range c.tolerations {
		t := &c.tolerations[i]
		for _, field := range [...]string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
			key = append(append(key, field...), 0)
		}
		if t.TolerationSeconds != nil {
			key = strconv.AppendInt(key, *t.TolerationSeconds, 10)
		}
		key = append(key, 0)
	}
	if len(c.labels) == 0 {
		return string(key)
	}
	key = append(key, 0, 0) // no toleration begins like this: one without a key has an operator
	for _, name := range slices.Sorted(maps.Keys(c.labels)) {
		key = append(append(append(append(key, name...), 0), c.labels[name]...), 0)
	}
	return string(key)
}

func (k *pods) share(c *common) *common {
	if c == nil {
		return nil
	}
	return k.commons.Share(c.identity(), c)
}

func (k *pods) release(c *common) {
	if c != nil {
		k.commons.Release(c.identity())
	}
}
