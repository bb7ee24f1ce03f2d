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
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
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

// checkRights checks that the rights are used that only node health and shadow mode have. test/integration sees the
// other rights used.
func checkRights() error {
	if !suite.Whole() {
		return nil
	}
	calls, err := onStage.Calls(auditlog.Accepted)
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}}}
	leases := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease},
		Rules: []rbacv1.PolicyRule{
			{Resources: []string{"leases"}, Verbs: []string{"watch"}}, // an older API server wants lists, too
			{Resources: []string{"leases"}, ResourceNames: []string{v1alpha1.NodeHealthLease}, Verbs: []string{"patch"}},
			{Resources: []string{"namespaces"}, ResourceNames: []string{corev1.NamespaceNodeLease}, Verbs: []string{"get"}},
		},
	}
	report := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem},
		Rules: []rbacv1.PolicyRule{
			{Resources: []string{"configmaps"}, ResourceNames: []string{v1alpha1.ShadowConfigMap}, Verbs: []string{"patch"}},
		},
	}
	if unused := auditlog.UnusedRights([]config.Object{role, leases, report}, calls); len(unused) > 0 {
		return fmt.Errorf("charts/taintkeeper/templates/rbac.yaml gives rights that nothing used: %v", unused)
	}
	return nil
}
