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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// allSuites are the folders of test/ that are run, in the order of the table's columns.
var allSuites = []string{"e2e", "chart"}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "compatibility: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
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
	for _, suite := range allSuites {
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

// measurement is what was measured with one version of Kubernetes.
type measurement struct {
	version string
	results []result
	date    time.Time
}

// failures returns an error that names the suites in which something failed, or nil.
func (m measurement) failures() error {
	var all []error
	for _, result := range m.results {
		if !result.right() {
			all = append(all, fmt.Errorf("test/%s on Kubernetes %s: %s", result.suite, m.version, result))
		}
	}
	return errors.Join(all...)
}

// record puts what was measured into the table of a file; without a file it does nothing.
func record(file string, m measurement) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the table: %w", err)
	}
	updated, err := with(string(text), m)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(updated), 0o644); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// with returns a document whose table has a row of what was measured, with a cell per suite and the date, instead of an
// older one of that version. The newest version comes first. Everything else stays.
func with(text string, m measurement) (string, error) {
	names, cells, lines := "| Kubernetes", "| "+m.version, "| ---"
	for _, result := range m.results {
		names, cells, lines = names+" | test/"+result.suite, cells+" | "+result.String(), lines+" | ---"
	}
	header := names + " | date |\n" + lines + " | --- |\n"
	before, after, found := strings.Cut(text, header)
	if !found {
		return "", fmt.Errorf("it has no table that begins with %q", names+" | date |")
	}
	rows := map[string]string{m.version: cells + " | " + m.date.UTC().Format(time.DateOnly) + " |\n"}
	for strings.HasPrefix(after, "| ") {
		row, rest, _ := strings.Cut(after, "\n")
		version, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " ")
		if version != m.version {
			rows[version] = row + "\n"
		}
		after = rest
	}
	for _, version := range slices.Sorted(maps.Keys(rows)) {
		after = rows[version] + after
	}
	return before + header + after, nil
}
