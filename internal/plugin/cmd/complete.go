// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// completeFunc completes the current word after some arguments.
type completeFunc = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// shellPatience is how long the API server may take while a user waits for a completion.
const shellPatience = "5s"

// completeGlobalFlags completes the flags of every command like kubectl: contexts, clusters, users and namespaces.
func completeGlobalFlags(root *cobra.Command, config *genericclioptions.ConfigFlags) {
	factory := cmdutil.NewFactory(config)
	for flag, list := range map[string]func(word string) []string{
		"context":   completion.ListContextsInConfig,
		"cluster":   completion.ListClustersInConfig,
		"user":      completion.ListUsersInConfig,
		"namespace": func(word string) []string { return completion.CompGetResource(hurried(config), "namespace", word) },
	} {
		complete := func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			completion.SetFactoryForCompletion(factory)
			return list(word), cobra.ShellCompDirectiveNoFileComp
		}
		_ = root.RegisterFlagCompletionFunc(flag, complete)
	}
}

// hurried returns the configuration for kubectl's helpers, with a short timeout.
func hurried(config *genericclioptions.ConfigFlags) cmdutil.Factory {
	if config.Timeout != nil && (*config.Timeout == "" || *config.Timeout == "0") {
		*config.Timeout = shellPatience
	}
	return cmdutil.NewFactory(config)
}

// completeNodes completes the names of nodes.
func completeNodes(s *source.Source) completeFunc {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return matching(word, nodeNames(listNodes(s), args, word)), cobra.ShellCompDirectiveNoFileComp
	}
}

// completePods completes the name of one pod in the namespace of -n or of the context. With -f, it completes any pod
// unless there is a -n.
func completePods(s *source.Source) completeFunc {
	return func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return matching(word, listPods(s, word)), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeKeys completes the keys of existing taints.
func completeKeys(s *source.Source) completeFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		var keys []string
		for _, taint := range taintsOf(listNodes(s)) {
			keys = append(keys, taint.Key)
		}
		return matching(word, keys), cobra.ShellCompDirectiveNoFileComp
	}
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
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		nodes, named := listNodes(s), nodesBefore(args)
		words := nodeNames(nodes, args, word)
		if len(named) > 0 || cmd.Flags().Changed("selector") || cmd.Flags().Changed("all") {
			words = append(words, follows(nodes, named, word)...)
		}
		return withDirective(matching(word, words))
	}
}

// withDirective suppresses the space after a word that can continue.
func withDirective(words []string) ([]string, cobra.ShellCompDirective) {
	goesOn := func(word string) bool { return strings.HasSuffix(word, ":") }
	if len(words) > 0 && len(slices.DeleteFunc(slices.Clone(words), goesOn)) == 0 {
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return words, cobra.ShellCompDirectiveNoFileComp
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
func nodeNames(nodes []*corev1.Node, args []string, word string) []string {
	if slices.ContainsFunc(args, looksLikeTaint) {
		return nil
	}
	prefix := ""
	if kind, _, ok := strings.Cut(word, "/"); ok && slices.Contains(nodeWords, kind) {
		prefix = kind + "/"
	}
	given := nodesBefore(args)
	var names []string
	for _, node := range nodes {
		if !slices.Contains(given, node.Name) {
			names = append(names, prefix+node.Name)
		}
	}
	return names
}

// additions returns possible continuations of a taint: an effect, or a taint that some node has.
func additions(nodes []*corev1.Node, word string) []string {
	var words []string
	if spec, _, ok := strings.Cut(word, ":"); ok {
		return withEffects(spec)
	}
	if strings.Contains(word, "=") {
		words = withEffects(word)
	}
	for _, taint := range taintsOf(nodes) {
		spec := taint.Key
		if taint.Value != "" {
			spec += "=" + taint.Value
		}
		words = append(words, spec+":")
	}
	return words
}

func withEffects(spec string) []string {
	var words []string
	for _, effect := range taintEffects {
		words = append(words, spec+":"+effect)
	}
	return words
}

// removals returns the removals of the taints of the named nodes, or of any node if none is named.
func removals(nodes []*corev1.Node, names []string, mark string) []string {
	var words []string
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

func taintsOf(nodes []*corev1.Node) []corev1.Taint {
	var all []corev1.Taint
	for _, node := range nodes {
		all = append(all, node.Spec.Taints...)
	}
	return all
}

// matching returns the words that begin with the current word, sorted and without duplicates.
func matching(typed string, words []string) []string {
	found := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return !strings.HasPrefix(word, typed) })
	slices.Sort(found)
	return slices.Compact(found)
}

// nodesTemplate makes kubectl's helper print each node and its taints as words: NAME, NAME|key=value:Effect.
const nodesTemplate = `{{ range .items }}{{ $node := .metadata.name }}{{ $node }} {{ range .spec.taints }}` +
	`{{ $node }}|{{ .key }}{{ if .value }}={{ .value }}{{ end }}:{{ .effect }} {{ end }}{{ end }}`

// listNodes returns the nodes of the cluster or the files, with only their names and taints. It is empty if they cannot
// be read.
func listNodes(s *source.Source) []*corev1.Node {
	if s.Offline() {
		return readQuietly(s).Nodes
	}
	template := nodesTemplate
	byName := map[string]*corev1.Node{}
	for _, word := range completion.CompGetFromTemplate(&template, hurried(s.Config), "", []string{"node"}, "") {
		name, spec, tainted := strings.Cut(word, "|")
		if byName[name] == nil {
			byName[name] = &corev1.Node{}
			byName[name].Name = name
		}
		if taint, err := taints.Parse(spec); tainted && err == nil {
			byName[name].Spec.Taints = append(byName[name].Spec.Taints, taint)
		}
	}
	nodes := make([]*corev1.Node, 0, len(byName))
	for _, node := range byName {
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// listPods returns the names of pods.
func listPods(s *source.Source, word string) []string {
	if !s.Offline() {
		return completion.CompGetResource(hurried(s.Config), "pod", word)
	}
	var names []string
	for _, pod := range readQuietly(s).Pods {
		if s.Config.Namespace == nil || *s.Config.Namespace == "" || *s.Config.Namespace == pod.Namespace {
			names = append(names, pod.Name)
		}
	}
	return names
}

// readQuietly reads the files. A completion cannot show errors.
func readQuietly(s *source.Source) *state.Cluster {
	cluster, err := source.ReadFiles(strings.NewReader(""), s.Files, source.Wants{})
	if err != nil {
		return &state.Cluster{}
	}
	return cluster
}
