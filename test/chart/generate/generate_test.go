// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

func TestWhatFollowsFromTheChartIsCurrent(t *testing.T) {
	files, err := generated(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || string(got) != want {
			t.Errorf("%s is not what the chart says: run make generate (%v)", path, err)
		}
	}
}

// TestEveryValueHasAComment wants a comment before each value or in its line, or each of its parts to have one.
func TestEveryValueHasAComment(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "charts/taintkeeper/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for values, want := range map[string]string{
		string(text): "",
		"a: 1\n":     "a",
		"a: {}\n":    "a",
		"a: 1 # A.\nb:\n  # C.\n  c: 2\n  d: 3\n": "b.d",
	} {
		var document goyaml.Node
		if err := goyaml.Unmarshal([]byte(values), &document); err != nil {
			t.Fatal(err)
		}
		if got := undocumented("", document.Content[0]); got != want {
			t.Errorf("%q has no comment, want %q", got, want)
		}
	}
}

// undocumented returns the path of the first value of a mapping that has no comment.
func undocumented(prefix string, mapping *goyaml.Node) string {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if key.HeadComment != "" || key.LineComment != "" || value.LineComment != "" {
			continue
		}
		if value.Kind != goyaml.MappingNode || len(value.Content) == 0 {
			return prefix + key.Value
		}
		if inner := undocumented(prefix+key.Value+".", value); inner != "" {
			return inner
		}
	}
	return ""
}

// TestTheSchemaKnowsEveryValue keeps the schema from accepting values that do not exist. The schema itself refuses a
// value that only values.yaml has.
func TestTheSchemaKnowsEveryValue(t *testing.T) {
	var known node
	read(t, schema, &known)
	delete(known.Properties, "global")  // of Helm itself
	delete(known.Properties, "enabled") // of the parent chart
	var values map[string]any
	read(t, "charts/taintkeeper/values.yaml", &values)
	compare(t, "", known, values)
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err == nil {
		text, err = yaml.YAMLToJSON(text)
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

type node struct {
	AdditionalProperties any
	Properties           map[string]node
}

func compare(t *testing.T, path string, schema node, standard map[string]any) {
	t.Helper()
	if len(standard) == 0 || schema.Properties == nil || path == ".resources" {
		return // free, or a type of Kubernetes
	}
	if schema.AdditionalProperties != false {
		t.Errorf("%s: the schema accepts values that do not exist", path)
	}
	if got, want := slices.Sorted(maps.Keys(schema.Properties)), slices.Sorted(maps.Keys(standard)); !slices.Equal(got, want) {
		t.Errorf("%s: the schema has %v, values.yaml has %v", path, got, want)
	}
	for name, value := range standard {
		if inner, ok := value.(map[string]any); ok {
			compare(t, path+"."+name, schema.Properties[name], inner)
		}
	}
}
