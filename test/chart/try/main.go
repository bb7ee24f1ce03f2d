// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command try plays through what a new user does, in a real control plane on this machine whose built-in controllers
// are all on: `make try`. It installs the chart in shadow mode, shows what the report says about the built-in
// controller, upgrades to enforce mode and shows who evicts then, and goes back to shadow mode.
//
// Nodes are simulated, so the pods of the Deployment do not run: the program runs outside the cluster, with the
// arguments of the Deployment and a token of its service account.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

func main() {
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
	if err := runUntilSignal(); err != nil {
		fmt.Fprintf(os.Stderr, "try: %v\n", err)
		os.Exit(1)
	}
}

func runUntilSignal() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return playAll(ctx)
}

func playAll(ctx context.Context) (err error) {
	s, err := newStage(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Cluster().Stop()) }()
	for _, played := range scenarios {
		s.User = played.contestant
		found, err := scenario.Run(ctx, s, played.namespace, played.Scenario)
		if err != nil {
			return err
		}
		if !found.Right {
			return fmt.Errorf("%s: %s", played.Name, found)
		}
	}
	return nil
}

// say prints a line of the story.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// command prints what a user would have typed.
func command(format string, args ...any) { fmt.Printf("\n$ "+format+"\n", args...) }
