// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// elsewhere is a namespace that is not kube-system. The audit policy knows it.
const elsewhere = "platform"

// clusterName returns the name of a cluster-scoped object of a release.
func clusterName(namespace, name string) string {
	if namespace == metav1.NamespaceSystem {
		return name
	}
	return name + "." + namespace
}

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
	return startPlane(t, localcluster.Config{
		TaintEviction: localcluster.BuiltInOn,
		Without:       append(without, localcluster.Scheduler),
		Audit:         auditlog.Changes,
	})
}

// newAPIServer is an API server that serves MutatingAdmissionPolicy, with flags and without controllers.
func newAPIServer(t *testing.T, flags ...string) *plane {
	t.Helper()
	p := startPlane(t, localcluster.Config{
		Without:       []localcluster.Component{localcluster.ControllerManager, localcluster.Scheduler, localcluster.Kwok},
		APIServerArgs: flags,
	})
	p.needPolicies(t)
	return p
}

func startPlane(t *testing.T, config localcluster.Config) *plane {
	t.Helper()
	suite.SilenceLogs()
	config.Binaries = binaries(root)
	config.APIServerArgs = append(mutatingPoliciesOn(t), config.APIServerArgs...)
	cluster, err := localcluster.Start(context.WithoutCancel(t.Context()), config)
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, cluster.Stop()) })
	p := &plane{Cluster: cluster, audit: auditlog.New(cluster.AuditLog())}
	p.admin, err = kubernetes.NewForConfig(cluster.AdminConfig())
	await.Must(t, err)
	p.objects, err = dynamic.NewForConfig(cluster.AdminConfig())
	await.Must(t, err)
	return p
}

// mutatingPoliciesOn are the flags with which an API server serves MutatingAdmissionPolicy. Kubernetes 1.36 needs none.
func mutatingPoliciesOn(t *testing.T) []string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), filepath.Join(binaries(root), string(localcluster.APIServer)), "--version").Output()
	await.Must(t, err)
	of, err := version.ParseGeneric(strings.TrimSpace(strings.TrimPrefix(string(output), "Kubernetes ")))
	await.Must(t, err)
	if of.AtLeast(version.MajorMinor(1, 36)) {
		return nil
	}
	return []string{"--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true"}
}

const mutatingPolicy = "MutatingAdmissionPolicy"

// mutatingVersion is the version in which the API server serves MutatingAdmissionPolicy, or empty.
func (p *plane) mutatingVersion(t *testing.T) string {
	t.Helper()
	for _, version := range []string{"v1", "v1beta1"} {
		all, err := p.admin.Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/" + version)
		if apierrors.IsNotFound(err) {
			continue
		}
		await.Must(t, err)
		if slices.ContainsFunc(all.APIResources, func(r metav1.APIResource) bool { return r.Kind == mutatingPolicy }) {
			return version
		}
	}
	return ""
}

// needPolicies skips a test if the API server does not serve MutatingAdmissionPolicy, after checking what the chart
// says then.
func (p *plane) needPolicies(t *testing.T) {
	t.Helper()
	if p.mutatingVersion(t) != "" {
		return
	}
	p.makePlaces(t, map[string]place{elsewhere: {}})
	if err := p.release(t, elsewhere, helm4).install(t, everyPolicy); err == nil || !strings.Contains(err.Error(), notServed) {
		t.Errorf("the chart says %v", err)
	}
	t.Skip("the API server does not serve MutatingAdmissionPolicy")
}

// admission reads and writes admission policies or bindings of a kind, in the version that the API server serves.
func (p *plane) admission(t *testing.T, kind string) dynamic.ResourceInterface {
	t.Helper()
	version := "v1"
	if strings.HasPrefix(kind, mutatingPolicy) {
		version = p.mutatingVersion(t)
	}
	served := schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: version, Kind: kind}
	resource, _ := meta.UnsafeGuessKindToResource(served)
	return p.objects.Resource(resource)
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
