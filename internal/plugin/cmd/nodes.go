// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// nodeSelection selects the nodes of a command: by name, by label, or all.
type nodeSelection struct {
	Names    []string
	Selector string
	All      bool

	labels labels.Selector
}

// AddFlags adds --selector and --all.
func (s *nodeSelection) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.Selector, "selector", "l", "", "Nodes by label: key=value, key!=value, key in (a,b), key.")
	cmd.Flags().BoolVar(&s.All, "all", false, "All nodes.")
}

// nodeWords are kubectl's names for the kind, before the names of nodes, or alone with --selector or --all.
var nodeWords = []string{"node", "nodes", "no"}

// Complete accepts names of nodes like kubectl: NAME, node/NAME, and names after the word node or nodes.
func (s *nodeSelection) Complete(args []string) {
	for _, arg := range s.WithoutWord(args) {
		if kind, name, ok := strings.Cut(arg, "/"); ok && slices.Contains(nodeWords, strings.ToLower(kind)) {
			arg = name
		}
		if !slices.Contains(s.Names, arg) {
			s.Names = append(s.Names, arg)
		}
	}
}

// WithoutWord removes the word node or nodes before names.
func (s *nodeSelection) WithoutWord(args []string) []string {
	if len(args) == 0 || !slices.Contains(nodeWords, strings.ToLower(args[0])) {
		return args
	}
	if len(args) > 1 || s.All || s.Selector != "" {
		return args[1:]
	}
	return args
}

// Validate requires exactly one way to select nodes.
func (s *nodeSelection) Validate() error {
	var err error
	if s.labels, err = labels.Parse(s.Selector); err != nil {
		return command.Usagef("--selector=%q: %w", s.Selector, err)
	}
	given := 0
	for _, is := range []bool{len(s.Names) > 0, s.Selector != "", s.All} {
		if is {
			given++
		}
	}
	switch given {
	case 0:
		return command.Usagef("no node is given: name some, or use --selector or --all")
	case 1:
		return nil
	}
	return command.Usagef("nodes are selected in several ways: use only one of node names, --selector and --all")
}

// Of returns the selected nodes of a cluster, by name.
func (s *nodeSelection) Of(cluster *state.Cluster) ([]*corev1.Node, error) {
	var nodes []*corev1.Node
	var errs []error
	for _, name := range s.Names {
		node := cluster.Node(name)
		if node == nil {
			errs = append(errs, fmt.Errorf("there is no node %q", name))
			continue
		}
		nodes = append(nodes, node)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(s.Names) == 0 {
		for _, node := range cluster.Nodes {
			if s.labels.Matches(labels.Set(node.Labels)) {
				nodes = append(nodes, node)
			}
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("no node matches the selector %q: 'kubectl get nodes --show-labels' shows all labels", s.Selector)
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
}

// OfAny returns the selected nodes. If all nodes are selected, an empty result is not an error.
func (s *nodeSelection) OfAny(cluster *state.Cluster) ([]*corev1.Node, error) {
	if s.All {
		return cluster.Nodes, nil
	}
	return s.Of(cluster)
}

// Selects reports whether a node is selected.
func (s *nodeSelection) Selects(node *corev1.Node) bool {
	if len(s.Names) > 0 {
		return slices.Contains(s.Names, node.Name)
	}
	return s.labels.Matches(labels.Set(node.Labels))
}

// splitTaints splits the arguments like kubectl taint: nodes first, then taints, which contain "=" or ":" or end with
// "-".
func splitTaints(args []string) (nodes, specs []string, err error) {
	for _, arg := range args {
		switch {
		case looksLikeTaint(arg):
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
func (s *nodeSelection) EditOf(specs []string) (taints.Edit, error) {
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

// looksLikeTaint reports whether an argument cannot be a node.
func looksLikeTaint(arg string) bool {
	return strings.ContainsAny(arg, "=:") || strings.HasSuffix(arg, "-")
}

// taintSyntax explains how to write taints for commands that add and remove them.
const taintSyntax = "Write taints as for kubectl taint. You can mix additions and removals: key=value:Effect, key:Effect, key:Effect-, key-."

// taintEffects are the possible effects of a taint.
var taintEffects = []string{
	string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule),
	string(corev1.TaintEffectNoExecute),
}
