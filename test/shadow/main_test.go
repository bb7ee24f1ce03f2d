// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadow proves the shadow mode next to the real built-in taint-eviction-controller: on a real control plane
// whose kube-controller-manager runs with its defaults, with a taintkeeper that has no right but to look, and to
// write events and its report.
//
// All tests share one cluster, and each has nodes for itself.
package shadow

import (
	"context"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// onlooker is who the shadow is for the API server. It has the rights that docs/shadow-mode.md names.
const onlooker = "shadow-onlooker"

// What all tests share, set once by TestMain.
var (
	cluster *localcluster.Cluster
	admin   kubernetes.Interface
	binary  string
	stage   rig.Scene
	audit   *auditlog.Log
)

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
	stage = rig.Scene{Admin: admin, Namespace: metav1.NamespaceDefault}
	return grant(ctx)
}

// grant gives the onlooker its rights.
func grant(ctx context.Context) error {
	_, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: onlooker},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{v1alpha1.ShadowConfigMap}, Verbs: []string{"create", "patch"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: onlooker},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: onlooker},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: onlooker}},
	}, metav1.CreateOptions{})
	return err
}
