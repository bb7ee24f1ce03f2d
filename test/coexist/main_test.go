// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coexist proves that Taintkeeper evicts next to the built-in taint-eviction-controller, and that the built-in
// evicts again when Taintkeeper is gone: on a real control plane whose kube-controller-manager runs with its defaults,
// with config/coexistence.yaml in it. The audit log says who evicted which pod.
//
// All tests share one cluster, and each has a node and a namespace for itself.
package coexist

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	custom  client.Client
	binary  string
	audit   *auditlog.Log
)

// validFor is how long a renewal keeps the built-in from evicting.
const validFor = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

// start builds the binary of these sources and starts a cluster whose built-in controllers are all on.
func start(ctx context.Context, shared *suite.Suite) error {
	var err error
	if binary, err = suite.Build(ctx, shared.Dir, "taintkeeper"); err != nil {
		return err
	}
	cluster, admin, err = shared.StartCluster(ctx, localcluster.Config{
		TaintEviction: localcluster.BuiltInOn,
		Without:       []localcluster.Component{localcluster.Scheduler},
		Audit:         auditlog.Changes,
	})
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog())
	if custom, err = cluster.Client(); err != nil {
		return err
	}
	return cluster.InstallResources(ctx)
}
