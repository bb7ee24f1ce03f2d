// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// elsewhere is a namespace that is not kube-system. The audit policy knows it.
const elsewhere = "platform"

// plane is a control plane like any other, with the built-in taint eviction on.
type plane struct {
	*localcluster.Cluster

	admin   kubernetes.Interface
	objects dynamic.Interface
	audit   *auditlog.Log
}

// binaries is where the control plane is, seen from this Go module.
func binaries(root string) string {
	folder := localcluster.DefaultBinaries()
	if filepath.IsAbs(folder) {
		return folder
	}
	return filepath.Join(root, folder)
}

func newPlane(t *testing.T, without ...localcluster.Component) *plane {
	t.Helper()
	suite.SilenceLogs()
	cluster, err := localcluster.Start(context.WithoutCancel(t.Context()), localcluster.Config{
		Binaries:      binaries(root),
		TaintEviction: localcluster.BuiltInOn,
		Without:       append(without, localcluster.Scheduler),
		Audit:         auditlog.Changes,
	})
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, cluster.Stop()) })
	p := &plane{Cluster: cluster, audit: auditlog.New(cluster.AuditLog())}
	p.admin, err = kubernetes.NewForConfig(cluster.AdminConfig())
	await.Must(t, err)
	p.objects, err = dynamic.NewForConfig(cluster.AdminConfig())
	await.Must(t, err)
	return p
}

// makeNamespace makes a namespace, and returns when the control plane has put into it what every namespace has.
func (p *plane) makeNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := p.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		await.Must(t, err)
	}
	await.Eventually(t, "the namespace is complete", func(ctx context.Context) error {
		if _, err := p.admin.CoreV1().ConfigMaps(name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := p.admin.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}
