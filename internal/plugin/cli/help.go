// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
)

// usageTemplate is what the help of a command says below its text. The flags by which kubectl finds a cluster have a
// page of their own, as they do in kubectl.
const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} [command]{{else}}{{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if and .HasParent .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} [command] --help" for more about a command.{{end}}

Use "{{.Root.CommandPath}} options" for the flags of every command.
`

// newOptions returns the command that lists the flags of every command.
func newOptions(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags of every command",
		Long:  "List the flags of every command: they say how to find and enter a cluster, as those of kubectl do.",
		Args:  command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(cmd.OutOrStdout(), "Every command has these flags:\n\n%s", root.PersistentFlags().FlagUsages())
			return nil
		},
	}
}

// newVersion returns the command that prints the version.
func newVersion(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the plugin",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(env.Out, env.Version)
			return nil
		},
	}
}

// elsewhere says which command of kubectl does what ours do not.
var elsewhere = map[string]string{
	"cordon":   "use kubectl cordon, or taint the node with the effect NoSchedule",
	"drain":    "use kubectl drain, which respects PodDisruptionBudgets, or taint --drain, which does the same and then taints the node",
	"uncordon": "use kubectl uncordon",
}

// unknownCommand refuses a command that is not there, with what comes near.
func unknownCommand(root *cobra.Command, name string) error {
	if instead := elsewhere[strings.ToLower(name)]; instead != "" {
		return command.Usagef("there is no command %q: %s", name, instead)
	}
	var names []string
	for _, sub := range root.Commands() {
		names = append(names, sub.Name())
	}
	near := command.DidYouMean(name, names)
	return command.Usagef("there is no command %q%s: see %s --help", name, near, root.CommandPath())
}
