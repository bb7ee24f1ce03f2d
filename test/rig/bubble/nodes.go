// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// TaintsOf returns the taints of a node as key:Effect, in alphabetical order, without the prefix of Kubernetes' own.
func TaintsOf(node *corev1.Node) []string {
	var all []string
	for _, taint := range node.Spec.Taints {
		all = append(all, strings.TrimPrefix(taint.ToString(), "node.kubernetes.io/"))
	}
	slices.Sort(all)
	return all
}
