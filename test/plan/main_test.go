// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan proves that a plan comes true: on a real control plane kubectl taintkeeper lists which pods leave, when,
// and for which nodes; then the taints are set, and what happens is compared with the plan.
package plan

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// This many rounds of this seed must have everything that the test compares. Other seeds may leave something out.
const (
	defaultRounds = 3
	defaultSeed   = 1294
)

var (
	rounds = flag.Int("rounds", defaultRounds, "random clusters and sets of taints to play")
	seed   = flag.Uint64("seed", defaultSeed, "what chance draws")
)

// What all rounds share, set once by TestMain.
var (
	cluster    *localcluster.Cluster
	admin      kubernetes.Interface
	objects    client.Client
	plugin     string // the binary
	kubeconfig string
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

// start builds the binaries of these sources, and starts a cluster in which Taintkeeper evicts.
func start(ctx context.Context, shared *suite.Suite) error {
	keeper, err := suite.Build(ctx, shared.Dir, "taintkeeper")
	if err != nil {
		return err
	}
	if plugin, err = suite.Build(ctx, shared.Dir, "kubectl-taintkeeper"); err != nil {
		return err
	}
	if cluster, admin, err = shared.StartCluster(ctx, localcluster.Config{Audit: auditlog.Calls}); err != nil {
		return err
	}
	if kubeconfig, err = cluster.Kubeconfig("planner", cluster.AdminConfig()); err != nil {
		return err
	}
	if err := cluster.InstallResources(ctx); err != nil {
		return err
	}
	if objects, err = cluster.Client(); err != nil {
		return err
	}
	if err := cluster.AddNodes(ctx, nodes()...); err != nil {
		return err
	}
	_, err = cluster.StartTaintkeeper(context.WithoutCancel(ctx), localcluster.TaintkeeperConfig{Binary: keeper})
	return err
}

func nodes() []localcluster.NodeSpec {
	var all []localcluster.NodeSpec
	for i := range 9 {
		all = append(all, localcluster.NodeSpec{Name: fmt.Sprintf("node-%d", i), Zone: string(rune('a' + i%3))})
	}
	return all
}
