// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selection parses nodes and taints on the command line, like kubectl taint.
package selection

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
)

// Nodes selects the nodes of a command: by name, by label, or all.
type Nodes struct {
	Names    []string
	Selector string
	All      bool

	labels labels.Selector
}

// AddFlags adds --selector and --all.
func (s *Nodes) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.Selector, "selector", "l", "", "Nodes by label: key=value, key!=value, key in (a,b), key.")
	cmd.Flags().BoolVar(&s.All, "all", false, "All nodes.")
}

// NodeWords are kubectl's names for the kind, before the names of nodes, or alone with --selector or --all.
var NodeWords = []string{"node", "nodes", "no"}

// Complete accepts names of nodes like kubectl: NAME, node/NAME, and names after the word node or nodes.
func (s *Nodes) Complete(args []string) {
	for _, arg := range s.WithoutWord(args) {
		if kind, name, ok := strings.Cut(arg, "/"); ok && slices.Contains(NodeWords, strings.ToLower(kind)) {
			arg = name
		}
		if !slices.Contains(s.Names, arg) {
			s.Names = append(s.Names, arg)
		}
	}
}

// WithoutWord removes the word node or nodes before names.
func (s *Nodes) WithoutWord(args []string) []string {
	if len(args) == 0 || !slices.Contains(NodeWords, strings.ToLower(args[0])) {
		return args
	}
	if len(args) > 1 || s.All || s.Selector != "" {
		return args[1:]
	}
	return args
}

// Validate requires exactly one way to select nodes.
func (s *Nodes) Validate() error {
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
func (s *Nodes) Of(cluster *state.Cluster) ([]*corev1.Node, error) {
	var nodes []*corev1.Node
	var errs []error
	for _, name := range s.Names {
		node := cluster.Node(name)
		if node == nil {
			errs = append(errs, unknownNode(name, cluster.Nodes))
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

func unknownNode(name string, nodes []*corev1.Node) error {
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return fmt.Errorf("there is no node %q%s", name, command.DidYouMean(name, names))
}

// OfAny returns the selected nodes. If all nodes are selected, an empty result is not an error.
func (s *Nodes) OfAny(cluster *state.Cluster) ([]*corev1.Node, error) {
	if s.All {
		return cluster.Nodes, nil
	}
	return s.Of(cluster)
}

// Selects reports whether a node is selected.
func (s *Nodes) Selects(node *corev1.Node) bool {
	if len(s.Names) > 0 {
		return slices.Contains(s.Names, node.Name)
	}
	return s.labels.Matches(labels.Set(node.Labels))
}
