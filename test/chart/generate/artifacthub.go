// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kyaml "sigs.k8s.io/yaml"
)

const chartFile = "charts/taintkeeper/Chart.yaml"

// change, image and resource are what Artifact Hub shows of a chart:
// https://artifacthub.io/docs/topics/annotations/helm.
type (
	change struct {
		Kind        string `yaml:"kind"`
		Description string `yaml:"description"`
	}
	image struct {
		Name      string   `yaml:"name"`
		Image     string   `yaml:"image"`
		Platforms []string `yaml:"platforms"`
	}
	resource struct {
		Kind        string `yaml:"kind"`
		Version     string `yaml:"version"`
		Name        string `yaml:"name"`
		DisplayName string `yaml:"displayName"`
		Description string `yaml:"description"`
	}
)

// withAnnotations returns Chart.yaml with the annotations for Artifact Hub that follow from the chart and from
// CHANGELOG.md.
func withAnnotations(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, chartFile))
	if err != nil {
		return "", err
	}
	var chart struct{ Version, AppVersion string }
	if err := kyaml.Unmarshal(text, &chart); err != nil {
		return "", err
	}
	log, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	changes, err := headlines(string(log), chart.Version)
	if err != nil {
		return "", fmt.Errorf("CHANGELOG.md: %w", err)
	}
	resources, err := resources(filepath.Join(root, "charts", "taintkeeper", "files"))
	if err != nil {
		return "", err
	}
	images, err := images(root, chart.AppVersion)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, annotation := range []struct {
		name  string
		value any
	}{{"changes", changes}, {"crds", resources}, {"images", images}} {
		value, err := yaml.Marshal(annotation.value)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "  artifacthub.io/%s: |\n", annotation.name)
		for line := range strings.Lines(string(value)) {
			all.WriteString("    " + line)
		}
	}
	return replaced(string(text), "  # make generate: begin\n", "  # make generate: end\n", all.String())
}

var (
	sectionLine = regexp.MustCompile(`(?m)^## \[(.+)\]$`)
	kindLine    = regexp.MustCompile(`(?m)^### (.+)$`)
	bullet      = regexp.MustCompile(`(?m)^- ((?:.+\n)(?:  .+\n)*)`)
	link        = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	sentenceEnd = regexp.MustCompile(`\.( |$)`)

	errNoHeadline = errors.New("no entry of the newest version begins with bold text")
	errOtherChart = errors.New("the newest version is not the chart's")
)

// headlines are the entries of the newest version that begin with bold text, each with its first sentence alone: the
// whole list would be too long. That version is the chart's, or is not released yet.
func headlines(log, version string) ([]change, error) {
	sections := sectionLine.FindAllStringSubmatchIndex(log, 2)
	if len(sections) == 0 {
		return nil, errNoHeadline
	}
	if name := log[sections[0][2]:sections[0][3]]; name != "Unreleased" && name != version {
		return nil, fmt.Errorf("%w: %s and %s", errOtherChart, name, version)
	}
	newest := log[sections[0][1]:]
	if len(sections) > 1 {
		newest = log[sections[0][1]:sections[1][0]]
	}
	var changes []change
	for _, at := range bullet.FindAllStringSubmatchIndex(newest, -1) {
		entry := newest[at[2]:at[3]]
		kinds := kindLine.FindAllStringSubmatch(newest[:at[0]], -1)
		if !strings.HasPrefix(entry, "**") || len(kinds) == 0 {
			continue
		}
		changes = append(changes, change{
			Kind:        strings.ToLower(kinds[len(kinds)-1][1]), // Keep a Changelog and Artifact Hub have the same kinds
			Description: firstSentence(entry),
		})
	}
	if len(changes) == 0 {
		return nil, errNoHeadline
	}
	return changes, nil
}

// firstSentence returns the first sentence of Markdown, as plain text.
func firstSentence(markdown string) string {
	plain := strings.Join(strings.Fields(link.ReplaceAllString(markdown, "$1")), " ")
	plain = strings.NewReplacer("**", "", "`", "").Replace(plain)
	if end := sentenceEnd.FindStringIndex(plain); end != nil {
		plain = plain[:end[0]]
	}
	return plain
}

// resources describes the resources that the chart installs.
func resources(folder string) ([]resource, error) {
	var all []resource
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := kyaml.Unmarshal(text, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if crd.Kind != "CustomResourceDefinition" {
			continue
		}
		newest := crd.Spec.Versions[len(crd.Spec.Versions)-1]
		all = append(all, resource{
			Kind:        crd.Spec.Names.Kind,
			Version:     newest.Name,
			Name:        crd.Name,
			DisplayName: strings.TrimSpace(wordStart.ReplaceAllString(crd.Spec.Names.Kind, " $0")),
			Description: firstSentence(newest.Schema.OpenAPIV3Schema.Description),
		})
	}
	return all, nil
}

var wordStart = regexp.MustCompile(`[A-Z]`)

// images is the image that the chart installs, for the platforms that .goreleaser.yaml releases it for.
func images(root, version string) ([]image, error) {
	var values struct {
		Image struct{ Repository string }
	}
	var releaser struct {
		Kos []struct{ Platforms []string }
	}
	for name, into := range map[string]any{"charts/taintkeeper/values.yaml": &values, ".goreleaser.yaml": &releaser} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if err := kyaml.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return []image{{
		Name:      "taintkeeper",
		Image:     values.Image.Repository + ":" + version,
		Platforms: releaser.Kos[0].Platforms,
	}}, nil
}
