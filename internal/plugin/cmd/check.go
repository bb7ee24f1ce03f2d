// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/check"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Formats of check for programs that show findings.
const (
	formatSARIF = "sarif"
	formatJUnit = "junit"
)

// never is the value of --fail-on that makes no finding fail.
const never = "never"

// thresholds are the severities by the values of --fail-on.
var thresholds = map[string]cliv1alpha1.Severity{
	"error":   cliv1alpha1.SeverityError,
	"warning": cliv1alpha1.SeverityWarning,
	"info":    cliv1alpha1.SeverityInfo,
}

// failOns are the values of --fail-on.
var failOns = []string{"error", "warning", "info", never}

// checkOptions are the options of kubectl taintkeeper check.
type checkOptions struct {
	source source.Source
	output show.Printer
	// namespace restricts the report to objects of one namespace. If it is empty, the report covers all.
	namespace     string
	allNamespaces bool
	rules         []string
	failOn        string
}

// newCheck returns the command check.
func newCheck(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &checkOptions{source: source.New(env, config), output: show.NewPrinter(env, formatSARIF, formatJUnit)}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Find what is wrong with taints, tolerations, and who evicts",
		Long: `Find what is wrong with how a cluster uses taints and tolerations: no controller that evicts, or two of them,
tolerations that do not mean what they seem to, workloads that a common taint evicts or that never leave an unreachable
node, and EvictionPolicies that hold no pods or hold them indefinitely.

If you lack rights, or something is missing from the files, the report says what it could not check.

With -f, it also checks manifests of Deployments, DaemonSets and other workloads, even without pods or nodes.
-o sarif and -o junit are for CI: code scanning and test reports.

The exit code is 0 if no finding reaches --fail-on, 1 if the check could not be carried out, 2 if the command line is
wrong, and 3 if a finding reaches --fail-on.

Rules:

` + listRules(),
		Example: `  # What is wrong in this cluster?
  kubectl taintkeeper check

  # In CI: check manifests for code scanning, and fail on warnings
  kubectl taintkeeper check -f manifests/ -R -o sarif --fail-on=warning > check.sarif

  # All rules except one
  kubectl taintkeeper check --rules='*,-single-replica'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.namespace = *config.Namespace
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddFlags(cmd)
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Report on all namespaces. This is the default without --namespace.")
	cmd.Flags().StringSliceVar(&o.rules, "rules", []string{"*"}, "The rules to apply: '*' means all, 'name' adds a rule, '-name' removes a rule, and 'policy-*' matches several.")
	cmd.Flags().StringVar(&o.failOn, "fail-on", "error", "The lowest severity of a finding that makes the exit code 3: "+strings.Join(failOns, ", ")+".")
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(failOns, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("rules", cobra.FixedCompletions(ruleNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// listRules says what each rule is about, for the help.
func listRules() string {
	var lines []string
	for _, rule := range check.Rules() {
		lines = append(lines, fmt.Sprintf("    %-24s %-8s %s", rule.ID, strings.ToLower(string(rule.Severity)), rule.Title))
	}
	return strings.Join(lines, "\n")
}

func ruleNames() []string {
	var names []string
	for _, rule := range check.Rules() {
		names = append(names, rule.ID)
	}
	return names
}

func (o *checkOptions) validate() error {
	if !slices.Contains(failOns, o.failOn) {
		return command.Usagef("--fail-on=%s: choose one of %s", o.failOn, strings.Join(failOns, ", "))
	}
	for _, item := range o.rules {
		name := strings.TrimPrefix(item, "-")
		if slices.ContainsFunc(ruleNames(), func(id string) bool { return matches(name, id) }) {
			continue
		}
		return command.Usagef("--rules: no rule matches %q; available: %s", name, strings.Join(ruleNames(), ", "))
	}
	if o.allNamespaces && *o.source.Config.Namespace != "" {
		return errNamespaces
	}
	if err := o.source.Validate(); err != nil {
		return err
	}
	if len(o.chosen()) == 0 {
		return command.Usagef("--rules=%s: no rule is left to apply", strings.Join(o.rules, ","))
	}
	return o.output.Validate()
}

// matches reports whether a pattern of --rules matches a rule.
func matches(pattern, id string) bool {
	is, err := path.Match(pattern, id)
	return is && err == nil
}

// chosen returns the rules that --rules names, without those that it leaves out. If it names none, it starts from all
// rules.
func (o *checkOptions) chosen() []check.Rule {
	isLeftOut := func(item string) bool { return strings.HasPrefix(item, "-") }
	all := slices.Contains(o.rules, "*") || !slices.ContainsFunc(o.rules, func(item string) bool { return !isLeftOut(item) })
	return slices.DeleteFunc(check.Rules(), func(rule check.Rule) bool {
		leftOut, applied := false, all
		for _, item := range o.rules {
			is := matches(strings.TrimPrefix(item, "-"), rule.ID)
			leftOut = leftOut || is && isLeftOut(item)
			applied = applied || is && !isLeftOut(item)
		}
		return leftOut || !applied
	})
}

func (o *checkOptions) run(ctx context.Context) error {
	cluster, err := o.source.Read(ctx, source.Wants{
		Policies: true, Budgets: true, Signs: true, Templates: true, WithoutNodes: "nothing is checked that needs them",
	})
	if err != nil {
		return err
	}
	report := check.Make(cluster, o.chosen(), o.namespace, o.source.Now(cluster))
	if err := o.print(report); err != nil {
		return err
	}
	return o.verdict(report)
}

func (o *checkOptions) print(report *cliv1alpha1.CheckReport) error {
	if printed, err := o.output.Object(report); printed {
		return err
	}
	if o.output.NoHeaders || !slices.Contains([]string{show.Text, show.Wide}, o.output.Format) {
		o.output.Notes(report.Notes)
	}
	switch o.output.Format {
	case formatSARIF:
		return printSARIF(&o.output, report)
	case formatJUnit:
		return printJUnit(&o.output, report, o.fails)
	case show.Name:
		o.output.Names(nil, namesOf(report))
	default:
		printCheck(&o.output, report)
	}
	return nil
}

// fails reports whether a finding reaches --fail-on.
func (o *checkOptions) fails(finding *cliv1alpha1.CheckFinding) bool {
	return o.failOn != never && check.Rank(finding.Severity) >= check.Rank(thresholds[o.failOn])
}

// verdict returns an error if there are findings that fail.
func (o *checkOptions) verdict(report *cliv1alpha1.CheckReport) error {
	failed := 0
	for i := range report.Findings {
		if o.fails(&report.Findings[i]) {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return command.Foundf("%s at or above --fail-on=%s", sentence.Counted(failed, "finding"), o.failOn)
}
