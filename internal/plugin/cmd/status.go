// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/status"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// statusOptions are the options of kubectl taintkeeper status.
type statusOptions struct {
	source source.Source
	output show.Printer
	report bool // print all of the report of shadow mode
}

// newStatus returns the command status.
func newStatus(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &statusOptions{source: source.New(env, config), output: show.NewObjectPrinter(env)}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether Taintkeeper is running, and what is wrong",
		Long: `Say whether Taintkeeper is running in the cluster, in which mode, which replica leads, how many nodes are not ready,
how many pods are due, overdue or held, whether the built-in controller is kept from evicting, and what failed last.

The command reads Taintkeeper's Lease and pods, the eviction clock, nodes, pods, EvictionPolicies and events from the
API server. A pod is overdue when it has been due for more than a minute and no policy holds it.

Shadow mode reports how many pods the built-in controller evicted on time, early, late or not at all, and what it did
that differs from what taints and tolerations require, with the reason. The command prints the newest ten differences,
and all with --report. The report is in ConfigMap taintkeeper-shadow; --filename can read a saved one.

The exit code is 0 if Taintkeeper is running and nothing is wrong, 1 if that is not known, 2 if the command line is
wrong, 3 if it is running and something is wrong with it or with half of a zone's nodes, and 4 if it is not running.`,
		Example: `  # Is Taintkeeper working?
  kubectl taintkeeper status

  # In a script
  kubectl taintkeeper status -o json > status.json || echo "Taintkeeper needs attention"

  # What would Taintkeeper do better than the built-in controller?
  kubectl taintkeeper status --report`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddOutput(cmd, "text")
	cmd.Flags().BoolVar(&o.report, "report", false, "Print everything in shadow mode's report.")
	return cmd
}

func (o *statusOptions) validate() error {
	if err := noNamespace(o.source.Config); err != nil {
		return err
	}
	if err := o.source.Validate(); err != nil {
		return err
	}
	if o.report && o.output.Format != show.Text {
		return command.Usagef("--output=%s has all of the report: remove --report", o.output.Format)
	}
	return o.output.Validate()
}

func (o *statusOptions) run(ctx context.Context) error {
	cluster, err := o.source.Read(ctx, source.Wants{
		Policies: true, Health: true, WithoutNodes: "it is not known which pods are due",
	})
	if err != nil {
		return err
	}
	at := cluster.Signs.At
	if at.IsZero() { // the files have no date
		at = o.source.Env.Clock.Now()
	}
	report := status.Make(cluster, at)
	if printed, err := o.output.Object(report); err != nil {
		return err
	} else if !printed {
		o.print(report)
	}
	switch report.Health {
	case cliv1alpha1.Healthy:
		return nil
	case cliv1alpha1.HealthUnknown:
		return errors.New("cannot tell whether Taintkeeper is running")
	case cliv1alpha1.NotRunning:
		return unwellError{errors.New("no replica of Taintkeeper is running"), true}
	}
	return unwellError{errors.New("something is wrong"), false}
}

// unwellError means that Taintkeeper is down or that something is wrong with it. The command itself has not failed.
type unwellError struct {
	error

	Down bool
}

// Unwrap returns what is wrong.
func (e unwellError) Unwrap() error { return e.error }

// print prints a report for people: the answer first, then the details.
func (o *statusOptions) print(r *cliv1alpha1.StatusReport) {
	unknown := map[string]string{}
	for _, field := range slices.Backward(r.Unknown) { // the first reason counts
		unknown[field.Field] = fmt.Sprintf("unknown (%s)", field.Reason)
	}
	bullet := "- "
	switch {
	case r.Health == cliv1alpha1.Healthy && len(unknown) > 0:
		o.output.Line("Taintkeeper is running, and what could be read shows no problem.")
	case r.Health == cliv1alpha1.Healthy:
		o.output.Line("Taintkeeper is running, and nothing is wrong.")
	case r.Health == cliv1alpha1.Degraded:
		o.output.Line("Taintkeeper is running, but something is wrong:")
	default: // the first problem is that it does not run, or that this is not known
		bullet = ""
	}
	for _, problem := range r.Problems {
		o.output.Line("%s%s", bullet, problem)
	}
	for _, note := range r.Notes {
		o.output.Line("Note: %s", note)
	}
	o.output.Line("")
	for _, line := range []struct{ subject, field, says string }{
		{"Mode", "mode", modeLine(r, unknown["controllers"])},
		{"Version", "version", r.Version},
		{"Leader", "leader", leaderLine(r)},
		{"Replicas", "", replicasLine(r)},
		{"Nodes", "", state.FailedNodes(r.Zones)},
		{"Pods", "pods", show.PodsToGo(r.Pods, r.At.Time)},
		{"Held", "heldBy", heldLine(r)},
		{"Eviction clock", "evictionClock", clockLine(r)},
		{"Built-in", "builtInBacklog", backlogLine(r)},
		{"Last error", "lastError", lastErrorLine(r)},
	} {
		if says := cmp.Or(unknown[line.field], line.says); says != "" {
			o.output.Line("%-15s %s", line.subject, says)
		}
	}
	o.printShadow(r.Shadow, r.At.Time)
}

