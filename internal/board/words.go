// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// tolerated says for how long a taint is tolerated.
func tolerated(toleration *corev1.Toleration) string {
	if toleration == nil || toleration.TolerationSeconds == nil {
		return "not tolerated"
	}
	return fmt.Sprintf("tolerated for %d s", *toleration.TolerationSeconds)
}

// tolerationLists keeps one copy of each list of tolerations: the pods of a large cluster have a handful of them.
type tolerationLists map[string][]corev1.Toleration

// mostLists is how many are kept before they are forgotten and shared anew.
const mostLists = 10_000

func (l tolerationLists) share(list []corev1.Toleration) []corev1.Toleration {
	key := make([]byte, 0, 256)
	for i := range list {
		t := &list[i]
		for _, field := range [...]string{t.Key, string(t.Operator), t.Value, string(t.Effect)} {
			key = append(append(key, field...), 0) // no field of a valid toleration holds a NUL
		}
		if t.TolerationSeconds != nil {
			key = strconv.AppendInt(key, *t.TolerationSeconds, 10)
		}
		key = append(key, 0)
	}
	if one, ok := l[string(key)]; ok {
		return one
	}
	if len(l) >= mostLists {
		clear(l)
	}
	l[string(key)] = list
	return list
}
