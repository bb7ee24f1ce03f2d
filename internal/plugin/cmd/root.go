// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// Exit codes of all commands.
const (
	ExitOK     = 0
	ExitFailed = 1 // something failed; stderr says what
	ExitUsage  = 2 // the command line is invalid
	ExitFound  = 3 // something reached --fail-on, or status found a problem
	ExitDown   = 4 // status found that Taintkeeper is not running
)

// Env is what the program gives to every command.
type Env = command.Env

// New returns the root command with all subcommands.
func New(env Env) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true)
	out := &show.Written{Writer: env.Out}
	env.Out = out
	root := &cobra.Command{
		Use:   "kubectl-taintkeeper",
		Short: "Say what a taint would do before you set it",
		Long: `Say what a taint would do before you set it: which pods leave, when, why, and where they would go.

Only pause and resume need something installed in the cluster. Only pause, resume, taint and untaint change anything.
Every command that reads, except board, also takes files (-f), so you can plan without a cluster.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl taintkeeper"},
		Version:       env.Version,
		Args:          cobra.ArbitraryArgs, // see runRoot
		RunE:          runRoot,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return command.Usagef("%w: see %s --help", sentence.OfFlag(err), cmd.CommandPath())
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets only for its own error
	config.AddFlags(root.PersistentFlags())
	root.AddCommand(
		newBoard(env, config),
		newCheck(env, config),
		newLeaving(env, config),
		pauseNewOptions(env, config).pauseCommand(),
		newPlan(env, config),
		pauseNewOptions(env, config).resumeCommand(),
		newSimulate(env, config),
		newSnapshot(env, config),
		newStatus(env, config),
		taintNewOptions(env, config).taintCommand(),
		newTaints(env, config),
		taintNewOptions(env, config).untaintCommand(),
		newWhy(env, config),
		newOptionsCommand(root),
		newVersion(env),
	)
	root.SetHelpFunc(printHelp)
	root.SetHelpCommand(newHelp(root))
	for _, cmd := range root.Commands() {
		checkPrinted(cmd, out)
	}
	completeGlobalFlags(root, env, config)
	return root
}

// runRoot runs the command without a subcommand.
func runRoot(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args[0])
}

// checkPrinted makes a command fail if some of its output could not be written.
func checkPrinted(cmd *cobra.Command, out *show.Written) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if out.Err != nil {
			return printError{fmt.Errorf("print: %w", out.Err)}
		}
		return err
	}
}

// printError means that output could not be written.
type printError struct{ error }

func (e printError) Unwrap() error { return e.error }

// Fail prints an error for people, and returns the exit code.
func Fail(out io.Writer, err error) int {
	if err == nil {
		return ExitOK
	}
	if _, ok := errors.AsType[printError](err); ok && errors.Is(err, syscall.EPIPE) {
		return ExitFailed // the reader closed the pipe
	}
	for _, line := range sentence.OfErrors(err) {
		fmt.Fprintln(out, show.Wrap("error: "+show.Printable(line), show.WidthOf(out)))
	}
	if _, ok := errors.AsType[command.UsageError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[command.FoundError](err); ok {
		return ExitFound
	}
	if unwell, ok := errors.AsType[unwellError](err); ok {
		return map[bool]int{true: ExitDown, false: ExitFound}[unwell.Down]
	}
	return ExitFailed
}

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
	width := show.WidthOf(out)
	cmd.SetUsageTemplate(fmt.Sprintf(usageTemplate, flagsWidth(width)))
	text := fmt.Sprintf("%s\n\n%s", show.Reflow(cmp.Or(cmd.Long, cmd.Short), width), cmd.UsageString())
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
				root.PersistentFlags().FlagUsagesWrapped(flagsWidth(show.WidthOf(out))))
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

// unknownCommand refuses an unknown command and suggests similar ones.
func unknownCommand(root *cobra.Command, name string) error {
	if near := root.SuggestionsFor(name); len(near) > 0 {
		return command.Usagef("there is no command %q: did you mean %s?", name, strings.Join(near, ", "))
	}
	return command.Usagef("there is no command %q: see %s --help", name, root.CommandPath())
}
