// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command compatibility measures with which versions of Kubernetes Taintkeeper works: it runs the tests that need a
// real control plane on the one that the environment variable CONTROLPLANE names, and records the results as that
// version's row in a document. make compatibility builds the binaries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// allSuites are the folders of test/ that are run, in the order of the table's columns.
var allSuites = []string{"integration", "coexist", "e2e", "chart", "deployment", "policies"}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "compatibility: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	suites := flag.String("suites", strings.Join(allSuites, ","), "folders of test/ to run, separated by commas")
	file := flag.String("write", "", "Markdown file with the table to update, for example docs/compatibility.md")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("%q: only flags are accepted; see -help", flag.Args())
	}
	version, err := versionOf(ctx, localcluster.DefaultBinaries())
	if err != nil {
		return err
	}
	m := measurement{version: version, date: time.Now()}
	for suite := range strings.SplitSeq(*suites, ",") {
		if !slices.Contains(allSuites, suite) {
			return fmt.Errorf("-suites=%s: choose from %s", suite, strings.Join(allSuites, ", "))
		}
		result, err := runSuite(ctx, version, suite)
		if err != nil {
			return err
		}
		m.results = append(m.results, result)
		fmt.Printf("Kubernetes %s: test/%s: %s\n", version, suite, result)
	}
	return errors.Join(m.failures(), record(*file, m))
}

// versionOf returns the version of the API server in a folder, for example v1.35.4.
func versionOf(ctx context.Context, folder string) (string, error) {
	output, err := exec.CommandContext(ctx, filepath.Join(folder, string(localcluster.APIServer)), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask kube-apiserver for its version: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(output)), "Kubernetes "), nil
}

// runSuite runs the tests of a folder of test/ by go test; that some fail is no error. Their output goes to a log.
func runSuite(ctx context.Context, version, suite string) (result, error) {
	path := filepath.Join("bin", fmt.Sprintf("compatibility-%s-%s.log", version, suite))
	log, err := os.Create(path)
	if err != nil {
		return result{}, fmt.Errorf("make the log of test/%s: %w", suite, err)
	}
	defer log.Close()
	fmt.Fprintf(os.Stderr, "Kubernetes %s: test/%s (its log is %s)\n", version, suite, path)
	tests := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=40m", ".")
	tests.Dir = filepath.Join("test", suite) // some are Go modules of their own
	tests.Stderr = os.Stderr
	events, err := tests.StdoutPipe()
	if err != nil {
		return result{}, fmt.Errorf("read what go test says: %w", err)
	}
	if err := tests.Start(); err != nil {
		return result{}, fmt.Errorf("start go test: %w", err)
	}
	t, readErr := readTally(events, log)
	failed := tests.Wait()
	if readErr != nil {
		return result{}, fmt.Errorf("read what go test says of test/%s: %w", suite, errors.Join(readErr, failed))
	}
	return t.result(suite, failed == nil), nil
}
