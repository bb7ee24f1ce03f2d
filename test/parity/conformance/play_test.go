// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestARunThatCannotBePlayedIsReportedAndIsNotAsExpected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := suite{results: file} // no folder can be made in it
	results := s.playAll(t.Context(), runs[:2])
	if len(results) != 2 {
		t.Fatalf("got %d results, want one per run, even after one that failed", len(results))
	}
	text := printed(results...)
	for _, res := range results {
		if res.asExpected() {
			t.Errorf("%s counts as expected", res.name)
		}
	}
	for _, want := range []string{"remove the results of an earlier run", "no spec ran", "NOT as expected", "did not run !"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestNoRunBeginsAfterAnInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if results := (suite{results: t.TempDir()}).playAll(ctx, runs); len(results) != 0 {
		t.Errorf("%d runs were played", len(results))
	}
}

func TestAMissingBinaryIsAnErrorThatSaysHowToBuildIt(t *testing.T) {
	folder := t.TempDir()
	present := filepath.Join(folder, "e2e.test")
	if err := os.WriteFile(present, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := suite{e2e: present, kubectl: filepath.Join(folder, "kubectl"), results: folder}.complete()
	if err == nil || !strings.Contains(err.Error(), "make conformance") {
		t.Errorf("got error %v, want one that says what to run", err)
	}
}

func TestWhatAnEarlierRunLeftIsRemoved(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "results", "nobody")
	for range 2 { // the first time there is nothing
		if err := renew(folder); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
			t.Fatalf("got %v and error %v, want an empty folder", left, err)
		}
		if err := os.WriteFile(filepath.Join(folder, "junit.xml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
