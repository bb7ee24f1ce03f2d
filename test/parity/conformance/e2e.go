// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/process"
)

const (
	// specsTimeout bounds the specs of a run. Where nobody evicts they wait for ten minutes in all.
	specsTimeout = 40 * time.Minute
	// outputGrace is how long the output of a process that was killed may stay open.
	outputGrace = 5 * time.Second
)

// e2eRun is what upstream's binary is told.
type e2eRun struct {
	name       string // of the run, for the progress
	log        string // file for its output
	kubeconfig string // the administrator's
	reports    string // folder for its JUnit file
	home       string // folder for the caches of kubectl and for temporary files
}

// runE2E runs upstream's binary to its end and returns how it ended. That specs fail is no error. At the end of ctx it
// is killed with all that it has started: what it would clean up goes with the cluster.
func (s suite) runE2E(ctx context.Context, e e2eRun) (*os.ProcessState, error) {
	if err := os.Mkdir(e.home, 0o700); err != nil {
		return nil, fmt.Errorf("create a home directory for e2e.test: %w", err)
	}
	log, err := os.Create(e.log)
	if err != nil {
		return nil, fmt.Errorf("make the log of e2e.test: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(s.e2e, s.arguments(e)...)
	cmd.Dir = e.home
	cmd.Env = append(os.Environ(), "HOME="+e.home, "TMPDIR="+e.home)
	output := &narrator{log: log, tell: func(line string) { progress("%s: %s", e.name, line) }}
	cmd.Stdout, cmd.Stderr = output, output // the same for both, so that one line at a time is written
	cmd.WaitDelay = outputGrace
	return runToEnd(ctx, cmd)
}

func (s suite) arguments(e e2eRun) []string {
	args := []string{
		"--provider=skeleton", // no cloud
		"--kubeconfig=" + e.kubeconfig,
		"--kubectl-path=" + s.kubectl,
		"--report-dir=" + e.reports,
		"--e2e-output-dir=" + e.home,
		"--ginkgo.v",
		"--ginkgo.no-color",
		"--ginkgo.silence-skips",
		"--ginkgo.seed=1", // the same order in every run
		"--ginkgo.timeout=" + specsTimeout.String(),
	}
	for _, expression := range focus() {
		args = append(args, "--ginkgo.focus="+expression)
	}
	return args
}

// runToEnd starts a process, and waits until it ends or must be killed.
func runToEnd(ctx context.Context, cmd *exec.Cmd) (*os.ProcessState, error) {
	started, err := process.Start(cmd, "")
	if err != nil {
		return nil, fmt.Errorf("start e2e.test: %w", err)
	}
	select {
	case <-ctx.Done():
		started.Kill()
		return nil, fmt.Errorf("run the specs: %w", context.Cause(ctx))
	case <-started.Ended():
	}
	err = started.Wait()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return nil, fmt.Errorf("run the specs: %w", err)
	}
	return cmd.ProcessState, nil
}

// contradiction is an error when the process failed and its report does not say why.
func contradiction(status fmt.Stringer, ran []outcome) error {
	failed := slices.ContainsFunc(ran, func(o outcome) bool {
		return o.status != statusPassed && o.status != statusSkipped
	})
	if got := status.String(); !failed && got != "exit status 0" {
		return fmt.Errorf("e2e.test ended with %s although nothing in its report failed: look at its log", got)
	}
	return nil
}
