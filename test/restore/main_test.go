// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore proves that Taintkeeper follows the state of an etcd that is restored from a snapshot while
// Taintkeeper runs, whether the restore bumps the revisions or lets them go back.
//
// The audit log is not part of etcd's data, so it knows the calls of before and after a restore.
package restore

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	binary  string
	audit   *auditlog.Log // of the calls of Taintkeeper
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

// start starts a control plane without kwok: a pod that is deleted keeps terminating until the test removes it.
func start(ctx context.Context, shared *suite.Suite) error {
	var err error
	if binary, err = suite.Build(ctx, shared.Dir, "taintkeeper"); err != nil {
		return err
	}
	cluster, admin, err = shared.StartCluster(ctx, localcluster.Config{
		Without: []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler, localcluster.Kwok},
		Audit:   auditlog.Changes,
	})
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog(), auditlog.By(localcluster.TaintkeeperUser))
	return cluster.GrantTaintkeeper(ctx) // before the first snapshot, so that every restored state has its rights
}
