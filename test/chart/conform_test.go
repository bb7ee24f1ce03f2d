// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"

	"github.com/taintkeeper/taintkeeper/test/chart/render"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// TestKubeconformFindsNothingWrong validates config/ and what the chart renders by the schemas that the API server
// publishes, in which every field has a name: a slip of the pen is found also where no API server is at hand.
func TestKubeconformFindsNothingWrong(t *testing.T) {
	p := newPlane(t, localcluster.ControllerManager, localcluster.Kwok)
	p.knowRules(t)
	validates := p.schemas(t)
	for object := range p.differentObjects(t) {
		validates.manifest(t, "the chart", object)
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "*.yaml"))
	await.Must(t, err)
	if len(files) == 0 {
		t.Error("there are no manifests")
	}
	for _, file := range files {
		if filepath.Base(file) == "policies.yaml" && p.mutatingVersion(t) != "v1" {
			continue // it is for Kubernetes 1.36
		}
		text, err := os.ReadFile(file)
		await.Must(t, err)
		for _, document := range documents(t, text) {
			validates.manifest(t, file, document)
		}
	}
	validates.manifest(t, "docs/node-taint-rules.md", documentedRule(t))
	for name, manifest := range map[string]string{
		"a field that there is not": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, label: {}}\n",
		"one deep down":             "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {selector: {}, template: {spec: {containers: [{name: a, arg: []}]}}}\n",
		"a number for a text":       "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: 1}\n",
		"one in a resource of ours": "apiVersion: taintkeeper.dev/v1alpha1\nkind: NodeTaintRule\nmetadata: {name: rule}\nspec: {condition: []}\n",
		"a kind that there is not":  "apiVersion: v1\nkind: ServiceAcount\nmetadata: {name: a}\n",
	} {
		if err := validates.validate(manifest); err == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// differentObjects returns each different object that the chart renders for the API server, in kube-system and
// elsewhere.
func (p *plane) differentObjects(t *testing.T) sets.Set[string] {
	t.Helper()
	loaded, different, kinds := load(t), sets.New[string](), p.kinds(t)
	for _, namespace := range []string{metav1.NamespaceSystem, elsewhere} {
		combinations(func(v values) {
			if _, found := v["policies"]; found && len(kinds) == 0 {
				return
			}
			templates, err := render.For(loaded, namespace, v.plain(), kinds...)
			await.Must(t, err)
			different.Insert(strings.Split(templates.Manifest(), "\n---\n")...)
		})
	}
	return different
}

// documents returns the documents of a manifest that have an object.
func documents(t *testing.T, manifest []byte) []string {
	t.Helper()
	var all []string
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		await.Must(t, err)
		all = append(all, string(document))
	}
}

// documentedRule returns the example of a NodeTaintRule.
func documentedRule(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "node-taint-rules.md"))
	await.Must(t, err)
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, found := strings.Cut(example, "```")
	if !found {
		t.Fatal("docs/node-taint-rules.md has no example")
	}
	return example
}

// knowRules gives the API server the resource NodeTaintRule.
func (p *plane) knowRules(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(render.Folder(root), "files", "nodetaintrules.yaml"))
	await.Must(t, err)
	var definition unstructured.Unstructured
	await.Must(t, yaml.Unmarshal(text, &definition.Object))
	_, err = p.objects.Resource(crds).Create(t.Context(), &definition, metav1.CreateOptions{})
	await.Must(t, err)
}

// schemas validates manifests by kubeconform.
type schemas struct{ validator.Validator }

// schemas makes the files from which kubeconform reads what the API server publishes.
func (p *plane) schemas(t *testing.T) schemas {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(p.AdminConfig())
	await.Must(t, err)
	var published map[string]openapi.GroupVersion
	await.Eventually(t, "the schema of NodeTaintRule is published", func(context.Context) error {
		if published, err = client.OpenAPIV3().Paths(); err == nil && published["apis/taintkeeper.dev/v1alpha1"] == nil {
			err = errors.New("it is not")
		}
		return err
	})
	folder := t.TempDir()
	for name, version := range published {
		text, err := version.Schema("application/json")
		await.Must(t, err)
		await.Must(t, writeSchemas(folder, strings.ReplaceAll(name, "/", "_")+".json", text))
	}
	all, err := validator.New([]string{filepath.Join(folder, "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json")}, validator.Opts{
		Strict: true,
		// Of the Prometheus operator, which is not there: see TestWhatThePrometheusOperatorReadsIsOfItsTypes.
		SkipKinds: map[string]struct{}{
			"monitoring.coreos.com/v1/ServiceMonitor": {}, "monitoring.coreos.com/v1/PrometheusRule": {},
		},
	})
	await.Must(t, err)
	return schemas{all}
}

// writeSchemas writes the schemas of a group and version into one file, and one that refers to it for each of its
// kinds.
func writeSchemas(folder, name string, text []byte) error {
	var document struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("understand the schemas of %s: %w", name, err)
	}
	for id, schema := range document.Components.Schemas {
		nameAll(schema)
		kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
		for _, kind := range kinds {
			of, _ := kind.(map[string]any)
			group := of["group"]
			if group == "" {
				group = of["version"] // as kubeconform has it
			}
			file := strings.ToLower(fmt.Sprintf("%s_%s_%s.json", group, of["version"], of["kind"]))
			if err := writeJSON(folder, file, map[string]any{"$ref": name + "#/components/schemas/" + id}); err != nil {
				return err
			}
		}
	}
	return writeJSON(folder, name, document)
}

// nameAll makes a schema refuse fields that it does not name, at any depth.
func nameAll(schema map[string]any) {
	properties, named := schema["properties"].(map[string]any)
	_, open := schema["additionalProperties"]
	if _, free := schema["x-kubernetes-preserve-unknown-fields"]; named && !open && !free {
		schema["additionalProperties"] = false
	}
	for _, property := range properties {
		nameAllOf(property)
	}
	for _, keyword := range []string{"items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"} {
		nameAllOf(schema[keyword])
	}
}

// nameAllOf is nameAll for a schema, several, or none.
func nameAllOf(value any) {
	switch value := value.(type) {
	case map[string]any:
		nameAll(value)
	case []any:
		for _, one := range value {
			nameAllOf(one)
		}
	}
}

func writeJSON(folder, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name), text, 0o600)
}

// validate returns what is wrong with an object.
func (s schemas) validate(manifest string) error {
	result := s.ValidateResource(resource.Resource{Bytes: []byte(manifest)})
	if result.Err == nil && result.Status != validator.Valid && result.Status != validator.Skipped {
		return fmt.Errorf("it is not valid: status %d", result.Status)
	}
	return result.Err
}

func (s schemas) manifest(t *testing.T, from, manifest string) {
	t.Helper()
	if err := s.validate(manifest); err != nil {
		t.Errorf("%s: %v\n%s", from, err, manifest)
	}
}
