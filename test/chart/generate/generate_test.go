// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
