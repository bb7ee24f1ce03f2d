// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// notation is how `kubectl describe` writes tolerations, and how the policies do when they refuse one.
var notation = regexp.MustCompile(`^([^=: ]*)(?:=([^: ]*))?(?::(\w+))?(?: op=(\w+))?(?: for (-?\d+)s)?$`)

// tolerations reads that notation.
func tolerations(texts ...string) []corev1.Toleration {
	var all []corev1.Toleration
	for _, text := range texts {
		if strings.HasPrefix(text, "op=") { // of every taint
			text = " " + text
		}
		parts := notation.FindStringSubmatch(text)
		if parts == nil {
			panic("no toleration: " + text)
		}
		toleration := corev1.Toleration{Key: parts[1], Value: parts[2], Effect: corev1.TaintEffect(parts[3]), Operator: corev1.TolerationOpEqual}
		if parts[4] != "" {
			toleration.Operator = corev1.TolerationOperator(parts[4])
		}
		if seconds, err := strconv.ParseInt(parts[5], 10, 64); err == nil {
			toleration.TolerationSeconds = &seconds
		}
		all = append(all, toleration)
	}
	return all
}

// words writes that notation.
func words(t corev1.Toleration) string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	if t.Effect != "" {
		text += ":" + string(t.Effect)
	}
	if t.Operator != "" && t.Operator != corev1.TolerationOpEqual {
		text += " op=" + string(t.Operator)
	}
	if t.TolerationSeconds != nil {
		text += fmt.Sprintf(" for %ds", *t.TolerationSeconds)
	}
	return strings.TrimSpace(text)
}

// sorted writes tolerations in alphabetical order: their own order is not up to the policies, which the API server
// evaluates in any order.
func sorted(all []corev1.Toleration) []string {
	var texts []string
	for _, toleration := range all {
		texts = append(texts, words(toleration))
	}
	slices.Sort(texts)
	return texts
}

// covers says whether one toleration covers another, as pkg/util/tolerations in Kubernetes has it.
func covers(one, another corev1.Toleration) bool {
	if words(one) == words(another) {
		return true
	}
	all := one.Key == "" && one.Operator == corev1.TolerationOpExists
	switch {
	case one.Key != another.Key && !all, one.Effect != another.Effect && one.Effect != "":
		return false
	case one.TolerationSeconds != nil && (another.TolerationSeconds == nil || *another.TolerationSeconds > *one.TolerationSeconds):
		return false
	}
	return one.Operator == corev1.TolerationOpExists || one.Operator == another.Operator && one.Value == another.Value
}

// merged leaves out every toleration that another covers, as PodTolerationRestriction does.
func merged(all []corev1.Toleration) []corev1.Toleration {
	var kept []corev1.Toleration
	for i, toleration := range all {
		needless := slices.ContainsFunc(kept, func(other corev1.Toleration) bool { return covers(other, toleration) }) ||
			slices.ContainsFunc(all[i+1:], func(other corev1.Toleration) bool {
				return words(other) != words(toleration) && covers(other, toleration)
			})
		if !needless {
			kept = append(kept, toleration)
		}
	}
	return kept
}
