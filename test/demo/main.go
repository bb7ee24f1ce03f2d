// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Taintkeeper at work in a real control plane on this machine, and checks that every pod left when
// it was due and that no other did. With -playground it keeps the cluster for experiments instead.
//
// It needs bin/taintkeeper (make build) and the control plane (make controlplane); make demo and make playground build
// both. The story goes to standard output, progress and errors to standard error. It exits with 0 when all promises
// were kept, with 130 when it was interrupted, and with 1 otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	exitFailed      = 1
	exitInterrupted = 130
)

func main() {
	binary := flag.String("taintkeeper", "bin/taintkeeper", "the binary to run")
	playground := flag.Bool("playground", false, "keep the cluster up for experiments until Ctrl-C, without the acts")
	board := flag.Bool("board", false, "serve kubectl taintkeeper board while the demo runs, and wait for Ctrl-C at the end")
	flag.Parse()
	show := playDemo
	if *board {
		show = playWithBoard
	}
	if *playground {
		show = holdPlayground
	}
	os.Exit(run(*binary, show))
}

func run(binary string, show func(context.Context, *stage) error) int {
	// Clients log the loss of their server, which happens a lot at the end of a demo.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	// SIGPIPE: if the reader of a piped story is gone, everything should still end in order.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	done := context.AfterFunc(ctx, func() {
		stop() // a second Ctrl-C ends the program at once; the watchdogs then end the rest
		signal.Ignore(syscall.SIGPIPE)
		progress("stopping ...")
	})
	defer done()

	err := present(ctx, newScreen(os.Stdout), binary, show)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	}
	fmt.Fprintf(os.Stderr, "demo: %v\n", err)
	return exitFailed
}
