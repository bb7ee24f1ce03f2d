// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package kubelets plays stories with real nodes: what containers see when their nodes are tainted, and what happens
// when a kubelet, a container runtime or a network fails. The control plane is real, too, with the Node authorizer and
// NodeRestriction.
//
// Every story has machines for itself (test/rig/kubelets). Where machines cannot run, each test is skipped with the
// reason.
package kubelets

import (
	"context"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	rig "github.com/taintkeeper/taintkeeper/test/rig/kubelets"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// What all tests share, set once by TestMain.
var (
	missing  string // why machines cannot run here
	cluster  *localcluster.Cluster
	objects  client.Client // the administrator's, also for our resources
	onStage  *scenario.Real
	machines *rig.Rig
	keeper   string // the program, built from these sources
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

// leaseSeconds is how long the lease of a node lasts. Kubelets renew it four times in that time.
const leaseSeconds = 8

func start(ctx context.Context, shared *suite.Suite) error {
	if missing = rig.Missing(ctx); missing != "" {
		return nil
	}
	if err := suite.WaitTogether(8); err != nil {
		return err
	}
	var err error
	if keeper, err = suite.Build(ctx, shared.Dir, "taintkeeper"); err != nil {
		return err
	}
	cluster, _, err = shared.StartCluster(ctx, localcluster.Config{
		TaintEviction: localcluster.BuiltInOn, Audit: auditlog.Changes, Without: []localcluster.Component{localcluster.Kwok},
		APIServerArgs: rig.APIServerArgs,
	})
	if err != nil {
		return err
	}
	if objects, err = cluster.Client(); err != nil {
		return err
	}
	if err := cluster.InstallResources(ctx); err != nil {
		return err
	}
	if machines, err = rig.Start(ctx, rig.Config{
		Binaries: cluster.Binaries(), LeaseSeconds: leaseSeconds, Kubeconfig: kubeconfig,
		APIServer: strings.TrimPrefix(cluster.AdminConfig().Host, "https://"),
	}); err != nil {
		return err
	}
	shared.Finally(func() error { return machines.Stop(ctx) })
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	shared.Finally(func() error { stop(); return nil })
	onStage, err = scenario.NewReal(watching, cluster, localcluster.TaintkeeperUser)
	return err
}

// kubeconfig makes the client configuration of a node.
func kubeconfig(user string, groups ...string) ([]byte, error) {
	access, err := cluster.ConfigFor(user, groups...)
	if err != nil {
		return nil, err
	}
	path, err := cluster.Kubeconfig(strings.ReplaceAll(user, ":", "-"), access)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