func modeLine(r *cliv1alpha1.StatusReport, controllers string) string {
	mode := map[cliv1alpha1.Mode]string{
		cliv1alpha1.ModeEnforce: "enforce", cliv1alpha1.ModeShadow: "shadow", cliv1alpha1.ModeDryRun: "dry run",
	}[r.Mode]
	switch {
	case mode == "":
		return ""
	case controllers != "":
		return mode + "; controllers " + controllers
	}
	return fmt.Sprintf("%s (%s)", mode, strings.Join(r.Controllers, ", "))
}

func leaderLine(r *cliv1alpha1.StatusReport) string {
	if r.Leader == nil {
		return ""
	}
	name, _, _ := strings.Cut(r.Leader.Identity, "_")
	if !r.Leader.Since.IsZero() && !r.Leader.Since.After(r.At.Time) { // its clock may be ahead
		name += ", for " + sentence.Between(r.Leader.Since.Time, r.At.Time)
	}
	return fmt.Sprintf("%s (Lease %s)", name, r.Leader.Lease)
}

func replicasLine(r *cliv1alpha1.StatusReport) string {
	var not []string
	for _, replica := range r.Replicas {
		if !replica.Ready {
			not = append(not, replica.Namespace+"/"+replica.Name)
		}
	}
	switch all := len(r.Replicas); {
	case all == 0:
		return ""
	case len(not) == 0:
		return fmt.Sprintf("%d of %d ready", all, all)
	default:
		return fmt.Sprintf("%d of %d ready; not ready: %s", all-len(not), all, sentence.Enumerate(not))
	}
}

func heldLine(r *cliv1alpha1.StatusReport) string {
	var all []string
	for _, objector := range r.HeldBy {
		all = append(all, fmt.Sprintf("%d by %s: %s", objector.Pods, objector.Policy, objector.Reason))
	}
	if len(all) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", r.Pods.Held, sentence.Enumerate(all))
}

func clockLine(r *cliv1alpha1.StatusReport) string {
	clock := r.EvictionClock
	if clock == nil {
		return "none; without coexistence nothing keeps the built-in controller from evicting"
	}
	says := map[cliv1alpha1.ClockState]string{
		cliv1alpha1.ClockFresh:  "fresh, so the built-in controller does not evict",
		cliv1alpha1.ClockStale:  "stale, so the built-in controller may evict",
		cliv1alpha1.ClockNotSet: "not set, so the built-in controller may evict",
	}[clock.State]
	if clock.Renewed != nil {
		says += fmt.Sprintf(" (renewed %s ago)", sentence.Between(clock.Renewed.Time, r.At.Time))
	}
	return says
}

func backlogLine(r *cliv1alpha1.StatusReport) string {
	if r.BuiltInBacklog == nil {
		return "no backlog of evictions"
	}
	return fmt.Sprintf("backlog ends within %s; %s",
		sentence.Relative(r.At.Time, r.BuiltInBacklog.Until.Time), who.SparedBy(r.BuiltInBacklog))
}

func lastErrorLine(r *cliv1alpha1.StatusReport) string {
	if r.LastError == nil {
		return "none in the events that the API server keeps"
	}
	return fmt.Sprintf("%s ago, %s: %s", sentence.Between(r.LastError.At.Time, r.At.Time), r.LastError.Object, r.LastError.Message)
}

// printShadow prints the report of shadow mode: all of it on request, and otherwise the newest differences of one that
// is not old.
func (o *statusOptions) printShadow(report *v1alpha1.ShadowReport, at time.Time) {
	const newest = 10
	if !o.report && (report == nil || report.IsOld(at)) { // a note says that it is old
		return
	}
	o.output.Line("")
	if report == nil {
		o.output.Line("There is no report of shadow mode.")
		return
	}
	most := newest
	if o.report {
		most = len(report.Differences)
	}
	for _, line := range report.Lines(most) {
		o.output.Line("%s", line)
	}
	if more := len(report.Differences) - most; more > 0 {
		o.output.Line("%s: add --report.", sentence.Counted(more, "more difference"))
	}
}
