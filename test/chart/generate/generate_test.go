// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

func TestTheTableOfValuesNamesEachByItsPath(t *testing.T) {
	got, err := table([]byte("# One\n# or two.\nfirst: 1\nsecond:\n  # Third.\n  third: [a]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"| `first` | `1` | One or two. |\n", "| `second.third` | `[\"a\"]` | Third. |\n"} {
		if !strings.Contains(got, row) {
			t.Errorf("no row %q in\n%s", row, got)
		}
	}
}

func TestAValueWithoutACommentIsRefused(t *testing.T) {
	for _, values := range []string{"first: 1\n", "first: {}\n", "first:\n  # Second.\n  second: 2\n  third: 3\n"} {
		if _, err := table([]byte(values)); !errors.Is(err, errUndocumented) {
			t.Errorf("%q: %v", values, err)
		}
	}
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
