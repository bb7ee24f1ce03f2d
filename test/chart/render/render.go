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

// Render renders the release taintkeeper of a namespace with values on top of the chart's own.
func Render(of *chart.Chart, namespace string, values map[string]any) (Templates, error) {
	release := common.ReleaseOptions{Name: "taintkeeper", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(of, values, release, nil)
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
