// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command conformance runs upstream's own e2e specs of taints in local clusters: with the built-in eviction, without
// any, and with bin/taintkeeper.
//
// The second run is the control: the specs that wait for an eviction must fail, each with its own message for a pod
// that did not leave. This shows that they can fail.
//
// It needs the binaries that `make conformance` builds, and is run in the root of the repository. Progress goes to
// standard error, the results to standard output. It exits with 0 when every run was as expected, with 130 when it was
// interrupted, and with 1 otherwise.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	exitUnexpected  = 1
	exitInterrupted = 130
)

func main() {
	names := flag.String("runs", "",
		"runs to perform, separated by commas: "+strings.Join(runNames(), ", ")+"; all by default")
	flag.Parse()
	chosen, err := chooseRuns(*names)
	if err != nil {
		os.Exit(fail(err))
	}
	os.Exit(conform(chosen))
}

// conform plays runs and returns the exit status.
func conform(chosen []run) int {
	s, err := suite{
		e2e: "bin/conformance/e2e.test", kubectl: "bin/conformance/kubectl", results: "bin/conformance/results",
	}.complete()
	if err != nil {
		return fail(err)
	}
	// Clients log the loss of their server, which happens a lot at the end of a cluster.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	done := context.AfterFunc(ctx, func() {
		stop() // a second Ctrl-C ends the program at once; the watchdogs then end the rest
		progress("stopping ...")
	})
	defer done()

	status := 0
	for _, r := range s.playAll(ctx, chosen) {
		r.report(os.Stdout)
		if !r.asExpected() {
			status = exitUnexpected
		}
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	return status
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
	return exitUnexpected
}

// progress tells on standard error what is being done: the results have standard output to themselves.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
