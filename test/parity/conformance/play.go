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
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/process"
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
	var managerArgs []string
	if res.off != "" {
		managerArgs = []string{"--controllers=" + res.off}
	}
	cluster, err := localcluster.Start(ctx, localcluster.Config{
		Dir: res.state, TaintEviction: res.builtIn, ControllerManagerArgs: managerArgs,
		Audit: auditlog.Calls, Log: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := prepare(ctx, cluster); err != nil {
		return nil, err
	}
	stop := func() error { return nil }
	if res.ours != nil {
		keeper, err := cluster.StartTaintkeeper(ctx, *res.ours)
		if err != nil {
			return nil, err
		}
		stop = keeper.Stop
	}
	ran, err = s.playSpecs(ctx, cluster, folder, res)
	err = errors.Join(err, stop())
	if res.allOurs {
		err = errors.Join(err, allOurs(cluster.AuditLog()))
	}
	return ran, err
}

// agentName makes a node complete in the eyes of upstream. Before each spec it waits for a minute for three pods to run
// in kube-system on every node, by parts of their names, and continues without them after that.
const agentName = "kube-proxy-fluentd-elasticsearch-node-problem-detector"

// agentTimeout is generous: the machine may be busy with a build.
const agentTimeout = 2 * time.Minute

// prepare gives the cluster its nodes, and each of them an agent that runs and tolerates every taint, so that no spec
// disturbs it. Two nodes would do: one that is tainted, one that is not.
func prepare(ctx context.Context, cluster *localcluster.Cluster) error {
	nodes := []localcluster.NodeSpec{{Name: "node-1"}, {Name: "node-2"}, {Name: "node-3"}}
	if err := cluster.AddNodes(ctx, nodes...); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		return fmt.Errorf("make a client for the API server: %w", err)
	}
	labels := map[string]string{"app": "agent"}
	daemons := client.AppsV1().DaemonSets(metav1.NamespaceSystem)
	_, err = daemons.Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: agentName},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers:  []corev1.Container{{Name: "agent", Image: "agent"}},
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the agents of the nodes: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second/5, agentTimeout, true, func(ctx context.Context) (bool, error) {
		set, err := daemons.Get(ctx, agentName, metav1.GetOptions{})
		return err == nil && int(set.Status.NumberReady) == len(nodes), err
	})
	if err != nil {
		return fmt.Errorf("wait for the agents of %d nodes: %w", len(nodes), err)
	}
	return nil
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

const (
	// specsTimeout bounds the specs of a run. Where nobody evicts they wait for ten minutes in all.
	specsTimeout = 40 * time.Minute
	// outputGrace is how long the output of a process that was killed may stay open.
	outputGrace = 5 * time.Second
)

// playSpecs runs upstream's binary against the cluster, and returns what it reports.
func (s suite) playSpecs(
	ctx context.Context, cluster *localcluster.Cluster, folder string, res *result,
) ([]outcome, error) {
	kubeconfig, err := cluster.Kubeconfig("admin", cluster.AdminConfig())
	if err != nil {
		return nil, err
	}
	res.log = filepath.Join(folder, "e2e.log")
	progress("%s: %d specs, one after the other; their log is %s", res.name, len(specs), res.log)
	reports := filepath.Join(cluster.Dir(), "reports")
	home := filepath.Join(cluster.Dir(), "home")
	status, err := s.runE2E(ctx, home, res.log, "--kubeconfig="+kubeconfig, "--report-dir="+reports)
	if err != nil {
		return nil, err
	}
	ran, err := readReport(filepath.Join(reports, "junit_01.xml"))
	if err != nil {
		return nil, fmt.Errorf("%w (e2e.test ended with %s, its log is %s)", err, status, res.log)
	}
	return ran, nil
}

// runE2E runs upstream's binary to its end, in a home directory of its own, and returns how it ended. That specs fail
// is no error. At the end of ctx it is killed with all that it has started: what it would clean up goes with the
// cluster.
func (s suite) runE2E(ctx context.Context, home, logFile string, args ...string) (*os.ProcessState, error) {
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, fmt.Errorf("create a home directory for e2e.test: %w", err)
	}
	log, err := os.Create(logFile)
	if err != nil {
		return nil, fmt.Errorf("make the log of e2e.test: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(s.e2e, append(args,
		"--provider=skeleton", // no cloud
		"--kubectl-path="+s.kubectl,
		"--e2e-output-dir="+home,
		"--ginkgo.v",
		"--ginkgo.no-color",
		"--ginkgo.silence-skips",
		"--ginkgo.seed=1", // the same order in every run
		"--ginkgo.timeout="+specsTimeout.String())...)
	for _, expression := range focus() {
		cmd.Args = append(cmd.Args, "--ginkgo.focus="+expression)
	}
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home) // kubectl would write into the user's
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = outputGrace
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
