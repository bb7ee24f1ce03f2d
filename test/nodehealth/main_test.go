// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealth proves node-health on a real control plane whose node-lifecycle-controller is off:
// kubelets that renew their leases, or do not, and bin/taintkeeper as its service account.
//
// Every write of Taintkeeper's on a node is in the audit log, with what the node became by it. So the
// tests see each state that a taint had, also one that lasted a millisecond or fell into an outage.
//
// All tests share one cluster and each has it for itself: zones are a matter of all nodes there are.
package nodehealth

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	binary  string
	audit   *auditlog.Log // of the calls of Taintkeeper
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // there is no test yet
	defer stop()
	dir, err := os.MkdirTemp("", "taintkeeper-nodehealth-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	code := 1
	if err = start(ctx, dir); err == nil {
		code = m.Run()
		err = checkUsed()
	}
	if cluster != nil {
		err = errors.Join(err, cluster.Stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the tests of node health:", err)
		return 1
	}
	return code
}

// start builds the binary of these sources and starts a cluster in which nobody else taints or evicts.
func start(ctx context.Context, dir string) error {
	binary = filepath.Join(dir, "taintkeeper")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/taintkeeper/taintkeeper/cmd/taintkeeper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build taintkeeper: %w\n%s", err, output)
	}
	var err error
	cluster, err = localcluster.Start(context.WithoutCancel(ctx), localcluster.Config{
		// The tests are the kubelets: kwok renews no lease as exactly as they have to know it.
		Without:               []localcluster.Component{localcluster.Kwok},
		ControllerManagerArgs: []string{"--controllers=-node-lifecycle-controller"},
		Audit:                 auditlog.Changes,
	})
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog(), auditlog.By(localcluster.TaintkeeperUser))
	admin, err = kubernetes.NewForConfig(cluster.AdminConfig())
	return err
}

const (
	// grace is how long a node may be silent in these tests, startupGrace one that was never heard of.
	grace        = 6 * time.Second
	startupGrace = 8 * time.Second
	// patience is how late something may be on a machine that is busy with other things.
	patience = 20 * time.Second
	// reopens is how long it can take client-go to open a watch again after an outage: it waits longer each time, up to
	// half a minute.
	reopens = 30 * time.Second
	// waitLimit is how long a test waits before it gives up.
	waitLimit = time.Minute
	// lookAgain is how often a test looks whether what it waits for has happened.
	lookAgain = 25 * time.Millisecond
)
