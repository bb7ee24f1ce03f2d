// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reportcmd is kubectl taintkeeper report: it fetches the report of shadow mode from Taintkeeper's pod.
package reportcmd

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

// options are the options of kubectl taintkeeper report.
type options struct {
	env    command.Env
	config *genericclioptions.ConfigFlags
	output output.Printer
}

// New returns the command report.
func New(env command.Env, config *genericclioptions.ConfigFlags) *cobra.Command {
	o := &options{env: env, config: config, output: output.NewObjectPrinter(env)}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Print the report of shadow mode",
		Long: `Print the report of shadow mode: how many pods the built-in controller evicted on time, early, late or not at all, and
what it did that differs from what taints and tolerations require, with the reason.

The command fetches the report from Taintkeeper's pod through the API server, as kubectl port-forward does. You need the
rights to list pods, to create pods/portforward, and to create a token for the service account taintkeeper-report, which
the chart creates in shadow mode. The command does not send your own credentials to the pod.`,
		Example: `  # What would Taintkeeper do better here?
  kubectl taintkeeper report

  # All differences, from the release in one namespace
  kubectl taintkeeper report -n taintkeeper -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.Usagef("%q: report takes no arguments: see %s --help", args[0], cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.Validate(); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.output.AddOutput(cmd, "text")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	config, err := source.RESTConfigOf(o.config)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	if config.Timeout == 0 {
		config.Timeout = source.Patience
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	f := &fetcher{clients: clients, server: config.Host, connect: forwardTo(config)}
	where, body, err := f.fetch(ctx, *o.config.Namespace)
	if err != nil {
		return err
	}
	return o.print(where, body)
}

// print prints the report as it was served, or for people.
func (o *options) print(where string, body []byte) error {
	switch o.output.Format {
	case output.JSON:
		_, err := o.env.Out.Write(body)
		return err
	case output.YAML:
		text, err := yaml.JSONToYAML(body)
		if err != nil {
			return fmt.Errorf("print as YAML: %w", err)
		}
		_, err = o.env.Out.Write(text)
		return err
	}
	var served report
	if err := json.Unmarshal(body, &served); err != nil {
		return fmt.Errorf("read the report of pod %s: %w", where, err)
	}
	served.print(&o.output, where)
	return nil
}
