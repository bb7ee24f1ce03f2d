// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo plays the same acts to kube-controller-manager alone and to Taintkeeper alongside it, each on a real
// control plane on this machine, and says who kept which promise. With -playground it keeps a cluster for experiments
// instead.
//
// It needs bin/taintkeeper (make build) and the control plane (make controlplane); make demo and make playground build
// both. The story goes to standard output, progress and errors to standard error. It exits with 0 when Taintkeeper kept
// all promises, with 130 when it was interrupted, and with 1 otherwise.
package main

import (
	"context"
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
	flag.Parse()
	show := playDemo
	if *playground {
		show = openPlayground
	}
	os.Exit(run(*binary, show))
}

func run(binary string, show func(ctx context.Context, told screen, binary string) error) int {
	// Clients log the loss of their server, which happens a lot at the end of a demo.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	signal.Ignore(syscall.SIGPIPE) // if the reader of a piped story is gone, everything should still end in order
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	done := context.AfterFunc(ctx, func() {
		stop() // a second Ctrl-C ends the program at once; the watchdogs then end the rest
		progress("stopping ...")
	})
	defer done()

	err := show(ctx, newScreen(os.Stdout), binary)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil: // whatever failed then failed because of that
		return exitInterrupted
	}
	fmt.Fprintf(os.Stderr, "demo: %v\n", err)
	return exitFailed
}

// progress tells on standard error what is being started: the story has standard output to itself.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
