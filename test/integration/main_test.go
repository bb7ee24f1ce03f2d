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
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
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
	audit      *auditlog.Log // of the calls of our user
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
	var watching sync.WaitGroup
	stop = func() error {
		stopResident()
		cancel()
		watching.Wait()
		if cluster == nil {
			return nil
		}
		return cluster.Stop()
	}
	if err := startCluster(context.WithoutCancel(ctx)); err != nil {
		return stop, err
	}
	watching.Go(func() { recorded.run(ctx) })
	return stop, recorded.waitForSync(ctx)
}

// startCluster starts the control plane and makes the clients of those who take part.
func startCluster(ctx context.Context) error {
	var err error
	cluster, err = localcluster.Start(ctx, localcluster.Config{
		Without: []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler},
		Audit:   auditlog.Changes,
	})
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog(), auditlog.By(user))
	if admin, err = kubernetes.NewForConfig(cluster.AdminConfig()); err != nil {
		return err
	}
	if userConfig, err = cluster.TaintkeeperAccess(); err != nil {
		return err
	}
	recorded = newRecorder(admin)
	return cluster.GrantTaintkeeper(ctx)
}
