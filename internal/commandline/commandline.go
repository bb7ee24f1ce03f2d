// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commandline reads flags from the command lines of pods, as the API server stores them. It is pure.
package commandline

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Of returns all arguments of a pod's command lines.
func Of(pod *corev1.Pod) (words []string) {
	for i := range pod.Spec.Containers {
		words = slices.Concat(words, pod.Spec.Containers[i].Command, pod.Spec.Containers[i].Args)
	}
	return words
}

// ValueOf returns the value of a flag, or the given default. If the flag is set several times, the last one counts.
func ValueOf(flag string, words []string, other string) string {
	for i, word := range words {
		name, value, inOne := strings.Cut(word, "=")
		if name == flag && !inOne && i+1 < len(words) {
			value = words[i+1]
		}
		if name == flag && value != "" {
			other = value
		}
	}
	return other
}

// IsOn reports whether a boolean flag is on. If it is set several times, the last one counts. Values are those that
// pflag takes; a program does not start with others.
func IsOn(flag string, words []string) (on bool) {
	for _, word := range words {
		if name, value, inOne := strings.Cut(word, "="); name == flag {
			is, err := strconv.ParseBool(value)
			on = !inOne || err == nil && is
		}
	}
	return on
}
