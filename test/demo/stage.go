// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/observer"
)

// runningTimeout is how long the workloads may take to run, at the beginning and after an act.
const runningTimeout = 2 * time.Minute

// stage is a cluster with taintkeeper and the workloads in it, and a screen to tell of it.
type stage struct {
	screen
	dir        string
	version    string // of Kubernetes
	kubeconfig string // the administrator's
	cluster    *localcluster.Cluster
	client     kubernetes.Interface
	binary     string // taintkeeper
	plugin     string // kubectl-taintkeeper, beside it
	keeper     *localcluster.Taintkeeper
	seen       *observer.Pods
	ledger     ledger

	// unwatch ends the observer's watch.
	unwatch context.CancelFunc
}

// stateDir is the state folder of the cluster, with its logs.
func (s *stage) stateDir() string { return filepath.Join(s.dir, "cluster") }

// errInterrupted is why a stage was taken down that did not fail.
var errInterrupted = errors.New("interrupted")

// present sets up a stage, lets show use it, and takes it down again. The state folder is kept when something failed.
func present(ctx context.Context, told screen, binary string, show func(context.Context, *stage) error) error {
	dir, err := os.MkdirTemp("", "taintkeeper-demo-")
	if err != nil {
		return fmt.Errorf("make a state folder: %w", err)
	}
	s := &stage{screen: told, dir: dir, unwatch: func() {}}
	if err = s.setUp(ctx, binary); err == nil {
		err = show(ctx, s)
	}
	if err != nil && ctx.Err() != nil {
		err = errInterrupted // whatever failed then, failed because of it
	}
	return s.takeDown(err)
}

// setUp starts everything, and returns once all pods run.
func (s *stage) setUp(ctx context.Context, binary string) error {
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("find taintkeeper: %w; build it with `make build`", err)
	}
	if err := s.startCluster(ctx); err != nil {
		return err
	}
	s.binary, s.plugin = binary, filepath.Join(filepath.Dir(binary), "kubectl-taintkeeper")
	if err := s.startKeeper(ctx); err != nil {
		return err
	}
	return s.startWorkloads(ctx)
}

// startCluster starts a cluster that outlives ctx, so that the stage is taken down in order also after Ctrl-C.
func (s *stage) startCluster(ctx context.Context) error {
	progress("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok ...")
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	giveUp := context.AfterFunc(ctx, cancel)
	defer giveUp()
	cluster, err := localcluster.Start(lasting, localcluster.Config{
		Dir: s.stateDir(), Log: os.Stderr,
		Audit:                 auditlog.Changes,
		ControllerManagerArgs: []string{"--controllers=-node-lifecycle-controller"},
		APIServerArgs: []string{
			fmt.Sprintf("--default-unreachable-toleration-seconds=%d", int(tolerated.Seconds())),
			fmt.Sprintf("--default-not-ready-toleration-seconds=%d", int(tolerated.Seconds())),
		},
		NodeLeaseSeconds: leaseSeconds,
	})
	if err != nil {
		cancel()
		return err
	}
	s.cluster = cluster
	s.ledger = ledger{auditlog.New(cluster.AuditLog())}
	if s.kubeconfig, err = cluster.Kubeconfig("admin", cluster.AdminConfig()); err != nil {
		return err
	}
	if s.client, err = kubernetes.NewForConfig(cluster.AdminConfig()); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	version, err := s.client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	s.version = version.GitVersion
	progress("adding %d nodes in three zones ...", len(nodes))
	return cluster.AddNodes(ctx, nodes...)
}

func (s *stage) startKeeper(ctx context.Context) error {
	progress("applying config/rbac.yaml and starting taintkeeper ...")
	var err error
	s.keeper, err = s.cluster.StartTaintkeeper(ctx, localcluster.TaintkeeperConfig{
		Binary: s.binary,
		Args:   append([]string{"--controllers=*"}, healthFlags...),
	})
	return err
}

func (s *stage) startWorkloads(ctx context.Context) error {
	progress("starting the workloads ...")
	watching, cancel := context.WithCancel(ctx)
	s.unwatch = cancel
	var err error
	if s.seen, err = observer.WatchPods(watching, s.client, namespace); err != nil {
		return err
	}
	if err := s.create(ctx, workloads()); err != nil {
		return fmt.Errorf("create the workloads: %w", err)
	}
	wanted := maps.Clone(lasting)
	for _, pod := range barePods() {
		wanted[pod.Name] = 1
	}
	return s.waitRunning(ctx, wanted)
}

func (s *stage) create(ctx context.Context, objects []client.Object) error {
	writer, err := client.New(s.cluster.AdminConfig(), client.Options{})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	for _, object := range objects {
		if err := writer.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// waitRunning returns once the wanted number of pods run, by the label app.
func (s *stage) waitRunning(ctx context.Context, wanted map[string]int) error {
	ctx, cancel := context.WithTimeout(ctx, runningTimeout)
	defer cancel()
	tick := time.NewTicker(framePeriod)
	defer tick.Stop()
	for {
		missing := missing(sightings(s.seen), wanted)
		if len(missing) == 0 {
			return nil
		}
		if err := s.wait(ctx, tick.C); err != nil {
			return fmt.Errorf("wait for pods to run (%s): %w", strings.Join(missing, ", "), err)
		}
	}
}

// missing says of which workloads fewer or more pods run than are wanted.
func missing(seen []sighting, wanted map[string]int) []string {
	running := map[string]int{}
	for _, s := range seen {
		if s.running() {
			running[s.pod.Labels["app"]]++
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if running[name] != wanted[name] {
			lines = append(lines, fmt.Sprintf("%s: %d of %d", name, running[name], wanted[name]))
		}
	}
	return lines
}

// takeDown ends everything, taintkeeper first. It returns why the demo failed, if it did, and where to look then.
func (s *stage) takeDown(cause error) error {
	s.unwatch()
	var ending []error
	if s.keeper != nil {
		ending = append(ending, s.keeper.Stop())
	}
	if s.cluster != nil {
		ending = append(ending, s.cluster.Stop())
	}
	failed := errors.Join(ending...)
	if !errors.Is(cause, errInterrupted) {
		failed = errors.Join(cause, failed)
	}
	if failed != nil {
		return fmt.Errorf("%w\nThe logs are in %s", failed, s.stateDir())
	}
	return errors.Join(cause, os.RemoveAll(s.dir))
}

// progress tells on standard error what is being started: the story has standard output to itself.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
