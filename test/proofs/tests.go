// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// module is the path of the root module.
const module = "github.com/taintkeeper/taintkeeper"

// endToEnd is the only package of make test that needs a control plane, without its long stories. It usually waits, so
// the others run meanwhile.
const endToEnd = "./test/e2e"

// runTests runs what make test runs: the checks of files and all tests in virtual time, and the suite on a real control
// plane. All of it runs even if some fails.
func runTests(ctx context.Context, out io.Writer) (ok bool, err error) {
	packages, err := testPackages(ctx)
	if err != nil {
		return false, err
	}
	graphs, err := os.MkdirTemp("", "taintkeeper-test-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(graphs)
	began := time.Now()
	meanwhile, err := os.Create("bin/test-virtual-time.log")
	if err != nil {
		return false, err
	}
	defer meanwhile.Close()
	virtual := make(chan error, 1)
	graph := func(name string) string { return filepath.Join(graphs, name) }
	go func() {
		virtual <- errors.Join(
			in("", "make --no-print-directory verify-files").run(ctx, meanwhile),
			goTest(graph("race"), "-race").with(packages...).run(ctx, meanwhile),
			goTest(graph("without")).with(withoutRace...).run(ctx, meanwhile),
		)
	}()
	failed := errors.Join(goTest(graph("real"), "-race", "-v", endToEnd).run(ctx, out), <-virtual)
	log, err := os.ReadFile(meanwhile.Name())
	fmt.Fprintf(out, "%s\n", log)
	err = errors.Join(err, printTimes(out, time.Since(began), graph("real"), graph("race"), graph("without")))
	if failed != nil {
		fmt.Fprintf(out, "failed: %v\n", failed)
	}
	return failed == nil, errors.Join(err, ctx.Err())
}

// withoutRace are packages that the race detector slows down too much: the first runs its own test binary several
// hundred times, and the second walks a hundred thousand states. The proof histories runs both with the race detector.
var withoutRace = []string{"./internal/plugin/cmd", "./test/explore/evictions"}

// goTest runs tests with fewer random histories, and writes how long each step took. Results are not taken from a
// cache, as many tests run programs that it does not know. Without the race detector, it uses what was compiled for the
// product.
func goTest(graph string, args ...string) command {
	cgo := 0
	if slices.Contains(args, "-race") {
		cgo = 1
	}
	return in("", fmt.Sprintf("env CGO_ENABLED=%d go test -short -count=1 -timeout=30m -debug-actiongraph=%s", cgo, graph)).with(args...)
}

// testPackages are all packages of the root module but those that are proofs of their own.
func testPackages(ctx context.Context) ([]string, error) {
	list := exec.CommandContext(ctx, "go", "list", "./...")
	list.Stderr = os.Stderr // says which modules are downloaded
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	apart := slices.Clone(withoutRace)
	for _, p := range proofs {
		apart = append(apart, p.packages...)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(pkg string) bool {
		return slices.Contains(apart, "."+strings.TrimPrefix(pkg, module))
	}), nil
}

// action is a step of go test, as -debug-actiongraph writes it.
type action struct {
	Mode, Package       string
	TimeStart, TimeDone time.Time
	CmdReal             int64 // nanoseconds in other programs, such as the compiler
}

// times says how long a package took.
type times struct{ run, compile time.Duration }

// timesOf reads how long the tests of each package ran, and how long their own compiling and linking took before. What
// they import is under the empty name.
func timesOf(graph []byte) (map[string]times, error) {
	var actions []action
	if err := json.Unmarshal(graph, &actions); err != nil {
		return nil, fmt.Errorf("read how long the tests took: %w", err)
	}
	all := map[string]times{}
	for _, a := range actions {
		if name, ok := strings.CutSuffix(a.Package, ".test"); ok && a.Mode == "link" { // it has tests
			all[name] = times{}
		}
	}
	for _, a := range actions {
		if _, tested := all[a.Package]; tested && a.Mode == "test run" {
			all[a.Package] = times{run: a.TimeDone.Sub(a.TimeStart)}
		}
	}
	for _, a := range actions {
		if a.Mode == "test run" {
			continue
		}
		name := strings.TrimSuffix(strings.TrimSuffix(a.Package, ".test"), "_test")
		name, _, _ = strings.Cut(name, " [")
		if _, tested := all[name]; !tested {
			name = ""
		}
		all[name] = times{all[name].run, all[name].compile + time.Duration(a.CmdReal)}
	}
	return all, nil
}

// printTimes prints how long each package took, the longest first.
func printTimes(out io.Writer, total time.Duration, graphs ...string) error {
	all := map[string]times{}
	for _, file := range graphs {
		graph, err := os.ReadFile(file)
		if os.IsNotExist(err) { // go test did not get that far
			continue
		}
		if err != nil {
			return err
		}
		found, err := timesOf(graph)
		if err != nil {
			return err
		}
		for name, is := range found {
			all[name] = times{all[name].run + is.run, all[name].compile + is.compile}
		}
	}
	var packages []string
	for name := range all {
		packages = append(packages, name)
	}
	slices.SortFunc(packages, func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].run+all[b].compile, all[a].run+all[a].compile), cmp.Compare(a, b))
	})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "seconds\tcompiling\t  package")
	for _, name := range packages {
		is := all[name]
		text := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, module), "/"), "what they import")
		fmt.Fprintf(table, "%.1f\t%.1f\t  %s\n", (is.run + is.compile).Seconds(), is.compile.Seconds(), text)
	}
	fmt.Fprintf(table, "%.0f\t\t  all, at the same time, and the checks of files\n", total.Seconds())
	return table.Flush()
}
