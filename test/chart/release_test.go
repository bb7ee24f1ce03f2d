// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"maps"
	"strconv"
	"testing"

	"github.com/taintkeeper/taintkeeper/test/chart/helm"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

const root = "../.."

// release is a release in a cluster, as Helm keeps it.
type release struct {
	helm.Client

	name string
	// takesOwnership is Helm's flag --take-ownership.
	takesOwnership bool
}

// release returns a release that is managed by Helm 4, which lets the API server apply objects, or by Helm 3, which
// applies them itself.
func (p *plane) release(t *testing.T, namespace string, program string) *release {
	t.Helper()
	kubeconfig, err := p.Kubeconfig("helm", p.AdminConfig())
	await.Must(t, err)
	client := helm.Client{Root: root, Program: program, Kubeconfig: kubeconfig, Namespace: namespace}
	return &release{Client: client, name: "taintkeeper"}
}

const (
	helm4 = "helm"
	helm3 = "helm3"
)

func (r *release) install(t *testing.T, v values) error {
	t.Helper()
	_, err := r.Run(t.Context(), v.plain(), "install", r.name, r.Chart(), "--take-ownership="+strconv.FormatBool(r.takesOwnership))
	return err
}

// upgrade changes the release as the notes say: what was chosen before stays.
func (r *release) upgrade(t *testing.T, v values) {
	t.Helper()
	_, err := r.Run(t.Context(), v.plain(), "upgrade", r.name, r.Chart(), "--reset-then-reuse-values")
	await.Must(t, err)
}

// rollback goes back to a revision. Helm can do this without help only because no mode takes away an object that Helm
// keeps.
func (r *release) rollback(t *testing.T, revision int) {
	t.Helper()
	_, err := r.Run(t.Context(), nil, "rollback", r.name, strconv.Itoa(revision))
	await.Must(t, err)
}

func (r *release) uninstall(t *testing.T) {
	t.Helper()
	_, err := r.Run(t.Context(), nil, "uninstall", r.name)
	await.Must(t, err)
}

// manifest is what was installed.
func (r *release) manifest(t *testing.T) string {
	t.Helper()
	objects, err := r.Run(t.Context(), nil, "get", "manifest", r.name)
	await.Must(t, err)
	return objects
}

// kept returns what holds the built-in off, which Helm keeps when the release goes.
func (r *release) kept() []string {
	kept := []string{"ServiceAccount " + r.Namespace + "/" + clock}
	for _, name := range keptPolicies {
		name := clusterName(r.Namespace, name)
		kept = append(kept, "ValidatingAdmissionPolicy /"+name, "ValidatingAdmissionPolicyBinding /"+name)
	}
	return kept
}

// left is what an uninstall leaves according to the docs.
func (r *release) left() []string {
	left := append(r.kept(), "APIService /v1alpha1.taintkeeper.dev")
	for _, name := range ourResources {
		left = append(left, "CustomResourceDefinition /"+name)
	}
	return left
}

// values are values of the chart, as a user writes them.
type values map[string]any

// with returns the values merged with others, which take precedence.
func (v values) with(others values) values {
	merged := maps.Clone(v)
	for name, other := range others {
		inner, isMap := other.(values)
		if before, ok := merged[name].(values); ok && isMap {
			other = before.with(inner)
		}
		merged[name] = other
	}
	return merged
}

// plain returns what Helm takes: maps that have no named type.
func (v values) plain() map[string]any {
	all := map[string]any{}
	for name, value := range v {
		if inner, ok := value.(values); ok {
			value = inner.plain()
		}
		all[name] = value
	}
	return all
}

// list is a list as YAML gives it.
func list(items ...any) []any { return items }

var (
	shadow  = values{"mode": "shadow"}
	enforce = values{"mode": "enforce"}

	// everyPolicy switches all admission policies on.
	everyPolicy = values{"policies": values{
		"tolerationSeconds": on, "memoryPressure": on, "dedicatedNodes": on, "namespaceTolerations": on,
		"daemonTolerations": on.with(values{"ownerKinds": list("DaemonSet.apps.kruise.io")}),
		"extendedResources": on.with(values{"afterWebhooks": true}),
	}}
	on = values{"enabled": true}
)
