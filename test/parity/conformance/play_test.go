//go:build unix

// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestARunThatCannotBePlayedIsReportedAndIsNotAsExpected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := suite{results: file} // no folder can be made in it
	results := s.playAll(t.Context(), runs[:2])
	if len(results) != 2 || asExpected(results) {
		t.Fatalf("got %d results, as expected: %t; want one per run, even after one that failed", len(results), asExpected(results))
	}
	text := printed(results...)
	for _, want := range []string{"make an empty folder for the results", "no spec ran", "NOT as expected", "did not run !"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if results := s.playAll(ctx, runs); len(results) != 0 {
		t.Errorf("%d runs were played after an interrupt", len(results))
	}
	_, err := suite{e2e: file, kubectl: file + ".missing", results: file}.complete()
	if err == nil || !strings.Contains(err.Error(), "make conformance") {
		t.Errorf("a binary is missing: got error %v, want one that says what to run", err)
	}
}

// scripted returns a suite whose binary is a shell script, and what a run tells it.
func scripted(t *testing.T, script string) (suite, e2eRun) {
	t.Helper()
	folder := t.TempDir()
	s := suite{e2e: filepath.Join(folder, "e2e.test"), kubectl: "/bin/conformance/kubectl"}
	if err := os.WriteFile(s.e2e, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return s, e2eRun{
		log: filepath.Join(folder, "e2e.log"), kubeconfig: "admin.kubeconfig",
		reports: filepath.Join(folder, "reports"), home: filepath.Join(folder, "home"),
	}
}

func TestTheBinaryGetsAllAddressesAndMayFail(t *testing.T) {
	s, e := scripted(t, `printf '%s\n' "$HOME" "$TMPDIR" "$@"; echo trouble >&2; exit 1`)
	if status, err := s.runE2E(t.Context(), e); err != nil || status.String() != "exit status 1" {
		t.Fatalf("it ended with %s and error %v", status, err)
	}
	content, err := os.ReadFile(e.log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(content), "\n")
	if lines[0] != e.home || lines[1] != e.home {
		t.Errorf("HOME is %s and TMPDIR %s, want %s: kubectl would write into the user's", lines[0], lines[1], e.home)
	}
	for _, want := range []string{
		"--kubeconfig=admin.kubeconfig", "--kubectl-path=/bin/conformance/kubectl", "--report-dir=" + e.reports,
		"--ginkgo.focus=NoExecuteTaintManager", "trouble",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing in:\n%s", want, content)
		}
	}
	for _, unwanted := range []string{"--ginkgo.skip=", "--ginkgo.label-filter=", "--ginkgo.flake-attempts="} {
		if strings.Contains(string(content), unwanted) {
			t.Errorf("%s is in:\n%s", unwanted, content)
		}
	}
	s.e2e += ".missing"
	e.home += "-2"
	if _, err := s.runE2E(t.Context(), e); err == nil {
		t.Error("a binary that is missing is no error")
	}
}

func TestAnInterruptEndsTheBinaryAndAllThatItHasStarted(t *testing.T) {
	alive := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	s, e := scripted(t, "trap '' TERM INT\nexec 3>'"+alive+"'\nsleep 600 &\nsleep 600\n")
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.runE2E(ctx, e)
		ended <- err
	}()
	pipe, err := os.Open(alive) // returns once the script has opened it, too
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want one that says that it was cancelled", err)
	}
	if _, err := io.ReadAll(pipe); err != nil { // ends once nobody holds the pipe any longer
		t.Error(err)
	}
}
