// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
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

// failOns are the values of --fail-on: severities, worst first, after the one that makes no finding fail.
var failOns = []string{"never", "error", "warning", "info"}

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

If you lack permissions, or something is missing from the files, the report says what it could not check.

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
		lines = append(lines, fmt.Sprintf("    %-24s %-8s %s", rule.ID, severityOf(rule.Severity), rule.Title))
	}
	return strings.Join(lines, "\n")
}

func ruleNames() (names []string) {
	for _, rule := range check.Rules() {
		names = append(names, rule.ID)
	}
	return names
}

// severityOf returns a severity as in --fail-on.
func severityOf(severity cliv1alpha1.Severity) string { return strings.ToLower(string(severity)) }

func (o *checkOptions) validate() error {
	if !slices.Contains(failOns, o.failOn) {
		return command.Usagef("--fail-on=%s: choose one of %s", o.failOn, strings.Join(failOns, ", "))
	}
	for _, item := range o.rules {
		name := strings.TrimPrefix(item, "-")
		if !slices.ContainsFunc(ruleNames(), func(id string) bool { return matches(name, id) }) {
			return command.Usagef("--rules: no rule matches %q; available: %s", name, strings.Join(ruleNames(), ", "))
		}
	}
	if o.allNamespaces && *o.source.Config.Namespace != "" {
		return errNamespaces
	}
	if len(o.chosen()) == 0 {
		return command.Usagef("--rules=%s: no rule is left to apply", strings.Join(o.rules, ","))
	}
	return firstError(o.source.Validate, o.output.Validate)
}

// matches reports whether a pattern of --rules matches a rule.
func matches(pattern, id string) bool {
	is, err := path.Match(pattern, id)
	return is && err == nil
}

// chosen returns the rules that --rules names, without those that it leaves out. If it names none, it starts from all
// rules.
func (o *checkOptions) chosen() []check.Rule {
	all := !slices.ContainsFunc(o.rules, func(item string) bool { return !strings.HasPrefix(item, "-") })
	return slices.DeleteFunc(check.Rules(), func(rule check.Rule) bool {
		applied := all
		for _, item := range o.rules {
			pattern, leftOut := strings.CutPrefix(item, "-")
			if matches(pattern, rule.ID) {
				if leftOut {
					return true
				}
				applied = true
			}
		}
		return !applied
	})
}

// run checks, prints the report, and returns an error if there are findings that fail.
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
	failed := 0
	for i := range report.Findings {
		if o.fails(&report.Findings[i]) {
			failed++
		}
	}
	if failed > 0 {
		return command.Foundf("%s at or above --fail-on=%s", sentence.Counted(failed, "finding"), o.failOn)
	}
	return nil
}

// fails reports whether a finding reaches --fail-on.
func (o *checkOptions) fails(finding *cliv1alpha1.CheckFinding) bool {
	return slices.Index(failOns, severityOf(finding.Severity)) <= slices.Index(failOns, o.failOn)
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
		return o.printSARIF(report)
	case formatJUnit:
		return o.printJUnit(report)
	case show.Name:
		o.output.Names(nil, namesOf(report))
	default:
		o.printText(report)
	}
	return nil
}

// namesOf returns each object that a finding is about, once.
func namesOf(report *cliv1alpha1.CheckReport) (names []string) {
	said := map[cliv1alpha1.CheckedObject]bool{}
	for i := range report.Findings {
		if object := report.Findings[i].Object; !said[object] {
			said[object] = true
			names = append(names, strings.ToLower(object.Kind)+"/"+object.Name)
		}
	}
	return names
}

