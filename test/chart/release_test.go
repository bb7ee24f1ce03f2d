// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"log/slog"
	"strconv"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// release is a release in a cluster, as Helm keeps it.
type release struct {
	config    *action.Configuration
	name      string
	namespace string
	// serverSide says whether objects are applied by the API server, as Helm 4 does, or by Helm, as Helm 3 does.
	serverSide bool
	// takesOwnership is Helm's flag --take-ownership.
	takesOwnership bool
}

func (p *plane) release(t *testing.T, namespace string, serverSide bool) *release {
	t.Helper()
	kubeconfig, err := p.Kubeconfig("helm", p.AdminConfig())
	await.Must(t, err)
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &kubeconfig, &namespace, new(t.TempDir())
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	await.Must(t, config.Init(flags, namespace, ""))
	return &release{config: config, name: "taintkeeper", namespace: namespace, serverSide: serverSide}
}

func (r *release) install(t *testing.T, v values) error {
	t.Helper()
	install := action.NewInstall(r.config)
	install.ReleaseName, install.Namespace, install.TakeOwnership = r.name, r.namespace, r.takesOwnership
	install.ServerSideApply, install.WaitStrategy = r.serverSide, kube.HookOnlyStrategy
	_, err := install.Run(load(t), v.plain())
	return err
}

// upgrade changes the release as the notes say: what was chosen before stays.
func (r *release) upgrade(t *testing.T, v values) {
	t.Helper()
	upgrade := action.NewUpgrade(r.config)
	upgrade.Namespace, upgrade.ResetThenReuseValues = r.namespace, true
	upgrade.ServerSideApply, upgrade.WaitStrategy = strconv.FormatBool(r.serverSide), kube.HookOnlyStrategy
	_, err := upgrade.Run(r.name, load(t), v.plain())
	await.Must(t, err)
}

// rollback goes back to a revision. Helm can apply it by itself only because no mode takes an object away that it keeps.
func (r *release) rollback(t *testing.T, revision int) {
	t.Helper()
	rollback := action.NewRollback(r.config)
	rollback.Version = revision
	rollback.ServerSideApply, rollback.WaitStrategy = strconv.FormatBool(r.serverSide), kube.HookOnlyStrategy
	await.Must(t, rollback.Run(r.name))
}

func (r *release) uninstall(t *testing.T) {
	t.Helper()
	uninstall := action.NewUninstall(r.config)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	_, err := uninstall.Run(r.name)
	await.Must(t, err)
}

// kept returns what holds the built-in off, which Helm keeps when the release goes.
func (r *release) kept() []string {
	name := clusterName(r.namespace, policy)
	return []string{
		"ValidatingAdmissionPolicy /" + name, "ValidatingAdmissionPolicyBinding /" + name,
		"ServiceAccount " + r.namespace + "/" + clock,
	}
}
