// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"errors"
	"fmt"
	"io"
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
	ExitUsage  = 2 // the command line is wrong
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
	completeGlobalFlags(root, config)
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
