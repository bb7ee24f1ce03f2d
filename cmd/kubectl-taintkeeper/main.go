// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-taintkeeper is a kubectl plugin that says what a taint would do before it is set. See
// docs/commands.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in that kubectl knows
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
)

// version is set by the linker.
var version = "(devel)"

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // then the next interrupt ends the process
	command := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Clock:     clock.RealClock{},
		Version:   version,
	})
	return cmd.Fail(os.Stderr, command.ExecuteContext(ctx))
}
