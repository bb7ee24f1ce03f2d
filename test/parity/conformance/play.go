// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/process"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// suite is where things are.
type suite struct {
	e2e     string // upstream's test binary
	kubectl string
	results string // folder
}

// complete makes the paths absolute, and checks that the binaries are there.
func (s suite) complete() (suite, error) {
	for _, path := range []*string{&s.e2e, &s.kubectl, &s.results} {
		full, err := filepath.Abs(*path)
		if err != nil {
			return s, err
		}
		*path = full
	}
	for _, binary := range []string{s.e2e, s.kubectl} {
		if _, err := os.Stat(binary); err != nil {
			return s, fmt.Errorf("%w: run `make conformance` in the root of the repository, which builds what is needed", err)
		}
	}
	return s, nil
}

// playAll plays runs one after the other, so that they do not disturb each other. A run that fails does not keep the
// next from being played; the end of ctx does.
func (s suite) playAll(ctx context.Context, chosen []run) []result {
	var results []result
	for _, r := range chosen {
		if ctx.Err() != nil {
			break
		}
		progress("%s: %s", r.name, r.about)
		results = append(results, s.play(ctx, r))
	}
	return results
}

// play plays a run in a cluster of its own, whose state is kept when something was not as expected.
func (s suite) play(ctx context.Context, r run) result {
	start := time.Now()
	folder := filepath.Join(s.results, r.name)
	res := result{run: r}
	ran, err := s.playIn(ctx, folder, &res)
	res.rows, res.complaints = judge(r, ran)
	if err != nil {
		res.complaints = append(res.complaints, err.Error())
	}
	res.took = time.Since(start)
	if ctx.Err() == nil && !res.asExpected() {
		return res
	}
	if err := os.RemoveAll(res.state); err != nil {
		res.complaints = append(res.complaints, fmt.Sprintf("remove the state of the cluster: %v", err))
		return res
	}
	res.state = ""
	return res
}

// playIn starts a cluster and the evictor of the run, plays the specs there, leaves the JUnit file in the folder, and
// ends everything.
func (s suite) playIn(ctx context.Context, folder string, res *result) (ran []outcome, err error) {
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil { // nothing of an earlier run
		return nil, fmt.Errorf("make an empty folder for the results: %w", err)
	}
	res.state = filepath.Join(folder, "cluster")
	cluster, err := localcluster.Start(ctx, localcluster.Config{
		Dir: res.state, TaintEviction: res.builtIn, ControllerManagerArgs: res.managerArgs(),
		Audit: auditlog.Calls, Log: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := prepare(ctx, cluster); err != nil {
		return nil, err
	}
	stop, err := res.start(ctx, cluster)
	if err != nil {
		return nil, err
	}
	ran, err = s.playSpecs(ctx, cluster, folder, res)
	err = errors.Join(err, stop())
	if res.allOurs {
		err = errors.Join(err, allOurs(cluster.AuditLog()))
	}
	return ran, err
}

// allOurs checks that we have evicted, and the built-in has not: of the controllers that run as node-controller, only
// taint-eviction deletes pods. The log is read once all is over.
func allOurs(path string) error {
	const builtIn, ours = auditlog.BuiltInAsServiceAccount, localcluster.TaintkeeperUser
	deleted := map[string]int{}
	deletes, err := auditlog.New(path, auditlog.Deletes, auditlog.Accepted).Events()
	if err != nil {
		return err
	}
	for _, e := range deletes {
		deleted[e.User]++
	}
	if deleted[builtIn] > 0 || deleted[ours] == 0 {
		return fmt.Errorf("according to the audit log, the built-in deleted %d pods and Taintkeeper %d; want all by Taintkeeper", deleted[builtIn], deleted[ours])
	}
	progress("according to the audit log, Taintkeeper deleted %d pods, and the built-in none", deleted[ours])
	return nil
}

// playSpecs runs upstream's binary against the cluster, and returns what it reports.
func (s suite) playSpecs(
	ctx context.Context, cluster *localcluster.Cluster, folder string, res *result,
) ([]outcome, error) {
	kubeconfig, err := cluster.Kubeconfig("admin", cluster.AdminConfig())
	if err != nil {
		return nil, err
	}
	res.log = filepath.Join(folder, "e2e.log")
	progress("%s: %d specs, one after the other; their log is %s", res.name, len(specs), shortPath(res.log))
	reports := filepath.Join(cluster.Dir(), "reports")
	home := filepath.Join(cluster.Dir(), "home")
	status, err := s.runE2E(ctx, e2eRun{log: res.log, kubeconfig: kubeconfig, reports: reports, home: home})
	if err != nil {
		return nil, err
	}
	ran, err := readReport(filepath.Join(reports, "junit_01.xml"))
	if err != nil {
		return nil, fmt.Errorf("%w (e2e.test ended with %s, its log is %s)", err, status, shortPath(res.log))
	}
	return ran, contradiction(status, ran)
}

const (
	// specsTimeout bounds the specs of a run. Where nobody evicts they wait for ten minutes in all.
	specsTimeout = 40 * time.Minute
	// outputGrace is how long the output of a process that was killed may stay open.
	outputGrace = 5 * time.Second
)

// e2eRun is what upstream's binary is told.
type e2eRun struct {
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
	cmd.Stdout, cmd.Stderr = log, log
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
