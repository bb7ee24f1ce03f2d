// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"fmt"
	"strings"

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
	var key strings.Builder
	for i := range list {
		t := &list[i]
		fmt.Fprintf(&key, "%q%q%q%q", t.Key, t.Operator, t.Value, t.Effect)
		if t.TolerationSeconds != nil {
			fmt.Fprintf(&key, "%d", *t.TolerationSeconds)
		}
	}
	if one, ok := l[key.String()]; ok {
		return one
	}
	if len(l) >= mostLists {
		clear(l)
	}
	l[key.String()] = list
	return list
}
