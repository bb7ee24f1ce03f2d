// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stops proves that no stop of Taintkeeper deletes a pod that should stay. It plays storms on a real control plane
// whose kube-controller-manager runs with its defaults, ends Taintkeeper in the middle of the built-in's backlog, and
// judges by the audit log every pod that the built-in deletes until that backlog is over.
package stops

import (
	"context"
	"flag"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// What make stops asks for.
var (
	due     = flag.Int("pods", 160, "how many pods are due at once")
	only    = flag.String("only", "", "play only the scenes whose names contain this")
	program = flag.String("taintkeeper", "", "the program to test; by default it is built from these sources")
	manager = flag.String("settable-kube-controller-manager", "", "a kube-controller-manager with a wall clock that can be set")
)

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	binary  string
	audit   *auditlog.Log
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

func start(ctx context.Context, shared *suite.Suite) error {
	var err error
	if binary = *program; binary == "" {
		if binary, err = suite.Build(ctx, shared.Dir, "taintkeeper"); err != nil {
			return err
		}
	}
	cluster, admin, err = shared.StartCluster(ctx, localcluster.Config{
		TaintEviction: localcluster.BuiltInOn,
		Audit:         auditlog.Changes,
	})
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog())
	return cluster.InstallResources(ctx)
}
