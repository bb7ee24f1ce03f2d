// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan proves that a plan comes true: on a real control plane kubectl taintkeeper says who leaves, when and where
// to, then the taints are set, and what happens is compared with what was said.
package plan

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

var (
	rounds = flag.Int("rounds", 3, "random clusters and sets of taints to play")
	seed   = flag.Uint64("seed", 0, "what chance draws; by default another one each time")
)

// What all rounds share, set once by TestMain.
var (
	cluster    *localcluster.Cluster
	admin      kubernetes.Interface
	plugin     string // the binary
	kubeconfig string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // there is no test yet
	defer stop()
	dir, err := os.MkdirTemp("", "taintkeeper-plan-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	code := 1
	if err = start(ctx, dir); err == nil {
		code = m.Run()
	}
	if cluster != nil {
		err = errors.Join(err, cluster.Stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start and stop the control plane:", err)
		return 1
	}
	return code
}

// start builds the binaries of these sources, and starts a cluster in which Taintkeeper evicts.
func start(ctx context.Context, dir string) error {
	for _, name := range []string{"taintkeeper", "kubectl-taintkeeper"} {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, name), "github.com/taintkeeper/taintkeeper/cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	plugin = filepath.Join(dir, "kubectl-taintkeeper")
	var err error
	if cluster, err = localcluster.Start(context.WithoutCancel(ctx), localcluster.Config{Audit: auditlog.Calls}); err != nil {
		return err
	}
	if admin, err = kubernetes.NewForConfig(cluster.AdminConfig()); err != nil {
		return err
	}
	if kubeconfig, err = cluster.Kubeconfig("planner", cluster.AdminConfig()); err != nil {
		return err
	}
	if err := cluster.AddNodes(ctx, nodes()...); err != nil {
		return err
	}
	_, err = cluster.StartTaintkeeper(context.WithoutCancel(ctx), localcluster.TaintkeeperConfig{Binary: filepath.Join(dir, "taintkeeper")})
	return err
}

func nodes() []localcluster.NodeSpec {
	var all []localcluster.NodeSpec
	for i := range 9 {
		all = append(all, localcluster.NodeSpec{Name: fmt.Sprintf("node-%d", i), Zone: string(rune('a' + i%3))})
	}
	return all
}
