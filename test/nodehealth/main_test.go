// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealth proves node-health on a real control plane whose node-lifecycle-controller is off:
// kubelets that renew their leases, or do not, and bin/taintkeeper as its service account.
//
// Every write of a node by Taintkeeper is in the audit log, with the resulting node. So the tests see each state that a
// taint had, even one that lasted a millisecond or fell into an outage.
//
// All tests share one cluster, and each has it to itself, because the state of a zone depends on all its nodes.
package nodehealth

import (
	"context"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/observer"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	binary  string
	audit   *auditlog.Log  // of the calls of Taintkeeper
	seen    *observer.Pods // of all namespaces
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m, start)) }

// start builds the binary of these sources and starts a cluster in which nothing else taints or evicts.
func start(ctx context.Context, shared *suite.Suite) error {
	var err error
	if binary, err = suite.Build(ctx, shared.Dir, "taintkeeper"); err != nil {
		return err
	}
	cluster, admin, err = shared.StartCluster(ctx, localcluster.Config{
		// The tests are the kubelets: kwok does not renew leases at instants as exact as they need.
		Without:               []localcluster.Component{localcluster.Kwok},
		ControllerManagerArgs: []string{"--controllers=-node-lifecycle-controller"},
		Audit:                 auditlog.Changes,
	})
	if err != nil {
		return err
	}
	audit = auditlog.New(cluster.AuditLog(), auditlog.By(localcluster.TaintkeeperUser))
	shared.Finally(checkUsed)
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	shared.Finally(func() error { stop(); return nil })
	seen, err = observer.WatchPods(watch, admin, metav1.NamespaceAll)
	return err
}
