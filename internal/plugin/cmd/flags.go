// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
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
	return fmt.Errorf("--fail-on=%s cannot be checked because you may not list poddisruptionbudgets: ask for the right to list them in all namespaces", command.Budget)
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
const ruleOfTheEvictor = `The answer depends on who evicts. If only kube-controller-manager does, the command says so in its first line and
answers by that controller's rule: it ignores a second taint during a countdown, counts again from when its leader
began to lead, and does not stop an eviction after an untaint. A note says how many pods Taintkeeper would treat
differently. In all other cases, and if nothing shows who evicts, Taintkeeper's rule decides.`
