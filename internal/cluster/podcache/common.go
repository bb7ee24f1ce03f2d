// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// common is what many pods have in common. Records share it and never modify it. nil has no tolerations and no labels.
type common struct {
	tolerations *[]corev1.Toleration // nil if there are none; many commons share one
	labels      keptLabels
}

// commonOf returns what a pod has in common with others. Only its labels with some keys are kept.
func commonOf(pod *corev1.Pod, keys *[]string) *common {
	c := common{labels: labelsOf(pod, keys)}
	if len(pod.Spec.Tolerations) > 0 {
		c.tolerations = new(slices.Clip(pod.Spec.Tolerations))
	}
	if c == (common{}) {
		return nil
	}
	return &c
}

// Tolerations returns the pod's toleration list, which is shared by all pods with an equal one.
func (p *Pod) Tolerations() []corev1.Toleration {
	if p.common == nil || p.common.tolerations == nil {
		return nil
	}
	return *p.common.tolerations
}

// Labels returns the labels of the pod that are kept; see [Cache.KeepLabels].
func (p *Pod) Labels() labels.Labels {
	if p.common == nil {
		return labels.Set(nil)
	}
	return &p.common.labels
}

// SameTolerations reports whether two records have equal toleration lists.
func SameTolerations(a, b *Pod) bool {
	return a.common == b.common || equalTolerations(a.Tolerations(), b.Tolerations())
}

// SameLabels reports whether the kept labels of two records are equal.
func SameLabels(a, b *Pod) bool {
	return a.common == b.common || a.kept().equal(b.kept())
}

func (p *Pod) kept() keptLabels {
	if p.common == nil {
		return keptLabels{}
	}
	return p.common.labels
}

func sameCommon(a, b *Pod) bool { return SameTolerations(a, b) && SameLabels(a, b) }

func equalTolerations(a, b []corev1.Toleration) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Toleration) bool {
		return x.MatchToleration(&y) && ptr.Equal(x.TolerationSeconds, y.TolerationSeconds)
	})
}

// identity encodes a toleration list so that only equal lists have the same identity: no field of a valid toleration
// holds a NUL.
func identity(tolerations []corev1.Toleration) string {
	key := make([]byte, 0, 256)
	for i := range tolerations {
		t := &tolerations[i]
		for _, field := range [...]string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
			key = append(append(key, field...), 0)
		}
		if t.TolerationSeconds != nil {
			key = strconv.AppendInt(key, *t.TolerationSeconds, 10)
		}
		key = append(key, 0)
	}
	return string(key)
}

func (k *pods) share(c *common) *common {
	if c == nil {
		return nil
	}
	if c.tolerations != nil {
		c.tolerations = k.tolerations.Share(identity(*c.tolerations), c.tolerations)
	}
	return k.commons.Share(*c, c)
}

func (k *pods) release(c *common) {
	if c == nil {
		return
	}
	k.commons.Release(*c)
	if c.tolerations != nil {
		k.tolerations.Release(identity(*c.tolerations))
	}
}
