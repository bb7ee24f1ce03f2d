// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryPackageThatStartsAControlPlaneIsAProofOfItsOwn(t *testing.T) {
	starts := regexp.MustCompile(`localcluster\.Start\(|\.StartCluster\(|\brun\(t\.Context\(\), cfg\)`)
	apart := []string{endToEnd}
	for _, p := range proofs {
		apart = append(apart, p.packages...)
	}
	files, err := filepath.Glob(filepath.Join(root, "test/*/*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		folder := "./test/" + filepath.Base(filepath.Dir(file))
		if folder != "./test/proofs" && starts.Match(text) && !slices.Contains(apart, folder) {
			t.Errorf("%s starts a control plane, but make test would run it next to others: add a proof to list.go", folder)
		}
	}
}

func TestEveryPackageAndCommandOfAProofExists(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range proofs {
		if seen[p.name] {
			t.Errorf("there are two proofs %s", p.name)
		}
		seen[p.name] = true
		if p.says == "" || p.minutes == 0 || len(p.packages)+len(p.commands) == 0 {
			t.Errorf("proof %s proves nothing: %+v", p.name, p)
		}
		for _, target := range p.needs {
			dry := p.filled(in(root, "make --no-print-directory --dry-run "+target))
			var out strings.Builder
			if err := dry.run(t.Context(), &out); err != nil {
				t.Errorf("proof %s needs %s: %v: %s", p.name, target, err, out.String())
			}
		}
		for _, pkg := range p.packages {
			if info, err := os.Stat(filepath.Join(root, pkg)); err != nil || !info.IsDir() {
				t.Errorf("proof %s runs %s, which does not exist", p.name, pkg)
			}
		}
	}
}

// The rows are "| `folder`, `folder` | proof, proof |".
func TestContributingSaysWhichProofsAChangeNeeds(t *testing.T) {
	var want []string
	for _, c := range changes {
		for _, name := range c.proofs {
			if _, ok := find(name); !ok {
				t.Errorf("a change of %v needs the proof %s, which does not exist", c.folders, name)
			}
		}
		want = append(want, "| `"+strings.Join(c.folders, "`, `")+"` | "+strings.Join(c.proofs, ", ")+" |")
	}
	if len(want) > 11 {
		t.Errorf("%d rows are too many to look at", len(want))
	}
	if table := strings.Join(want, "\n"); !strings.Contains(read(t, "CONTRIBUTING.md"), table) {
		t.Errorf("CONTRIBUTING.md needs this table:\n%s", table)
	}
}

