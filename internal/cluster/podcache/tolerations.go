// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/taintkeeper/taintkeeper/internal/cluster/intern"
)

func shareTolerations(in intern.Pool[[]corev1.Toleration], list []corev1.Toleration) []corev1.Toleration {
	if len(list) == 0 {
		return nil
	}
	return in.Share(identity(list), slices.Clip(list))
}

func releaseTolerations(in intern.Pool[[]corev1.Toleration], list []corev1.Toleration) {
	if len(list) > 0 {
		in.Release(identity(list))
	}
}

// identity writes a list down so that equal lists, and only they, are written alike: no field of
// a valid toleration holds a NUL.
func identity(list []corev1.Toleration) string {
	key := make([]byte, 0, 256)
	for i := range list {
		t := &list[i]
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

// SameTolerations reports whether two records have equal toleration lists.
func SameTolerations(a, b *Pod) bool { return equalTolerations(a.Tolerations, b.Tolerations) }

func equalTolerations(a, b []corev1.Toleration) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Toleration) bool {
		return x.MatchToleration(&y) && ptr.Equal(x.TolerationSeconds, y.TolerationSeconds)
	})
}
