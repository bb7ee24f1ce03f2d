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
	"github.com/taintkeeper/taintkeeper/test/rig/workloads"
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
func start(ctx context.Context, shared *suite.Suite) (err error) {
	if plugin, err = suite.Build(ctx, shared.Dir, "kubectl-taintkeeper"); err != nil {
		return err
	}
	cluster, admin, objects, kubeconfig, err = workloads.Start(ctx, shared, localcluster.Config{Audit: auditlog.Calls}, nodes())
	return err
}

func nodes() []localcluster.NodeSpec {
	var all []localcluster.NodeSpec
	for i := range 9 {
		all = append(all, localcluster.NodeSpec{Name: fmt.Sprintf("node-%d", i), Zone: string(rune('a' + i%3))})
	}
	return all
}
