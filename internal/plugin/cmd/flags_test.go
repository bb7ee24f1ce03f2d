// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
)

// printed is the output of a command line.
type printed struct {
	out, err string
	code     int
}

func run(t *testing.T, args ...string) printed {
	t.Helper()
	var out, errOut bytes.Buffer
	root := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut},
		Clock:     clocktesting.NewFakePassiveClock(time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)),
		Version:   "v0.0.0",
	})
	root.SetArgs(args)
	code := cmd.Fail(&errOut, root.ExecuteContext(t.Context()))
	return printed{out.String(), errOut.String(), code}
}

// tables are the formats that have headers.
var tables = []string{"", "wide"}

// flagsWithOutputs are flags that depend on -o, and the formats in which they may change nothing because those formats
// already do what the flag requests.
var flagsWithOutputs = map[string]struct {
	args    []string
	nothing func(command, format string) bool
}{
	"no-headers":     {[]string{"--no-headers"}, func(_, format string) bool { return !slices.Contains(tables, format) }},
	"all-namespaces": {[]string{"-A"}, func(string, string) bool { return true }},
	"namespace":      {[]string{"-n", "ml"}, nil},
	"selector":       {[]string{"-l", "topology.kubernetes.io/zone=a"}, nil},
	"where-to":       {[]string{"--where-to"}, nil},
	"watch":          {[]string{"--watch"}, nil},
	"recursive":      {[]string{"-R"}, func(string, string) bool { return true }},
	"overwrite":      {[]string{"--overwrite"}, func(string, string) bool { return true }},
	"fail-on":        {[]string{"--fail-on=budget"}, nil},

	"node-eviction-rate":        {[]string{"--node-eviction-rate=0"}, nil},
	"node-monitor-grace-period": {[]string{"--node-monitor-grace-period=9s"}, func(_, format string) bool { return format == "name" }},
}

// argumentsOf are the arguments with which each reading command is tried.
func argumentsOf(command string) [][]string {
	switch command {
	case "plan":
		return [][]string{{"worker-a1", "m:NoExecute"}}
	case "why":
		return [][]string{{"cart-0"}}
	case "simulate":
		return [][]string{{"testdata/outage.yaml"}}
	}
	return [][]string{nil}
}

func TestEveryFlagWorksWithEveryOutputOrIsRefused(t *testing.T) {
	file := snapshotOf(t, "../../../examples/cluster.yaml")
	for _, command := range commandsThatRead() {
		for _, arguments := range argumentsOf(command) {
			for _, format := range []string{"", "wide", "name", "json", "yaml", "html", "sarif", "junit"} {
				wantFlagsHeeded(t, command, format, append([]string{command, "-f", file}, arguments...))
			}
		}
	}
}

// wantFlagsHeeded tries a command line in one format with each flag.
func wantFlagsHeeded(t *testing.T, command, format string, line []string) {
	t.Helper()
	if format != "" {
		line = append(line, "-o", format)
	}
	plain := run(t, line...)
	if plain.code == cmd.ExitUsage {
		wantRefusal(t, line, plain, "output", "-o")
		return
	}
	for name, flag := range flagsWithOutputs {
		mayBeSame := flag.nothing != nil && flag.nothing(command, format)
		wantHeeded(t, line, plain, name, flag.args, mayBeSame)
	}
}

// wantHeeded fails unless a flag changes the output, or is rejected. A flag may change nothing if the format already
// does what it requests.
func wantHeeded(t *testing.T, base []string, plain printed, name string, flag []string, anyway bool) {
	t.Helper()
	args := append(slices.Clone(base), flag...)
	got := run(t, args...)
	same := got.out == plain.out && got.err == plain.err && got.code == plain.code
	switch {
	case got.code == cmd.ExitUsage:
		wantRefusal(t, args, got, "--"+name, "nodes are selected in several ways", "in "+flag[0])
	case same && !anyway:
		t.Errorf("%q is silently ignored: what is printed is the same as without it", args)
	case !same && anyway:
		t.Errorf("%q prints\n%s%s\nwant what it prints without it:\n%s%s", args, got.out, got.err, plain.out, plain.err)
	}
}

