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
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ended is how the specs end in a run that is as expected.
func ended(r run) []outcome {
	all := []outcome{{name: "[SynchronizedBeforeSuite]", status: statusPassed}}
	for _, s := range specs {
		o := outcome{name: s.name(), spec: true, status: statusPassed, took: time.Second}
		if !s.passesIn(r) {
			o.status, o.message = "failed", "[FAILED] "+s.unevicted+" and more"
		}
		all = append(all, o)
	}
	return all
}

// The first spec needs an eviction, the second expects none.
func TestWhatIsNotAsExpected(t *testing.T) {
	const needsEviction, needsNone = 1, 2 // in ended
	ends := func(i int, status, message string) func([]outcome) []outcome {
		return func(ran []outcome) []outcome { ran[i].status, ran[i].message = status, message; return ran }
	}
	for what, c := range map[string]struct {
		run       string
		change    func([]outcome) []outcome
		complaint string // empty: it is as expected
	}{
		"nothing, with the built-in":  {"built-in", slices.Clone[[]outcome], ""},
		"nothing, with nobody":        {"nobody", slices.Clone[[]outcome], ""},
		"nothing, with Taintkeeper":   {"taintkeeper", slices.Clone[[]outcome], ""},
		"nothing, with both":          {"taintkeeper-coexist", slices.Clone[[]outcome], ""},
		"nothing, with all our parts": {"taintkeeper-all", slices.Clone[[]outcome], ""},
		"nothing ran at all":          {"nobody", func([]outcome) []outcome { return nil }, "it did not run"},
		"a spec is missing and another ran twice": {"taintkeeper", func(ran []outcome) []outcome { ran[needsEviction] = ran[needsNone]; return ran },
			"evicts pods from tainted nodes [Serial]\n  ! it did not run"},
		"as many passed but under another name": {"taintkeeper", func(ran []outcome) []outcome {
			ran[needsEviction].name = "[sig-node] NoExecuteTaintManager Single Pod something new [Serial]"
			return ran
		}, "something new [Serial] ran and is not in the list of specs"},
		"a part of the suite bears the name of a spec": {"taintkeeper", func(ran []outcome) []outcome { ran[needsEviction].spec = false; return ran },
			"evicts pods from tainted nodes [Serial]\n  ! it did not run"},
		"a spec fails that must pass":                             {"taintkeeper", ends(needsEviction, "failed", "Failed to evict Pod"), "it had to pass:\n      Failed to evict Pod"},
		"a spec skips itself":                                     {"built-in", ends(needsNone, "skipped", "skipped - needs 2 nodes"), "it had to pass"},
		"a spec passes that must fail":                            {"nobody", ends(needsEviction, statusPassed, ""), "it had to fail, because nothing evicts in this run"},
		"a spec fails for another reason than a missing eviction": {"nobody", ends(needsEviction, "failed", "connection refused"), "not because no pod was evicted"},
		"the suite fails before its specs":                        {"built-in", ends(0, "failed", "no nodes"), "[SynchronizedBeforeSuite] of the suite failed: no nodes"},
	} {
		t.Run(what, func(t *testing.T) {
			chosen, err := chooseRuns(c.run)
			if err != nil {
				t.Fatal(err)
			}
			r := result{run: chosen[0]}
			r.rows, r.complaints = judge(r.run, c.change(ended(r.run)))
			var said strings.Builder
			r.report(&said)
			if r.asExpected() != (c.complaint == "") || !strings.Contains(said.String(), c.complaint) {
				t.Errorf("it counts as expected: %t; it does not say %q:\n%s", r.asExpected(), c.complaint, &said)
			}
		})
	}
}

