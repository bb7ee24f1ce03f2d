// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e plays at least one story for every promise of the README and of docs/proofs.md on one real control plane,
// with the programs that users run and the rights of config/rbac.yaml. make test runs it; make proofs runs everything
// else that needs a control plane.
//
// The stories are grouped by who takes part (a cast): kube-controller-manager runs with or without its own eviction and
// node health, and Taintkeeper as one process or as two replicas. Each story has a namespace and nodes for itself. One in
// which a program is restarted, or which needs all nodes, is played alone; the others side by side.
package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	objects client.Client // the administrator's, also for our resources
	onStage *scenario.Real
	// The programs, built from these sources, and how the plugin reaches the cluster.
	keeper, plugin, kubeconfig string
)

// version is what taintkeeper says that it is.
const version = "v9.8.7"

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

func start(ctx context.Context, shared *suite.Suite) error {
	if err := suite.WaitTogether(16); err != nil {
		return err
	}
	var err error
	if keeper, err = suite.Build(ctx, shared.Dir, "taintkeeper", "-ldflags=-X main.version="+version); err != nil {
		return err
	}
	if plugin, err = suite.Build(ctx, shared.Dir, "kubectl-taintkeeper"); err != nil {
		return err
	}
	cluster, _, err = shared.StartCluster(ctx, localcluster.Config{
		TaintEviction: localcluster.BuiltInOn, Audit: auditlog.Changes, NodeLeaseSeconds: leaseSeconds,
		APIServerArgs: []string{"--enable-admission-plugins=NodeRestriction"},
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
	if kubeconfig, err = cluster.Kubeconfig("plugin", cluster.AdminConfig()); err != nil {
		return err
	}
	shared.Finally(checkRights)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	shared.Finally(func() error { stop(); return nil })
	onStage, err = scenario.NewReal(watching, cluster, localcluster.TaintkeeperUser)
	return err
}

// notAskedFor are rights that this API server does not ask for: unlike older ones, it streams lists by a watch. What a
// patch creates, it creates with the right to create, too, but the audit log does not say so.
var notAskedFor = []string{
	"list pods", "list nodes", "list namespaces", "list poddisruptionbudgets", "list nodetaintrules", "list evictionpolicies",
	"list leases in kube-node-lease", "create leases/taintkeeper.dev in kube-node-lease",
	"create leases/dry-run.taintkeeper.dev in kube-node-lease", "create configmaps/taintkeeper-shadow in kube-system",
}

// checkRights checks that no right of config/rbac.yaml, which is the chart's, is there for nothing. It can only say so
// after all tests.
func checkRights() error {
	if !suite.Whole() || testing.Short() {
		return nil
	}
	calls, err := onStage.Calls(func(c auditlog.Event) bool { return c.Code != http.StatusForbidden })
	if err != nil {
		return err
	}
	manifests, err := config.Objects(config.RBAC)
	if err != nil {
		return err
	}
	unused := slices.DeleteFunc(auditlog.UnusedRights(manifests, calls), func(right auditlog.Right) bool {
		return slices.Contains(notAskedFor, right.String())
	})
	if len(unused) > 0 {
		return fmt.Errorf("charts/taintkeeper/templates/rbac.yaml gives rights that nothing used: %v", unused)
	}
	return nil
}
