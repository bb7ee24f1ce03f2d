// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

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
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// nodeSelection says which nodes a command is about: by name, by label, or all.
type nodeSelection struct {
	names    []string
	selector string
	all      bool

	labels labels.Selector
}

func (s *nodeSelection) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.selector, "selector", "l", "", "Nodes by label: key=value, key!=value, key in (a,b), key.")
	cmd.Flags().BoolVar(&s.all, "all", false, "All nodes.")
}

// nodeWords are how kubectl names the kind: in front of the names, or of nothing with --selector or --all.
var nodeWords = []string{"node", "nodes", "no"}

// complete takes node names as kubectl does: NAME, node/NAME, and behind the word node or nodes.
func (s *nodeSelection) complete(args []string) {
	for _, arg := range s.withoutWord(args) {
		if kind, name, ok := strings.Cut(arg, "/"); ok && slices.Contains(nodeWords, strings.ToLower(kind)) {
			arg = name
		}
		if !slices.Contains(s.names, arg) {
			s.names = append(s.names, arg)
		}
	}
}

func (s *nodeSelection) withoutWord(args []string) []string {
	if len(args) == 0 || !slices.Contains(nodeWords, strings.ToLower(args[0])) {
		return args
	}
	if len(args) > 1 || s.all || s.selector != "" {
		return args[1:]
	}
	return args
}

func (s *nodeSelection) validate() error {
	var err error
	if s.labels, err = labels.Parse(s.selector); err != nil {
		return command.Usagef("--selector=%q: %w", s.selector, err)
	}
	given := 0
	for _, is := range []bool{len(s.names) > 0, s.selector != "", s.all} {
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
	return command.Usagef("nodes are given twice: name them, or use --selector, or --all")
}

// of returns the selected nodes of a cluster, by name.
func (s *nodeSelection) of(cluster *plan.Cluster) ([]*corev1.Node, error) {
	var nodes []*corev1.Node
	var errs []error
	for _, name := range s.names {
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
	if len(s.names) == 0 {
		for _, node := range cluster.Nodes {
			if s.labels.Matches(labels.Set(node.Labels)) {
				nodes = append(nodes, node)
			}
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("no node matches the selector %q: 'kubectl get nodes --show-labels' shows what there is", s.selector)
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

// splitTaints parts the arguments as kubectl taint does: nodes first, then taints, which have a "=", a ":" or a "-" at
// their end.
func splitTaints(args []string) (nodes, taints []string, err error) {
	for _, arg := range args {
		switch {
		case looksLikeTaint(arg):
			taints = append(taints, arg)
		case len(taints) > 0:
			return nil, nil, command.Usagef("%q comes after a taint: name all nodes first; a taint is written key=value:Effect, or key:Effect- to take it off", arg)
		default:
			nodes = append(nodes, arg)
		}
	}
	return nodes, taints, nil
}

func looksLikeTaint(arg string) bool {
	return strings.ContainsAny(arg, "=:") || strings.HasSuffix(arg, "-")
}
