// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration proves the eviction on a real etcd and API server, with kwok where pods
// must disappear: in process, and as the binary that users run.
//
// All tests share one cluster. An Evictor sees the whole of it, so a test that needs one of its own
// runs alone; the others run in parallel with one Evictor that they share (scene_test.go).
package integration

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
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

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

// start starts the cluster and what observes it.
func start(ctx context.Context, shared *suite.Suite) error {
	if err := suite.WaitTogether(16); err != nil {
		return err
	}
	if err := startCluster(ctx, shared); err != nil {
		return err
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	shared.Finally(func() error { cancel(); return nil })
	shared.Finally(stopResident)
	var err error
	if recorded, err = record(watching, admin); err != nil {
		return err
	}
	shared.Finally(checkRights)
	return nil
}

// startCluster starts the control plane and makes the clients of those who take part.
func startCluster(ctx context.Context, shared *suite.Suite) error {
	var err error
	cluster, admin, err = shared.StartCluster(ctx, localcluster.Config{
		Without: []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler},
		Audit:   auditlog.Changes,
	})
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog(), auditlog.By(user))
	if userConfig, err = cluster.TaintkeeperAccess(); err != nil {
		return err
	}
	return cluster.GrantTaintkeeper(ctx)
}
