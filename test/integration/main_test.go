// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration proves the eviction on a real etcd and API server, with kwok where pods
// have to disappear: in process, and as the binary that users run.
//
// All tests share one cluster. An Evictor sees the whole of it, so a test that needs one of its own
// runs alone; the others run side by side beside one Evictor that they share (scene_test.go).
package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// user is who our controller is for the API server, in process and as a binary; its rights are
// those of config/rbac.yaml.
const user = localcluster.TaintkeeperUser

// What all tests share, set once by TestMain.
var (
	cluster    *localcluster.Cluster
	admin      kubernetes.Interface
	userConfig *rest.Config
	recorded   *recorder
	audit      auditLog
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	silenceLogs()
	if err := waitTogether(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // there is no test yet
	defer stop()
	stopAll, err := start(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start what the integration tests share:", errors.Join(err, stopAll()))
		return 1
	}
	code := m.Run()
	if err := checkRights(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if err := stopAll(); err != nil {
		fmt.Fprintln(os.Stderr, "stop what the integration tests share:", err)
		return max(code, 1)
	}
	return code
}

// silenceLogs keeps client-go and controller-runtime from writing into the output of the tests. Those
// that are about logs bring a logger of their own.
func silenceLogs() {
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
}

// waitTogether lets more tests run at once than there are processors: they wait for deadlines
// most of the time, and compute little. A -parallel of the user's wins.
func waitTogether() error {
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return nil
	}
	return flag.Set("test.parallel", "16")
}

// start starts the cluster and what observes it. What it returns stops everything that was
// started, also after an error.
func start(ctx context.Context) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	dir, err := os.MkdirTemp("", "taintkeeper-integration-")
	if err != nil {
		return func() error { cancel(); return nil }, err
	}
	var watching sync.WaitGroup
	stop = func() error {
		stopResident()
		cancel()
		watching.Wait()
		if cluster == nil {
			return os.RemoveAll(dir)
		}
		return errors.Join(cluster.Stop(), os.RemoveAll(dir))
	}
	if err := startCluster(context.WithoutCancel(ctx), dir); err != nil {
		return stop, err
	}
	watching.Go(func() { recorded.run(ctx) })
	return stop, recorded.waitForSync(ctx)
}

// startCluster starts the control plane and makes the clients of those who take part.
func startCluster(ctx context.Context, dir string) error {
	policy, err := writeAuditPolicy(dir)
	if err != nil {
		return err
	}
	cluster, err = localcluster.Start(ctx, localcluster.Config{
		Without:       []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler},
		Audit:         true,
		APIServerArgs: []string{"--audit-policy-file=" + policy},
	})
	if err != nil {
		return err
	}
	audit = auditLog{localcluster.NewAuditLog(cluster.AuditLog())}
	if admin, err = kubernetes.NewForConfig(cluster.AdminConfig()); err != nil {
		return err
	}
	if userConfig, err = cluster.TaintkeeperAccess(); err != nil {
		return err
	}
	recorded = newRecorder(admin)
	return cluster.GrantTaintkeeper(ctx)
}

func writeAuditPolicy(dir string) (path string, err error) {
	path = filepath.Join(dir, "audit-policy.yaml")
	return path, os.WriteFile(path, []byte(auditPolicy), 0o600)
}
