// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command faults plants one mistake after the other in the packages that decide, and prints which kinds of tests notice
// it. Run it at the root of the repository:
//
//	go run ./test/faults                    # all kinds
//	go run ./test/faults -layers=explorer   # one of them
//
// It fails if the explorer notices fewer than -least.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// layer is a kind of tests.
type layer struct {
	name string
	// tests returns the arguments of go test for a fault in a folder, a run each.
	tests func(folder string) [][]string
}

const (
	// nodesExplorer is the explorer of node health, a test in a package with others.
	nodesExplorer  = "TestEveryHistoryOfFourNodes"
	notTheExplorer = "-skip=" + nodesExplorer
)

var layers = []layer{
	{"unit", func(folder string) [][]string {
		if folder == "config" {
			return [][]string{{"-run=Mark", "./test/explore/evictions"}}
		}
		return [][]string{{"-short", notTheExplorer, "./" + folder}}
	}},
	{"histories", func(string) [][]string {
		return [][]string{{
			"-short", "-run=Histories|Random|Every|Whatever", notTheExplorer,
			"./internal/controller/eviction", "./internal/controller/policies", "./internal/controller/nodehealth",
		}}
	}},
	{"explorer", func(folder string) [][]string {
		if folder == "internal/readiness" || folder == "internal/controller/nodehealth" {
			return [][]string{{"-run=" + nodesExplorer, "./internal/controller/nodehealth"}}
		}
		return [][]string{{"-short", "./test/explore/evictions"}}
	}},
}

func main() {
	only := flag.String("only", "", "plant only faults of files whose names have this")
	names := flag.String("layers", "unit,histories,explorer", "the kinds of tests")
	least := flag.Int("least", 27, "how many faults the explorer must notice")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, strings.Split(*names, ","), *only, *least)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string, only string, least int) error {
	used := slices.DeleteFunc(slices.Clone(layers), func(l layer) bool { return !slices.Contains(names, l.name) })
	planted := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !strings.Contains(f.file, only) })
	fmt.Printf("| fault | %s |\n| --- |%s\n", strings.Join(names, " | "), strings.Repeat(" --- |", len(used)))
	noticed := map[string]int{}
	for _, f := range planted {
		fmt.Printf("| `%s`: `%s` → `%s` |", f.file, line(f.was), line(f.is))
		for _, l := range used {
			notices, err := f.noticedBy(ctx, l)
			if err != nil {
				return err
			}
			mark := "-"
			if notices {
				noticed[l.name]++
				mark = "yes"
			}
			fmt.Printf(" %s |", mark)
		}
		fmt.Println()
	}
	for _, l := range used {
		fmt.Printf("%s: %d of %d\n", l.name, noticed[l.name], len(planted))
	}
	if slices.Contains(names, "explorer") && noticed["explorer"] < least {
		return fmt.Errorf("the explorer notices %d faults, want %d at least", noticed["explorer"], least)
	}
	return nil
}

// line returns the first line of a piece of code.
func line(code string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(code), "\n")
	return first
}

// noticedBy reports whether a kind of tests fails with the fault.
func (f fault) noticedBy(ctx context.Context, l layer) (bool, error) {
	overlay, err := f.overlay()
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(filepath.Dir(overlay)) }()
	for _, args := range l.tests(filepath.Dir(f.file)) {
		args = append([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=20m", "-overlay=" + overlay}, args...)
		output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
		var failed *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case strings.Contains(string(output), "[build failed]"):
			return false, fmt.Errorf("%s with %q does not compile: %s", f.file, f.is, output)
		case errors.As(err, &failed):
			return true, nil
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// overlay writes the file with the fault into a folder of its own, and a file for go test -overlay.
func (f fault) overlay() (string, error) {
	planted, err := f.planted()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "fault")
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(f.file)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, filepath.Base(f.file)), filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(changed, []byte(planted), 0o600), os.WriteFile(overlay, data, 0o600))
}

// planted returns the file with the fault.
func (f fault) planted() (string, error) {
	code, err := os.ReadFile(f.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(code), f.was); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, want once", f.file, f.was, n)
	}
	return strings.Replace(string(code), f.was, f.is, 1), nil
}
