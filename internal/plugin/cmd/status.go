// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/status"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// statusOptions are the options of kubectl taintkeeper status.
type statusOptions struct {
	source source.Source
	output show.Printer
	report string // a file with the report of shadow mode
}

// newStatus returns the command status.
func newStatus(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &statusOptions{source: source.New(env, config), output: show.NewObjectPrinter(env)}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether Taintkeeper is running, and what is wrong",
		Long: `Say whether Taintkeeper is running in the cluster, in which mode, which replica leads, how many pods are due,
overdue or held, whether the built-in controller is kept from evicting, and what failed last.

The command reads Taintkeeper's Lease and pods, the eviction clock, nodes, pods, EvictionPolicies and events from the
API server. A pod is overdue when it has been due for more than a minute and no policy holds it.

In shadow mode, Taintkeeper serves a report: how many pods the built-in controller evicted on time, early, late or not
at all, and what it did that differs from what taints and tolerations require, with the reason. docs/shadow-mode.md
shows how to save it. With --report, this command prints a saved report and reads no cluster.

The exit code is 0 if Taintkeeper is running and nothing is wrong, 1 if that is not known, 2 if the command line is
wrong, 3 if it is running and something is wrong, and 4 if it is not running.`,
		Example: `  # Is Taintkeeper working?
  kubectl taintkeeper status

  # In a script
  kubectl taintkeeper status -o json > status.json || echo "Taintkeeper needs attention"

  # What would Taintkeeper do better than the built-in controller?
  kubectl taintkeeper status --report report.json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if o.report != "" {
				return o.printReport()
			}
			return o.run(cmd.Context())
		},
	}
	o.source.AddFlags(cmd)
	o.output.AddOutput(cmd, "text")
	cmd.Flags().StringVar(&o.report, "report", "", "Print the report of shadow mode in this file, or - for stdin, instead.")
	return cmd
}

func (o *statusOptions) validate() error {
	if err := noNamespace(o.source.Config); err != nil {
		return err
	}
	if err := o.source.Validate(); err != nil {
		return err
	}
	switch {
	case o.report != "" && o.source.Offline():
		return command.Usagef("--report=%s reads no other files: remove --filename", o.report)
	case o.report != "" && o.output.Format != show.Text:
		return command.Usagef("--report=%s is JSON already: remove --output=%s", o.report, o.output.Format)
	}
	return o.output.Validate()
}

// printReport prints a report of shadow mode.
func (o *statusOptions) printReport() error {
	text, err := readFile(o.source.Env.In, o.report)
	if err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	var saved report
	if err := json.Unmarshal(text, &saved); err != nil || saved.Kind != "ShadowReport" {
		return fmt.Errorf("%s is not a report of shadow mode: save what Taintkeeper serves at /shadow?format=json", o.report)
	}
	saved.print(&o.output)
	return nil
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
	return unwellError{errors.New("something is wrong with Taintkeeper"), false}
}

// unwellError means that Taintkeeper is down or that something is wrong with it. The command itself has not failed.
type unwellError struct {
	error

	Down bool
}

// Unwrap returns what is wrong.
func (e unwellError) Unwrap() error { return e.error }

// ago says how long ago an instant was.
func ago(instant, now time.Time) string { return sentence.Between(instant, now) + " ago" }
