// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
)

// usageTemplate is the part of a command's help below its description. The flags that select a cluster have their own
// page, as in kubectl. The template's parameter is the width of the terminal.
const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} [command]{{else}}{{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if and .HasParent .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped %d | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} [command] --help" for more about a command.{{end}}

Use "{{.Root.CommandPath}} options" to list the flags that all commands take.
`

// printHelp prints the help of a command in lines that fit the terminal.
func printHelp(cmd *cobra.Command, _ []string) {
	out := cmd.OutOrStdout()
	width := output.WidthOf(out)
	cmd.SetUsageTemplate(fmt.Sprintf(usageTemplate, flagsWidth(width)))
	text := fmt.Sprintf("%s\n\n%s", output.Reflow(cmp.Or(cmd.Long, cmd.Short), width), cmd.UsageString())
	fmt.Fprint(out, trailing.ReplaceAllString(text, "\n"))
}

// trailing matches the spaces that a list of flags puts after long names.
var trailing = regexp.MustCompile(` +\n`)

// flagsWidth is the width of a list of flags that puts the descriptions of long flags below their names. pflag does
// that if less than 24 columns are left next to the names.
func flagsWidth(width int) int { return max(width-8, 0) }

// newOptionsCommand returns the command that lists the flags that all commands take.
func newOptionsCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "options",
		Short:  "List the flags that all commands take",
		Long:   "List the flags that all commands take. They select a cluster and its credentials, as in kubectl.",
		Hidden: true, // the help names it
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "Every command has these flags:\n\n%s",
				root.PersistentFlags().FlagUsagesWrapped(flagsWidth(output.WidthOf(out))))
			return nil
		},
	}
}

// newHelp returns the command that prints the help of another.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Short:  "Print the help of a command",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			of, _, err := root.Find(args)
			if err != nil || of == root && len(args) > 0 {
				return unknownCommand(root, args[0])
			}
			return of.Help()
		},
	}
}

// newVersion returns the command that prints the version.
func newVersion(env Env) *cobra.Command {
	return &cobra.Command{
		Use:    "version",
		Short:  "Print the version of the plugin",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(env.Out, env.Version)
			return nil
		},
	}
}

// elsewhere says what to use instead of commands that we do not have.
var elsewhere = map[string]string{
	"cordon":   "use kubectl cordon, or taint the node with the effect NoSchedule",
	"drain":    "use kubectl drain, which respects PodDisruptionBudgets",
	"uncordon": "use kubectl uncordon",
}

// unknownCommand refuses an unknown command and suggests similar ones.
func unknownCommand(root *cobra.Command, name string) error {
	if instead := elsewhere[strings.ToLower(name)]; instead != "" {
		return command.Usagef("there is no command %q: %s", name, instead)
	}
	var names []string
	for _, sub := range root.Commands() {
		names = append(names, sub.Name())
	}
	near := cmp.Or(didYouMean(name, names), fmt.Sprintf(": see %s --help", root.CommandPath()))
	return command.Usagef("there is no command %q%s", name, near)
}