func TestTheNightlyWorkflowRunsEveryProof(t *testing.T) {
	var workflow struct {
		Jobs struct {
			Proof struct {
				Strategy struct {
					Matrix struct{ Proof []string }
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/proofs.yml")), &workflow); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, p := range (options{}).chosen() {
		want = append(want, p.name)
	}
	if got := workflow.Jobs.Proof.Strategy.Matrix.Proof; !slices.Equal(got, want) {
		t.Errorf("proofs.yml runs %q, want %q", got, want)
	}
}

func TestTheProofsOfAChange(t *testing.T) {
	for folder, want := range map[string][]string{
		"internal/controller/coexist":         {"histories", "e2e", "kubelets", "try", "stops"},
		"./internal/controller/coexist/":      {"histories", "e2e", "kubelets", "try", "stops"},
		"internal/controller/coexist/hold.go": {"histories", "e2e", "kubelets", "try", "stops"},
		"test/rig/localcluster":               {"rig", "e2e", "kubelets", "defects", "chaos"},
		"test/stops":                          {"stops"},
		"docs/plugin.md":                      {"docs"},
		"tools":                               nil,
		"internal/controller/coexistence":     nil,
		"test/parity/conformance/main.go":     {"parity"},
		"internal/controller":                 {"histories", "e2e", "kubelets", "try", "plans", "simulations", "parity", "defects", "chaos", "stops"},
	} {
		if got := forFolder(folder); !slices.Equal(got, want) {
			t.Errorf("a change in %s needs %q, want %q", folder, got, want)
		}
	}
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	t.Chdir(root)
	for want, args := range map[string][]string{
		`there is no proof "chaoss": choose from rig,`:       {"-only=chaoss"},
		"choose proofs either by their names":                {"-only=chaos", "-for=verdict"},
		"a change in tools needs no proof besides make test": {"-for=tools"},
		`["-pods=5"] would be ARGS of every proof`:           {"-only=chaos,stops", "--", "-pods=5"},
		"use SEED=... instead of -seed in ARGS":              {"-only=chaos", "--", "-duration=1m", "-seed=5"},
		"FOR wants a folder or a file of this repository":    {"-for=nowhere"},
	} {
		if _, err := parse(args); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

func TestTheStepsOfAProof(t *testing.T) {
	t.Setenv("CONTROLPLANE", "bin/controlplane-1.35")
	for _, test := range []struct {
		proof string
		args  []string
		want  []string
	}{
		{"e2e", nil, []string{"go test -race -timeout=90m -p=1 -count=1 ./test/e2e"}},
		{"e2e", []string{"-run=Health"}, []string{"go test -v -timeout=0 -count=1 ./test/e2e -run=Health"}},
		{"plans", nil, []string{"go test -race -timeout=90m -p=1 -count=1 ./test/plan -args -seed=1294"}},
		{"plans", []string{"-rounds=40"}, []string{"go test -v -timeout=0 -count=1 ./test/plan -args -seed=1294 -rounds=40"}},
		{"chaos", nil, []string{
			"go test -race -timeout=90m -p=1 -count=1 ./test/chaos", "bin/chaos -seed=1", "bin/chaos -seed=1 -coexist",
		}},
		{"chaos", []string{"-duration=10m"}, []string{"bin/chaos -seed=1 -duration=10m"}},
		{"defects", []string{"-only=6"}, []string{"bin/defects -settable-kube-controller-manager=bin/settable-kube-controller-manager-1.35 -only=6"}},
		{"mutation", []string{"verdict"}, []string{"nice -n 19 tools/mutation/run.sh verdict"}},
	} {
		p, _ := find(test.proof)
		var got []string
		for _, c := range p.steps(test.args) {
			got = append(got, strings.Join(c.args, " "))
		}
		if !slices.Equal(sorted(got), sorted(test.want)) {
			t.Errorf("%s with %q runs %q, want %q", test.proof, test.args, got, test.want)
		}
	}
}

// sorted puts the words of each command in order, because the order of flags does not matter.
func sorted(commands []string) (all []string) {
	for _, command := range commands {
		words := strings.Fields(command)
		slices.Sort(words)
		all = append(all, strings.Join(words, " "))
	}
	return all
}

func TestAProofThatFailsOrCannotRunHereStopsNoOther(t *testing.T) {
	known := proofs
	t.Cleanup(func() { proofs = known })
	cannot := func(context.Context) string { return "it needs root" }
	nodes := proof{name: "nodes", says: "something", minutes: 1, commands: []command{in("", "false")}, missing: cannot}
	bad := proof{name: "bad", says: "nothing", minutes: 1, seed: "7", commands: []command{in("", "false"), in("", "echo seed {SEED}")}}
	good := proof{name: "good", says: "everything", minutes: 1, commands: []command{in("", "echo well done")}}
	for _, test := range []struct {
		proofs []proof
		ok     bool
		says   []string
	}{
		{[]proof{bad, good}, false, []string{
			"==> bad failed: false: exit status 1", "seed 9", "well done", "| bad | FAIL | 0 | 9 |", "| good | ok | 0 | - |",
		}},
		{[]proof{nodes}, true, []string{"==> nodes skipped: it needs root", "| nodes | skipped: it needs root | 0 | - |"}},
	} {
		proofs = test.proofs
		var out strings.Builder
		table := filepath.Join(t.TempDir(), "bin", "proofs.md")
		ok, err := runProofs(t.Context(), options{table: table, seed: "9"}, &out)
		if ok != test.ok || err != nil {
			t.Errorf("%t, %v; want %t", ok, err, test.ok)
		}
		for _, part := range test.says {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%q is missing in\n%s", part, out.String())
			}
		}
		if text, err := os.ReadFile(table); err != nil || !strings.HasSuffix(out.String(), string(text)) {
			t.Errorf("the table in the file is %q, %v", text, err)
		}
	}
}

func TestAnInterruptedRunSaysNothingOfProofsThatItDidNotBegin(t *testing.T) {
	known := proofs
	t.Cleanup(func() { proofs = known })
	ctx, interrupt := context.WithCancel(t.Context())
	interrupts := func(context.Context) string { interrupt(); return "it was interrupted" }
	next := func(is pace) proof {
		return proof{name: "next", says: "more", minutes: 1, commands: []command{in("", "true")}, pace: is}
	}
	proofs = []proof{{name: "first", says: "little", minutes: 1, missing: interrupts}, next(""), next(waits)}
	table := filepath.Join(t.TempDir(), "proofs.md")
	if ok, err := runProofs(ctx, options{table: table}, io.Discard); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("%t, %v; want an error", ok, err)
	}
	if text, err := os.ReadFile(table); err != nil || !strings.Contains(string(text), "| first |") || strings.Contains(string(text), "| next |") {
		t.Errorf("the table is %v\n%s", err, text)
	}
}

// Who opens a pipe waits until the other end is opened, so proofs that meet run at the same time.
func TestWhatRunsNextToAnother(t *testing.T) {
	known := proofs
	t.Cleanup(func() { proofs = known })
	dir := t.TempDir()
	meet := func(name string, is pace, line string) proof {
		return proof{name: name, says: "company", minutes: 1, commands: []command{{dir, []string{"sh", "-c", line}}}, pace: is}
	}
	proofs = []proof{
		meet("computing", computes, "cat one"), meet("first", "", "test ! -e alone; echo >one; touch alone"),
		meet("second", "", "test -e alone"), meet("waiting", waits, "cat two"), meet("also waiting", waits, "echo >two"),
	}
	for _, name := range []string{"one", "two"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	table := filepath.Join(t.TempDir(), "proofs.md")
	if ok, err := runProofs(ctx, options{table: table}, &out); !ok || err != nil {
		t.Errorf("%t, %v:\n%s", ok, err, out.String())
	}
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([a-z ]+) \| ok `).FindAllStringSubmatch(string(text), -1)
	if len(rows) != len(proofs) || rows[0][1] != "computing" || rows[4][1] != "also waiting" {
		t.Errorf("the table is\n%s", text)
	}
}