// printText prints a report for a person: how much was checked, which controllers are active, the findings, what to do
// about them, and what is not known. If there are only manifests, nothing is known about controllers.
func (o *checkOptions) printText(report *cliv1alpha1.CheckReport) {
	if o.output.NoHeaders {
		o.printTable(report)
		return
	}
	s := report.Summary
	o.output.Line("%s, %s, %s: %s, %s, %s and %s checked.",
		sentence.Counted(s.Errors, "error"), sentence.Counted(s.Warnings, "warning"), sentence.Counted(s.Infos, "info"),
		sentence.Counted(s.Nodes, "node"), sentence.Counted(s.Pods, "pod"),
		sentence.Counted(s.Workloads, "workload"), sentence.Counted(s.Budgets, "PodDisruptionBudget"))
	for _, task := range report.Controllers {
		if s.Nodes+s.Pods == 0 {
			break
		}
		o.output.Line("%s", task.Message)
		if o.output.Format == show.Wide {
			for _, sign := range task.Signs {
				o.output.Line("  %s", sign)
			}
		}
	}
	if len(report.Findings) > 0 {
		o.output.Line("")
		if o.output.Format == show.Wide {
			o.printTable(report)
		} else {
			o.printByRule(report.Findings)
		}
	}
	for i, note := range report.Notes {
		if i == 0 {
			o.output.Line("")
		}
		o.output.Line("Note: %s", note)
	}
}

// printTable prints the findings for scripts and -o wide.
func (o *checkOptions) printTable(report *cliv1alpha1.CheckReport) {
	type row = cliv1alpha1.CheckFinding
	show.Table(&o.output, []show.Column[row]{
		{Title: "Severity", Cell: func(f row) string { return severityOf(f.Severity) }},
		{Title: "Rule", Cell: func(f row) string { return f.Rule }},
		{Title: "Namespace", Cell: func(f row) string { return f.Object.Namespace }},
		{Title: "Object", Cell: func(f row) string { return f.Object.Kind + "/" + f.Object.Name }},
		{Title: "Count", Cell: func(f row) string { return strings.TrimPrefix(strconv.Itoa(f.Count), "0") }},
		{Title: "Finding", Cell: func(f row) string { return f.Message }},
		{Title: "Advice", Wide: true, Cell: func(f row) string { return f.Advice }},
		{Title: "Examples", Wide: true, Cell: func(f row) string { return strings.Join(f.Examples, ",") }},
		{Title: "Source", Wide: true, Cell: func(f row) string { return f.Source }},
	}, report.Findings)
}

// mostOfARule is how many different findings of a rule are printed.
const mostOfARule = 10

// printByRule prints the findings of each rule below its name, with what to do about them. Objects with the same
// finding share it.
func (o *checkOptions) printByRule(findings []cliv1alpha1.CheckFinding) {
	type same struct{ message, advice string }
	for len(findings) > 0 {
		first := findings[0]
		o.output.Line("%s %s", severityOf(first.Severity), first.Rule)
		var order []same
		objects := map[same][]string{}
		for len(findings) > 0 && findings[0].Rule == first.Rule {
			object, is := findings[0].Object, same{findings[0].Message, findings[0].Advice}
			if objects[is] == nil {
				order = append(order, is)
			}
			objects[is] = append(objects[is], strings.TrimSpace(object.Namespace+" "+object.Kind+"/"+object.Name))
			findings = findings[1:]
		}
		for i, is := range order[:min(len(order), mostOfARule)] {
			o.output.Line("  %s: %s", sentence.Some(objects[is]), is.message)
			if i+1 == len(order) || i+1 == mostOfARule || order[i+1].advice != is.advice {
				o.output.Line("  Advice: %s", is.advice)
			}
		}
		if more := len(order) - mostOfARule; more > 0 {
			o.output.Line("  ... and %d more: -o wide.", more)
		}
	}
}

