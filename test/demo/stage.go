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
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// stage is a cluster with taintkeeper in it, and a screen to report it.
type stage struct {
	screen
	*scenario.Real
	dir        string
	kubeconfig string // the administrator's
	cluster    *localcluster.Cluster
	binary     string // taintkeeper
	plugin     string // kubectl-taintkeeper, next to it
	keeper     *localcluster.Taintkeeper

	// Of the act that is played:
	began     time.Time
	rows      []scenario.Row // at its end
	foresight foresight      // the newest

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
		err = errInterrupted // whatever failed then failed because of the interrupt
	}
	return s.takeDown(err)
}

// setUp starts the cluster and taintkeeper.
func (s *stage) setUp(ctx context.Context, binary string) error {
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("find taintkeeper: %w; build it with `make build`", err)
	}
	if err := s.startCluster(ctx); err != nil {
		return err
	}
	s.binary, s.plugin = binary, filepath.Join(filepath.Dir(binary), "kubectl-taintkeeper")
	return s.startKeeper(ctx)
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
	if s.kubeconfig, err = cluster.Kubeconfig("admin", cluster.AdminConfig()); err != nil {
		return err
	}
	watching, unwatch := context.WithCancel(lasting)
	s.unwatch = unwatch
	s.Real, err = scenario.NewReal(watching, cluster, localcluster.TaintkeeperUser)
	return err
}

func (s *stage) startKeeper(ctx context.Context) error {
	progress("applying config/rbac.yaml and starting taintkeeper ...")
	var err error
	s.keeper, err = s.cluster.StartTaintkeeper(ctx, localcluster.TaintkeeperConfig{
		Binary: s.binary,
		Args:   append([]string{"--controllers=*", "--leader-elect=true"}, healthFlags...), // status reads its Lease
	})
	return err
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
