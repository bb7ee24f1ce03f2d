// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// CommandLine returns all arguments of a pod's command lines, as the API server stores them.
func CommandLine(pod *corev1.Pod) (words []string) {
	for i := range pod.Spec.Containers {
		words = slices.Concat(words, pod.Spec.Containers[i].Command, pod.Spec.Containers[i].Args)
	}
	return words
}

// ValueOf returns the value of a flag, or the given default. If the flag is set several times, the last one counts.
func ValueOf(flag string, words []string, other string) string {
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, flag+"="); ok && value != "" {
			other = value
		}
	}
	return other
}

// IsOn reports whether a boolean flag is on. If it is set several times, the last one counts.
func IsOn(flag string, words []string) (on bool) {
	for _, word := range words {
		if name, value, _ := strings.Cut(word, "="); name == flag {
			on = value != "false"
		}
	}
	return on
}
