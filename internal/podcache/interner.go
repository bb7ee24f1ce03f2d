// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// interner keeps one copy of every toleration list in use: a cluster of a hundred thousand pods
// has a handful of different ones. Not safe for concurrent use.
type interner map[string]*sharedList

type sharedList struct {
	list []corev1.Toleration
	uses int
}

// share returns the one copy of a list, and counts one more use of it.
func (in interner) share(list []corev1.Toleration) []corev1.Toleration {
	if len(list) == 0 {
		return nil
	}
	key := identity(list)
	shared, ok := in[string(key)]
	if !ok {
		shared = &sharedList{list: slices.Clip(list)}
		in[string(key)] = shared
	}
	shared.uses++
	return shared.list
}

// release ends one use of a list that share returned.
func (in interner) release(list []corev1.Toleration) {
	if len(list) == 0 {
		return
	}
	key := identity(list)
	shared := in[string(key)]
	shared.uses--
	if shared.uses == 0 {
		delete(in, string(key))
	}
}

// identity writes a list down so that equal lists, and only they, are written alike: no field of
// a valid toleration holds a NUL.
func identity(list []corev1.Toleration) []byte {
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
	return key
}

// SameTolerations reports whether two records have equal toleration lists.
func SameTolerations(a, b *Pod) bool { return equalTolerations(a.Tolerations, b.Tolerations) }

func equalTolerations(a, b []corev1.Toleration) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Toleration) bool {
		return x.MatchToleration(&y) && ptr.Equal(x.TolerationSeconds, y.TolerationSeconds)
	})
}