// commandsThatRead are those that accept files. The others are listed by name, so that none is forgotten.
func commandsThatRead() []string {
	var names []string
	others := []string{
		"board", "taint", "untaint", "pause", "resume", "completion", "help", "options", "version",
	}
	for _, command := range cmd.New(cmd.Env{}).Commands() {
		if !slices.Contains(others, command.Name()) {
			names = append(names, command.Name())
		}
	}
	return names
}

// snapshotOf writes a snapshot, which is faster to read than YAML.
func snapshotOf(t *testing.T, file string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.json")
	if err := os.WriteFile(path, []byte(run(t, "snapshot", "-f", file).out), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantRefusal fails unless there is a usage error of one sentence that contains one of the given texts, and nothing on
// stdout.
func wantRefusal(t *testing.T, args []string, got printed, names ...string) {
	t.Helper()
	named := slices.ContainsFunc(names, func(name string) bool { return strings.Contains(got.err, name) })
	if !strings.HasPrefix(got.err, "error: ") || strings.Count(got.err, "\n") != 1 || !named || got.out != "" {
		t.Errorf("%q prints on stderr:\n%s\nwant one sentence with one of %q, and nothing on stdout, which has:\n%s", args, got.err, names, got.out)
	}
}

// The controller's framework would make the plugin a third larger. What the plugin knows about the controller comes
// from packages without a client, such as internal/readiness and verdict.
func TestThePluginIsBuiltWithoutTheController(t *testing.T) {
	const plugin = "github.com/taintkeeper/taintkeeper/cmd/kubectl-taintkeeper"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", plugin).Output()
	if err != nil {
		t.Fatalf("list what %s is built of: %v", plugin, err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, plugin) {
		t.Fatalf("the list of %d packages does not hold %s itself", len(packages), plugin)
	}
	for _, name := range packages {
		if strings.HasPrefix(name, "sigs.k8s.io/controller-runtime/") {
			t.Errorf("the plugin is built with %s", name)
		}
	}
}

// checked returns the output of check for examples/cluster.yaml, and its exit code.
func checked(t *testing.T, flags ...string) (printed []byte, code int) {
	t.Helper()
	var out bytes.Buffer
	root := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: io.Discard},
		Clock:     clocktesting.NewFakePassiveClock(time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)),
		Version:   "v0.0.0",
	})
	root.SetArgs(append([]string{"check", "-f", "../../../examples/cluster.yaml"}, flags...))
	code = cmd.Fail(io.Discard, root.ExecuteContext(t.Context()))
	return out.Bytes(), code
}

func TestSARIFIsValidByItsSchemaAndHasEveryFinding(t *testing.T) {
	printed, _ := checked(t, "-o", "sarif")
	report, err := sarif.FromBytes(printed)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Validate(); err != nil {
		t.Error(err)
	}
	if got := len(report.Runs[0].Results); got != 9 {
		t.Errorf("there are %d results, want 9", got)
	}
	for _, result := range report.Runs[0].Results {
		if rule := report.Runs[0].Tool.Driver.Rules[result.RuleIndex]; *rule.ID != *result.RuleID {
			t.Errorf("a result of rule %s points at rule %s", *result.RuleID, *rule.ID)
		}
	}
}

func TestJUnitAndTheExitCodeGoByTheSameFindings(t *testing.T) {
	for threshold, failures := range map[string]int{"never": 0, "error": 0, "warning": 2, "info": 9} {
		printed, code := checked(t, "-o", "junit", "--fail-on", threshold)
		var suites junit.Testsuites
		if err := xml.Unmarshal(printed, &suites); err != nil {
			t.Fatal(err)
		}
		if suites.Failures != failures || (code == cmd.ExitFound) != (failures > 0) {
			t.Errorf("with --fail-on=%s there are %d failures in %d tests and exit code %d, want %d", threshold, suites.Failures, suites.Tests, code, failures)
		}
	}
}
