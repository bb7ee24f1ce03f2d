// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// CommandLine returns the words of a pod's command lines, as the API server has them.
func CommandLine(pod *corev1.Pod) (words []string) {
	for i := range pod.Spec.Containers {
		words = slices.Concat(words, pod.Spec.Containers[i].Command, pod.Spec.Containers[i].Args)
	}
	return words
}

// ValueOf returns the value of a flag, the last if it is set several times, or another if it is not among the words.
func ValueOf(flag string, words []string, other string) string {
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, flag+"="); ok && value != "" {
			other = value
		}
	}
	return other
}

// IsOn reports whether a flag that is true or false is on. The last counts if it is set several times.
func IsOn(flag string, words []string) (on bool) {
	for _, word := range words {
		if name, value, _ := strings.Cut(word, "="); name == flag {
			on = value != "false"
		}
	}
	return on
}
