// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// reported is a report as upstream writes it, except for the thousands of specs that were left out.
const reported = `<?xml version="1.0" encoding="UTF-8"?>
  <testsuites tests="7" disabled="3" errors="0" failures="1" time="70.5">
      <testsuite name="Kubernetes e2e suite" package="/home" tests="7" disabled="1" skipped="3" errors="0" failures="1" time="70.5" timestamp="2026-11-21T04:00:00">
          <properties><property name="RandomSeed" value="1"></property></properties>
          <testcase name="[SynchronizedBeforeSuite]" classname="Kubernetes e2e suite" status="passed" time="0.5"></testcase>
          <testcase name="[It] [sig-a] left out" classname="Kubernetes e2e suite" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
          <testcase name="[It] [sig-a] left out, too" classname="Kubernetes e2e suite" status="skipped" time="0"></testcase>
          <testcase name="[It] [sig-a] not written yet" classname="Kubernetes e2e suite" status="pending" time="0"><skipped message="pending"></skipped></testcase>
          <testcase name="[It] [sig-a] ran" classname="Kubernetes e2e suite" status="passed" time="1.25"></testcase>
          <testcase name="[It] [sig-a] failed" classname="Kubernetes e2e suite" status="failed" time="67">
              <failure message="" type="failed">[FAILED] Failed to evict Pod&#xA;In [It] at: taints.go:201</failure>
              <system-err>a long story</system-err>
          </testcase>
          <testcase name="[It] [sig-a] gave up" classname="Kubernetes e2e suite" status="skipped" time="0.1"><skipped message="skipped - needs 2 nodes"></skipped></testcase>
      </testsuite>
  </testsuites>`

func reportFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "junit_01.xml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAReportTellsHowEachSpecEndedThatRan(t *testing.T) {
	report, err := readReport(reportFile(t, reported))
	if err != nil {
		t.Fatal(err)
	}
	want := []outcome{
		{name: "[SynchronizedBeforeSuite]", status: "passed", took: 500 * time.Millisecond},
		{name: "[sig-a] ran", spec: true, status: "passed", took: 1250 * time.Millisecond},
		{name: "[sig-a] failed", spec: true, status: "failed", took: 67 * time.Second, message: "[FAILED] Failed to evict Pod\nIn [It] at: taints.go:201"},
		{name: "[sig-a] gave up", spec: true, status: "skipped", took: 100 * time.Millisecond, message: "skipped - needs 2 nodes"},
	}
	if got := outcomes(report); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestTheFileThatIsKeptCountsAndHoldsOnlyWhatRan(t *testing.T) {
	report, err := readReport(reportFile(t, reported))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "junit.xml")
	if err := writeReport(path, report); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<testsuites tests="4" disabled="1" errors="0" failures="1" time="70.5">`,
		`tests="4" disabled="0" skipped="1" errors="0" failures="1"`,
		"a long story", `name="RandomSeed" value="1"`, "needs 2 nodes",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("%s is missing in:\n%s", want, content)
		}
	}
	for _, unwanted := range []string{"left out", "not written yet"} {
		if strings.Contains(string(content), unwanted) {
			t.Errorf("%q is still in:\n%s", unwanted, content)
		}
	}
}

func TestAReportThatIsNotThereOrIsCutShortIsAnError(t *testing.T) {
	for what, path := range map[string]string{
		"missing":   filepath.Join(t.TempDir(), "junit_01.xml"),
		"cut short": reportFile(t, reported[:len(reported)/2]),
		"empty":     reportFile(t, ""),
	} {
		if _, err := readReport(path); err == nil {
			t.Errorf("%s: got no error", what)
		}
	}
}
