// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

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

// renew makes a folder empty, so that nothing in it is an earlier run's.
func renew(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove the results of an earlier run: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder for the results: %w", err)
	}
	return nil
}

// playIn starts a cluster and the evictor of the run, plays the specs there, leaves the JUnit file in the folder, and
// ends everything.
func (s suite) playIn(ctx context.Context, folder string, res *result) (ran []outcome, err error) {
	if err := renew(folder); err != nil {
		return nil, err
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
func (s suite) playSpecs(ctx context.Context, cluster *localcluster.Cluster, folder string, res *result,
) ([]outcome, error) {
	kubeconfig, err := cluster.Kubeconfig("admin", cluster.AdminConfig())
	if err != nil {
		return nil, err
	}
	res.log = filepath.Join(folder, "e2e.log")
	progress("%s: %d specs, one after the other; their log is %s", res.name, len(specs), shortPath(res.log))
	reports := filepath.Join(cluster.Dir(), "reports")
	status, err := s.runE2E(ctx, e2eRun{
		name: res.name, log: res.log, kubeconfig: kubeconfig, reports: reports, home: filepath.Join(cluster.Dir(), "home"),
	})
	if err != nil {
		return nil, err
	}
	report, err := readReport(filepath.Join(reports, "junit_01.xml"))
	if err != nil {
		return nil, fmt.Errorf("%w (e2e.test ended with %s, its log is %s)", err, status, shortPath(res.log))
	}
	junit := filepath.Join(folder, "junit.xml")
	if err := writeReport(junit, report); err != nil {
		return nil, err
	}
	res.junit = junit
	ran := outcomes(report)
	return ran, contradiction(status, ran)
}
