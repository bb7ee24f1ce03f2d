// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/taintkeeper/taintkeeper/test/chart/render"
)

// manifest is a file in config/ and where it comes from.
type manifest struct {
	path      string
	about     string // comment lines at its head
	templates []string
	values    map[string]any
}

// known are the manifests. Everything is in kube-system there, and is not Helm's.
var known = []manifest{
	{
		path:      "config/rbac.yaml",
		about:     "# Rendered from charts/taintkeeper by make generate: not to be edited.\n#\n#   kubectl apply -f config/rbac.yaml\n#\n",
		templates: []string{"rbac.yaml"},
		values:    enforce("eviction", "node-health", "node-taint-rule"),
	},
	{
		path: "config/deployment.yaml",
		about: "# Two replicas of Taintkeeper in the cluster that they serve: one leads, the other stands by.\n" +
			"# Apply rbac.yaml first, and put your own image in place of taintkeeper:dev (see Dockerfile).\n" +
			"# Rendered from charts/taintkeeper by make generate: not to be edited.\n",
		templates: []string{"deployment.yaml", "poddisruptionbudget.yaml"},
		values:    enforce("eviction", "node-taint-rule"),
	},
	{
		path: "config/coexistence.yaml",
		about: "# Keeps the built-in taint-eviction-controller from evicting while Taintkeeper does, in a cluster whose\n" +
			"# kube-controller-manager runs with its defaults. Start Taintkeeper with --coexist. Needs Kubernetes 1.31 or later.\n" +
			"# Rendered from charts/taintkeeper by make generate: not to be edited.\n" +
			"#\n#   kubectl apply -f config/coexistence.yaml\n#\n",
		templates: []string{"coexistence.yaml"},
		values:    coexisting(enforce("eviction")),
	},
	{
		path: "config/policies.yaml",
		about: "# Admission policies for tolerations (docs/policies.md): all of them, to be applied whole or in part. They do not need Taintkeeper\n" +
			"# itself. Kubernetes 1.36; with admissionregistration.k8s.io/v1beta1 in the place of v1, 1.34 and 1.35 behind a gate.\n" +
			"# Rendered from charts/taintkeeper by make generate: not to be edited.\n" +
			"#\n#   kubectl apply -f config/policies.yaml\n#\n",
		templates: []string{
			"tolerationseconds.yaml", "memorypressure.yaml", "daemontolerations.yaml", "extendedresources.yaml",
			"dedicatednodes.yaml", "namespacetolerations.yaml", "namespaces.yaml",
		},
		values: everyPolicy(
			"tolerationSeconds", "memoryPressure", "daemonTolerations", "extendedResources",
			"dedicatedNodes", "namespaceTolerations",
		),
	},
}

func everyPolicy(names ...string) map[string]any {
	policies := map[string]any{}
	for _, name := range names {
		policies[name] = map[string]any{"enabled": true}
	}
	return map[string]any{"policies": policies}
}

func enforce(controllers ...any) map[string]any {
	return map[string]any{
		"mode": "enforce", "controllers": controllers,
		"coexist": map[string]any{"enabled": false},
		"image":   map[string]any{"repository": "taintkeeper", "tag": "dev"},
	}
}

func coexisting(values map[string]any) map[string]any {
	values["coexist"] = map[string]any{"enabled": true}
	return values
}

func manifests(root string) (map[string]string, error) {
	loaded, err := render.Load(root)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, m := range known {
		templates, err := render.Render(loaded, "kube-system", m.values)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
		documents := make([]string, 0, len(m.templates))
		for _, name := range m.templates {
			documents = append(documents, templates[name])
		}
		files[m.path] = m.about + withoutHelm(strings.Join(documents, "---\n"))
	}
	return files, nil
}

// ofHelm are labels that tell of a release, which there is none of.
var ofHelm = regexp.MustCompile(`(?m)^ *(app\.kubernetes\.io/(instance|version|managed-by)|helm\.sh/chart): .*\n`)

func withoutHelm(manifest string) string { return ofHelm.ReplaceAllString(manifest, "") }
