// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/taints"
)

// SplitTaints parts the arguments as kubectl taint does: nodes first, then taints, which have a "=", a ":" or a "-" at
// their end.
func SplitTaints(args []string) (nodes, specs []string, err error) {
	for _, arg := range args {
		switch {
		case LooksLikeTaint(arg):
			specs = append(specs, arg)
		case len(specs) > 0:
			return nil, nil, command.Usagef("%q comes after a taint: name all nodes first; a taint is written key=value:Effect, or key:Effect- to take it off", arg)
		default:
			nodes = append(nodes, arg)
		}
	}
	return nodes, specs, nil
}

// EditOf reads the taints behind the nodes. Without any, the last name may be meant as one.
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

// TaintSyntax is how taints are given to commands that add and remove them.
const TaintSyntax = "Taints are written as for kubectl taint, additions and removals mixed: key=value:Effect, key:Effect, key:Effect-, key-."

// Effects are those that a taint can have.
var Effects = []string{
	string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule),
	string(corev1.TaintEffectNoExecute),
}