// printSARIF prints a report as SARIF 2.1.0, which code scanning reads.
func (o *checkOptions) printSARIF(report *cliv1alpha1.CheckReport) error {
	levels := map[cliv1alpha1.Severity]string{
		cliv1alpha1.SeverityError: "error", cliv1alpha1.SeverityWarning: "warning", cliv1alpha1.SeverityInfo: "note",
	}
	run := sarif.NewRunWithInformationURI("taintkeeper", "https://github.com/taintkeeper/taintkeeper")
	run.Tool.Driver.WithVersion(o.output.Env.Version)
	at := map[string]int{}
	for i, rule := range report.Rules {
		at[rule.ID] = i
		run.AddRule(rule.ID).
			WithShortDescription(sarif.NewMultiformatMessageString().WithText(rule.Title)).
			WithHelp(sarif.NewMultiformatMessageString().WithText(rule.Advice)).
			WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel(levels[rule.Severity]))
	}
	for i := range report.Findings {
		finding := &report.Findings[i]
		run.AddResult(resultOf(finding).WithRuleIndex(at[finding.Rule]).WithLevel(levels[finding.Severity]))
	}
	whole := sarif.NewReport()
	whole.AddRun(run)
	if err := whole.PrettyWrite(o.output.Env.Out); err != nil {
		return fmt.Errorf("write SARIF: %w", err)
	}
	o.output.Line("") // the end of the last line
	return nil
}

// resultOf returns a finding in SARIF. Its location is a Kubernetes object, and the file if there is one. The
// fingerprint identifies it across reports.
func resultOf(finding *cliv1alpha1.CheckFinding) *sarif.Result {
	object := sarif.NewLogicalLocation().WithName(finding.Object.Name).
		WithKind("resource").WithFullyQualifiedName(fullName(finding))
	location := sarif.NewLocation().WithLogicalLocations([]*sarif.LogicalLocation{object})
	if finding.Source != "" {
		// SARIF viewers do not show findings without a line. The finding is about the whole file.
		location.WithPhysicalLocation(sarif.NewPhysicalLocation().
			WithArtifactLocation(sarif.NewArtifactLocation().WithURI(finding.Source)).
			WithRegion(sarif.NewRegion().WithStartLine(1)))
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{finding.Rule, fullName(finding), finding.Message}, "\n")))
	return sarif.NewRuleResult(finding.Rule).
		WithMessage(sarif.NewTextMessage(fmt.Sprintf("%s: %s %s", fullName(finding), finding.Message, finding.Advice))).
		WithLocations([]*sarif.Location{location}).
		WithPartialFingerprints(map[string]string{"taintkeeper/v1": hex.EncodeToString(sum[:])})
}

// fullName returns Kind/namespace/name, or Kind/name.
func fullName(finding *cliv1alpha1.CheckFinding) string {
	return path.Join(finding.Object.Kind, finding.Object.Namespace, finding.Object.Name)
}

// printJUnit prints a report as JUnit XML. Each rule is a suite, and each finding that reaches --fail-on is a failed
// test. Other findings are the output of tests that pass.
func (o *checkOptions) printJUnit(report *cliv1alpha1.CheckReport) error {
	suites := junit.Testsuites{Name: "kubectl taintkeeper check"}
	for i, rule := range report.Rules {
		suite := junit.Testsuite{Name: rule.ID, ID: i, Time: "0"}
		suite.SetTimestamp(report.At.UTC())
		for j := range report.Findings {
			if finding := &report.Findings[j]; finding.Rule == rule.ID {
				suite.AddTestcase(o.testcaseOf(finding))
			}
		}
		if suite.Tests == 0 {
			suite.AddTestcase(junit.Testcase{Name: "nothing found", Classname: rule.ID})
		}
		suites.AddSuite(suite)
	}
	if _, err := io.WriteString(o.output.Env.Out, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"); err != nil {
		return err
	}
	return suites.WriteXML(o.output.Env.Out)
}

func (o *checkOptions) testcaseOf(finding *cliv1alpha1.CheckFinding) junit.Testcase {
	test := junit.Testcase{Name: fullName(finding), Classname: finding.Rule}
	severity := severityOf(finding.Severity)
	text := strings.TrimSpace(fmt.Sprintf("%s: %s\n%s\n%s", severity, finding.Message, finding.Advice, strings.Join(finding.Examples, "\n")))
	if o.fails(finding) {
		test.Failure = &junit.Result{Message: finding.Message, Type: severity, Data: text}
	} else {
		test.SystemOut = &junit.Output{Data: text}
	}
	return test
}