// reported is a report as upstream writes it, except for the thousands of specs that were left out.
const reported = `<?xml version="1.0" encoding="UTF-8"?>
  <testsuites tests="7" disabled="3" errors="0" failures="1" time="70.5">
      <testsuite name="Kubernetes e2e suite" package="/home" tests="7" disabled="1" skipped="3" errors="0" failures="1" time="70.5" timestamp="2026-11-21T04:00:00">
          <testcase name="[SynchronizedBeforeSuite]" classname="Kubernetes e2e suite" status="passed" time="0.5"></testcase>
          <testcase name="[It] [sig-a] left out" classname="Kubernetes e2e suite" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
          <testcase name="[It] [sig-a] left out, too" classname="Kubernetes e2e suite" status="skipped" time="0"></testcase>
          <testcase name="[It] [sig-a] not written yet" classname="Kubernetes e2e suite" status="pending" time="0"><skipped message="pending"></skipped></testcase>
          <testcase name="[It] [sig-a] failed" classname="Kubernetes e2e suite" status="failed" time="67">
              <failure message="" type="failed">[FAILED] Failed to evict Pod&#xA;In [It] at: taints.go:201</failure>
          </testcase>
          <testcase name="[It] [sig-a] gave up" classname="Kubernetes e2e suite" status="skipped" time="0.1"><skipped message="skipped - needs 2 nodes"></skipped></testcase>
      </testsuite>
  </testsuites>`

func TestAReportTellsHowEachSpecEndedThatRan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "junit_01.xml")
	for content, want := range map[string][]outcome{
		reported: {
			{name: "[SynchronizedBeforeSuite]", status: "passed", took: 500 * time.Millisecond},
			{name: "[sig-a] failed", spec: true, status: "failed", took: 67 * time.Second, message: "[FAILED] Failed to evict Pod\nIn [It] at: taints.go:201"},
			{name: "[sig-a] gave up", spec: true, status: "skipped", took: 100 * time.Millisecond, message: "skipped - needs 2 nodes"},
		},
		reported[:len(reported)/2]: nil, "": nil,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readReport(path); !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("got %+v and error %v\nwant %+v", got, err, want)
		}
	}
}

func TestTheFocusSelectsEverySpecAndNoNeighborOfOne(t *testing.T) {
	names := map[string]bool{
		"[sig-node] RuntimeClass should run a Pod requesting a RuntimeClass with scheduling without taints":                false,
		"[sig-scheduling] SchedulerPredicates validates that NodeSelector is respected if matching [Conformance] [Serial]": false,
		"[sig-cli] Kubectl client Kubectl taint should update the taint on a node twice [Serial]":                          false,
		// One that is not listed yet must not go unnoticed.
		"[sig-node] NoExecuteTaintManager Single Pod evicts something new [Serial]": true,
	}
	for _, s := range specs {
		names[s.name()] = true
	}
	for name, want := range names {
		// As ginkgo does it: any of the expressions is enough, anywhere in the name.
		selected := slices.ContainsFunc(focus(), func(expression string) bool {
			return regexp.MustCompile(expression).MatchString("Kubernetes e2e suite " + name)
		})
		if selected != want {
			t.Errorf("%s is selected: %t", name, selected)
		}
	}
}

func TestARunThatCannotBePlayedIsNotAsExpected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := suite{results: file} // no folder can be made in it
	results := s.playAll(t.Context(), runs[:2])
	if len(results) != 2 || results[0].asExpected() || !strings.Contains(results[0].complaints[0], "make an empty folder for the results") {
		t.Errorf("got %+v, want a complaint for each run", results)
	}
	if _, err := chooseRuns("built-in,ours"); err == nil {
		t.Error("got no error for a run that does not exist")
	}
}

// An interrupt ends the binary and all that it has started.
func TestAnInterruptEndsTheSpecs(t *testing.T) {
	folder := t.TempDir()
	alive := filepath.Join(folder, "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	s := suite{e2e: filepath.Join(folder, "e2e.test")}
	script := "#!/bin/sh\ntrap '' TERM INT\nexec 3>'" + alive + "'\nsleep 600 &\nsleep 600\n"
	if err := os.WriteFile(s.e2e, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.runE2E(ctx, filepath.Join(folder, "home"), filepath.Join(folder, "log"))
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
