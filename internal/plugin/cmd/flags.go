// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/taints"
)

// errNamespaces means that a command line selects one namespace and all of them.
var errNamespaces = command.Usagef("--all-namespaces and --namespace cannot be used together: use one of them")

// noArgs is for commands that take only flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	files := ""
	if flag := cmd.Flags().Lookup("filename"); flag != nil && !flag.Hidden {
		files = "name files with -f, or "
	}
	return command.Usagef("%q: %s takes no arguments: %ssee %s --help", args[0], cmd.Name(), files, cmd.CommandPath())
}

// readFile reads a file, or stdin if its name is -.
func readFile(in io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(name)
}

// noFiles rejects -f for a command that does not read files, and says why, because other commands do.
func noFiles(cmd *cobra.Command, why string) {
	var files []string
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "")
	_ = cmd.Flags().MarkHidden("filename")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if len(files) == 0 {
			return nil
		}
		return command.Usagef("--filename=%s: %s", strings.Join(files, ","), why)
	}
}

// noNamespace rejects a namespace for a command about nodes and all pods on them, because its output would contain pods
// of other namespaces.
func noNamespace(config *genericclioptions.ConfigFlags) error {
	if *config.Namespace == "" {
		return nil
	}
	return command.Usagef("--namespace=%s: this command reports pods of all namespaces; remove --namespace", *config.Namespace)
}

// firstError makes some checks until one fails.
func firstError(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// dryRunFlag is the value of --dry-run, as in kubectl.
type dryRunFlag string

// Values of --dry-run.
const (
	dryRunNone   dryRunFlag = "none"
	dryRunClient dryRunFlag = "client"
	dryRunServer dryRunFlag = "server"
)

var dryRuns = []string{string(dryRunNone), string(dryRunClient), string(dryRunServer)}

// AddFlag adds --dry-run.
func (d *dryRunFlag) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(d), "dry-run", string(dryRunNone), "Change nothing: client prints what the command would send, and server what the API server would answer. With none, the change is made.")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = string(dryRunClient)
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(dryRuns, cobra.ShellCompDirectiveNoFileComp))
}

// Validate rejects other values.
func (d dryRunFlag) Validate() error {
	if !slices.Contains(dryRuns, string(d)) {
		return command.Usagef("--dry-run=%s: choose one of %s", d, strings.Join(dryRuns, ", "))
	}
	return nil
}

// Option returns the field DryRun of a call's options.
func (d dryRunFlag) Option() []string {
	if d == dryRunServer {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Done says what was done, or would be, in kubectl's words.
func (d dryRunFlag) Done(done string) string {
	switch d {
	case dryRunClient:
		return done + " (dry run)"
	case dryRunServer:
		return done + " (server dry run)"
	}
	return done
}

// printChanged prints an object that was changed, as kubectl does: a line, its name, or the object.
func printChanged(p *show.Printer, object metav1.Object, name, done string) error {
	object.SetManagedFields(nil)
	printed, err := p.Object(object)
	switch {
	case printed:
	case p.Format == show.Name:
		p.Line("%s", name)
	default:
		p.Line("%s %s", name, done)
	}
	return err
}

// failOnFlag is the flag --fail-on of commands that predict what may happen.
type failOnFlag []string

// allFailOns are all values.
var allFailOns = []string{command.LostPod, command.LostWorkload, command.Budget, command.Nowhere}

// AddFlag adds the flag.
func (f *failOnFlag) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar((*[]string)(f), "fail-on", nil,
		"What makes the exit code 3: "+strings.Join(allFailOns, ", ")+".")
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(allFailOns, cobra.ShellCompDirectiveNoFileComp))
}

// Validate rejects unknown values.
func (f failOnFlag) Validate() error {
	for _, value := range f {
		if !slices.Contains(allFailOns, value) {
			return command.Usagef("--fail-on=%s: choose from %s", value, strings.Join(allFailOns, ", "))
		}
	}
	return nil
}

// Asks reports whether the flag has a value.
func (f failOnFlag) Asks(value string) bool { return slices.Contains(f, value) }

// CheckBudgets returns an error if the flag names budgets but they are not known.
func (f failOnFlag) CheckBudgets(unknown bool) error {
	if !unknown || !f.Asks(command.Budget) {
		return nil
	}
	return fmt.Errorf("--fail-on=%s cannot be checked because you may not list poddisruptionbudgets: ask for permission to list them in all namespaces", command.Budget)
}

// Check returns a FoundError if something that the flag names was found, such as "2 workloads without a ready replica".
func (f failOnFlag) Check(found map[string]string) error {
	var all []string
	for _, value := range allFailOns {
		if f.Asks(value) && found[value] != "" {
			all = append(all, found[value])
		}
	}
	if len(all) == 0 {
		return nil
	}
	return command.Foundf("%s (--fail-on=%s)", strings.Join(all, ", "), strings.Join(f, ","))
}

// ruleOfTheEvictor says by whose rule commands answer, for help texts.
const ruleOfTheEvictor = `The answer follows the rule of the controller that evicts. If that is only kube-controller-manager, the first line says
so, and a note says how many pods Taintkeeper would treat differently. If nothing shows which one evicts, Taintkeeper's
rule decides.`

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
	named, selected := len(s.Names) > 0, s.Selector != ""
	switch {
	case named && (selected || s.All), selected && s.All:
		return command.Usagef("nodes are selected in several ways: use only one of node names, --selector and --all")
	case !named && !selected && !s.All:
		return command.Usagef("no node is given: name some, or use --selector or --all")
	}
	return nil
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
