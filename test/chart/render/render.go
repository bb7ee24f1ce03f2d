// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render turns charts/taintkeeper into manifests as Helm does, without a cluster.
package render

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// Folder returns the chart's folder in a checkout.
func Folder(root string) string { return filepath.Join(root, "charts", "taintkeeper") }

// Load reads the chart of a checkout.
func Load(root string) (*chart.Chart, error) {
	loaded, err := loader.Load(Folder(root))
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	return loaded, nil
}

// Templates is the text of each template, by the name of its file. One without an object has none.
type Templates map[string]string

// MutatingPolicies is what the API server of Kubernetes 1.36 serves and the chart asks for. Helm learns kinds from an
// API server only.
const MutatingPolicies = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"

// Render renders the release taintkeeper of a namespace with values on top of the chart's own, for Kubernetes 1.36.
func Render(of *chart.Chart, namespace string, values map[string]any) (Templates, error) {
	return For(of, namespace, values, MutatingPolicies)
}

// For is Render for an API server that serves these kinds besides the groups and versions that Helm knows.
func For(of *chart.Chart, namespace string, values map[string]any, kinds ...string) (Templates, error) {
	release := common.ReleaseOptions{Name: "taintkeeper", Namespace: namespace, Revision: 1, IsInstall: true}
	serves := common.DefaultCapabilities.Copy()
	serves.APIVersions = slices.Concat(serves.APIVersions, kinds)
	all, err := util.ToRenderValues(of, values, release, serves)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(of, all)
	if err != nil {
		return nil, err
	}
	templates := Templates{}
	for name, text := range rendered {
		if text = strings.TrimSpace(text); text != "" {
			templates[path.Base(name)] = text + "\n"
		}
	}
	return templates, nil
}

// Notes returns what Helm says after an installation.
func (t Templates) Notes() string { return t["NOTES.txt"] }

// Manifest returns all objects, as a stream of YAML documents.
func (t Templates) Manifest() string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(t)), func(name string) bool { return name == "NOTES.txt" })
	documents := make([]string, 0, len(names))
	for _, name := range names {
		documents = append(documents, t[name])
	}
	return strings.Join(documents, "---\n")
}
