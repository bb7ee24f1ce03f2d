// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
)

// Exit codes of every command.
const (
	ExitOK     = 0
	ExitFailed = 1 // something could not be done; stderr says what
	ExitUsage  = 2 // the command line is wrong
	ExitFound  = 3 // check found what --fail-on asks for
)

// Env is what commands take from outside.
type Env struct {
	genericiooptions.IOStreams

	Clock clock.PassiveClock
	// Version is that of this build.
	Version string
}

// New returns the command with all its subcommands.
func New(env Env) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{
		Use:   "kubectl-taintkeeper",
		Short: "Say what a taint would do, before it is set",
		Long: `Say what a taint would do, before it is set: which pods leave, when, why, and where they would go.

Nothing has to be installed in the cluster. Only taint and untaint change anything. Every command that reads
also takes files (-f), so a plan can be made without a cluster.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl taintkeeper"},
		Version:       env.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())}
	})
	config.AddFlags(root.PersistentFlags())
	root.AddCommand(
		newCheck(env, config),
		newExplain(env, config),
		newPending(env, config),
		newPlan(env, config),
		newSnapshot(env, config),
		newTaint(env, config),
		newTaints(env, config),
		newUntaint(env, config),
	)
	completeGlobalFlags(root, config)
	return root
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Fail writes an error as a person reads it, and returns the exit code.
func Fail(out io.Writer, err error) int {
	if err == nil {
		return ExitOK
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		fmt.Fprintf(out, "error: %s\n", line)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[foundError](err); ok {
		return ExitFound
	}
	return ExitFailed
}
