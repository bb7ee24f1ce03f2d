// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// completeFunc completes the current word after some arguments.
type completeFunc = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// completing completes a word with those words that begin with it, sorted.
func completing(words func(cmd *cobra.Command, args []string, word string) []string) completeFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		directive, found := cobra.ShellCompDirectiveNoFileComp, []string(nil)
		goesOn := true
		for _, next := range words(cmd, args, word) {
			if strings.HasPrefix(next, word) {
				found, goesOn = append(found, next), goesOn && strings.HasSuffix(next, ":")
			}
		}
		if len(found) > 0 && goesOn {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		slices.Sort(found)
		return slices.Compact(found), directive
	}
}

// completeGlobalFlags completes the flags of every command like kubectl: contexts, clusters, users and namespaces.
func completeGlobalFlags(root *cobra.Command, env Env, config *genericclioptions.ConfigFlags) {
	raw := func() api.Config {
		is, _ := config.ToRawKubeConfigLoader().RawConfig()
		return is
	}
	for flag, words := range map[string]func() []string{
		"context": func() []string { return slices.Collect(maps.Keys(raw().Contexts)) },
		"cluster": func() []string { return slices.Collect(maps.Keys(raw().Clusters)) },
		"user":    func() []string { return slices.Collect(maps.Keys(raw().AuthInfos)) },
		"namespace": func() (names []string) {
			for _, namespace := range readQuietly(&source.Source{Env: env, Config: config}, "", state.Namespaces).Namespaces {
				names = append(names, namespace.Name)
			}
			return names
		},
	} {
		complete := completing(func(*cobra.Command, []string, string) []string { return words() })
		_ = root.RegisterFlagCompletionFunc(flag, complete)
	}
}

// completeNodes completes the names of nodes.
func completeNodes(s *source.Source) completeFunc {
	return completing(func(_ *cobra.Command, args []string, word string) []string {
		return nodeNames(nodesIn(s), args, word)
	})
}

// completePods completes the name of one pod in the namespace of -n or of the context. With -f, it completes any pod
// unless there is a -n.
func completePods(s *source.Source) completeFunc {
	return completing(func(_ *cobra.Command, args []string, _ string) (names []string) {
		if len(args) > 0 {
			return nil
		}
		namespace := *s.Config.Namespace
		if !s.Offline() {
			namespace, _ = s.Namespace()
		}
		for _, pod := range readQuietly(s, namespace, state.Pods).Pods {
			if namespace == "" || namespace == pod.Namespace {
				names = append(names, pod.Name)
			}
		}
		return names
	})
}

// completeKeys completes the keys of existing taints.
func completeKeys(s *source.Source) completeFunc {
	return completing(func(*cobra.Command, []string, string) (keys []string) {
		for _, node := range nodesIn(s) {
			for _, taint := range node.Spec.Taints {
				keys = append(keys, taint.Key)
			}
		}
		return keys
	})
}

// completeTaints completes the arguments of a command with kubectl taint's grammar: nodes first, then taints. It
// suggests removals of taints that the nodes have, and additions of taints that exist in the cluster.
func completeTaints(s *source.Source) completeFunc {
	return completeAfterNodes(s, func(nodes []*corev1.Node, named []string, word string) []string {
		return slices.Concat(additions(nodes, word), removals(nodes, named, "-"))
	})
}

// completeRemovals completes the arguments of untaint: nodes, then the taints that they have.
func completeRemovals(s *source.Source) completeFunc {
	return completeAfterNodes(s, func(nodes []*corev1.Node, named []string, _ string) []string {
		return removals(nodes, named, "")
	})
}

// completeAfterNodes completes nodes, and once arguments or flags select some, also what follows them.
func completeAfterNodes(
	s *source.Source, follows func(nodes []*corev1.Node, named []string, word string) []string,
) completeFunc {
	return completing(func(cmd *cobra.Command, args []string, word string) []string {
		nodes, named := nodesIn(s), nodesBefore(args)
		words := nodeNames(nodes, args, word)
		if len(named) > 0 || cmd.Flags().Changed("selector") || cmd.Flags().Changed("all") {
			words = append(words, follows(nodes, named, word)...)
		}
		return words
	})
}

// nodesBefore returns the names of nodes among the arguments, which come before the taints.
func nodesBefore(args []string) []string {
	var nodes nodeSelection
	if first := slices.IndexFunc(args, looksLikeTaint); first >= 0 {
		args = args[:first]
	}
	if len(args) == 1 && slices.Contains(nodeWords, args[0]) {
		return nil
	}
	nodes.Complete(args)
	return nodes.Names
}

// nodeNames returns the names of nodes that are not among the arguments, in the form of the current word: NAME or
// node/NAME. No node follows a taint.
func nodeNames(nodes []*corev1.Node, args []string, word string) (names []string) {
	if slices.ContainsFunc(args, looksLikeTaint) {
		return nil
	}
	prefix := ""
	if kind, _, ok := strings.Cut(word, "/"); ok && slices.Contains(nodeWords, kind) {
		prefix = kind + "/"
	}
	given := nodesBefore(args)
	for _, node := range nodes {
		if !slices.Contains(given, node.Name) {
			names = append(names, prefix+node.Name)
		}
	}
	return names
}

// additions returns possible continuations of a taint: an effect, or a taint that some node has.
func additions(nodes []*corev1.Node, word string) (words []string) {
	spec, _, ends := strings.Cut(word, ":")
	if strings.ContainsAny(word, "=:") {
		for _, effect := range taintEffects {
			words = append(words, spec+":"+effect)
		}
	}
	for _, node := range nodes {
		for _, taint := range node.Spec.Taints {
			spec := taint.Key + "="
			if taint.Value == "" {
				spec = taint.Key
			}
			if !ends {
				words = append(words, spec+taint.Value+":")
			}
		}
	}
	return words
}

// removals returns the removals of the taints of the named nodes, or of any node if none is named.
func removals(nodes []*corev1.Node, names []string, mark string) (words []string) {
	for _, node := range nodes {
		if len(names) > 0 && !slices.Contains(names, node.Name) {
			continue
		}
		for _, taint := range node.Spec.Taints {
			words = append(words, taint.Key+mark, taint.Key+":"+string(taint.Effect)+mark)
		}
	}
	return words
}

func nodesIn(s *source.Source) []*corev1.Node { return readQuietly(s, "", state.Nodes).Nodes }

// readQuietly reads objects of a kind, or all files. A completion cannot show errors, and a user waits for it.
func readQuietly(s *source.Source, namespace string, kind *state.Kind) *state.Cluster {
	if s.Offline() {
		cluster, err := source.ReadFiles(strings.NewReader(""), s.Files, source.Wants{})
		if err != nil {
			return &state.Cluster{}
		}
		return cluster
	}
	const patience = "5s"
	if *s.Config.Timeout == "0" {
		*s.Config.Timeout = patience
	}
	reader, err := s.Connect()
	if err != nil {
		return &state.Cluster{}
	}
	_ = reader.ListKind(context.Background(), kind, namespace)
	return reader.Cluster
}
