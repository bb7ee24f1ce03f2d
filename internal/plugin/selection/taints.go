// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/taints"
)

// SplitTaints splits the arguments like kubectl taint: nodes first, then taints, which contain "=" or ":" or end with
// "-".
func SplitTaints(args []string) (nodes, specs []string, err error) {
	for _, arg := range args {
		switch {
		case LooksLikeTaint(arg):
			specs = append(specs, arg)
		case len(specs) > 0:
			return nil, nil, command.Usagef("%q comes after a taint: name all nodes first; a taint is written key=value:Effect, or key:Effect- to remove it", arg)
		default:
			nodes = append(nodes, arg)
		}
	}
	return nodes, specs, nil
}

// EditOf parses the taints after the nodes. If there are none, the last name may have been meant as a taint.
func (s *Nodes) EditOf(specs []string) (taints.Edit, error) {
	if names := len(s.Names); len(specs) == 0 && names > 0 && (names > 1 || s.All || s.Selector != "") {
		return taints.Edit{}, command.Usagef(
			"no taint is given: %q counts as a node; a taint is written key=value:Effect or key:Effect, or key:Effect- to remove it",
			s.Names[names-1])
	}
	edit, err := taints.ParseEdit(specs...)
	if err != nil {
		return edit, command.Usagef("%w", err)
	}
	return edit, nil
}

// LooksLikeTaint reports whether an argument cannot be a node.
func LooksLikeTaint(arg string) bool {
	return strings.ContainsAny(arg, "=:") || strings.HasSuffix(arg, "-")
}

// TaintSyntax explains how to write taints for commands that add and remove them.
const TaintSyntax = "Write taints as for kubectl taint. You can mix additions and removals: key=value:Effect, key:Effect, key:Effect-, key-."

// Effects are the possible effects of a taint.
var Effects = []string{
	string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule),
	string(corev1.TaintEffectNoExecute),
}
