// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

func judged(r run, ran []outcome) result {
	res := result{run: r, log: "e2e.log"}
	res.rows, res.complaints = judge(r, ran)
	return res
}

func printed(results ...result) string {
	var out strings.Builder
	report(&out, results)
	return out.String()
}

func runNamed(t *testing.T, name string) run {
	t.Helper()
	chosen, err := chooseRuns(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0]
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
		"a spec is missing": {"taintkeeper", func(ran []outcome) []outcome { return slices.Delete(ran, needsEviction, needsEviction+1) },
			"evicts pods from tainted nodes [Serial] did not run"},
		"nothing ran at all": {"nobody", func([]outcome) []outcome { return nil }, "no spec ran"},
		"a spec is missing and another ran twice": {"taintkeeper", func(ran []outcome) []outcome { ran[needsEviction] = ran[needsNone]; return ran },
			"evicts pods from tainted nodes [Serial] did not run"},
		"as many passed but under another name": {"taintkeeper", func(ran []outcome) []outcome {
			ran[needsEviction].name = "[sig-node] NoExecuteTaintManager Single Pod something new [Serial]"
			return ran
		}, "something new [Serial] ran and is not in the list of specs"},
		"a part of the suite bears the name of a spec": {"taintkeeper", func(ran []outcome) []outcome { ran[needsEviction].spec = false; return ran },
			"evicts pods from tainted nodes [Serial] did not run"},
		"a spec fails that must pass":                             {"taintkeeper", ends(needsEviction, "failed", "Failed to evict Pod"), "failed, but had to pass"},
		"a spec skips itself":                                     {"built-in", ends(needsNone, "skipped", "skipped - needs 2 nodes"), "skipped, but had to pass"},
		"a spec passes that must fail":                            {"nobody", ends(needsEviction, statusPassed, ""), "passed, but had to fail, because nothing evicts in this run"},
		"a spec fails for another reason than a missing eviction": {"nobody", ends(needsEviction, "failed", "connection refused"), "not because no pod was evicted"},
		"a spec fails that expects no eviction":                   {"nobody", ends(needsNone, "failed", ""), "failed, but had to pass"},
		"the suite fails before its specs":                        {"built-in", ends(0, "failed", "no nodes"), "[SynchronizedBeforeSuite] of the suite failed: no nodes"},
	} {
		t.Run(what, func(t *testing.T) {
			r := runNamed(t, c.run)
			res := judged(r, c.change(ended(r)))
			if res.asExpected() != (c.complaint == "") || asExpected([]result{res}) != res.asExpected() {
				t.Errorf("it counts as expected: %t", res.asExpected())
			}
			if lines := strings.Join(res.complaintLines(), "\n"); !strings.Contains(lines, c.complaint) {
				t.Errorf("the complaints do not say %q:\n%s", c.complaint, lines)
			}
		})
	}
}

func TestAProcessThatFailsThoughNothingInItsReportDidIsAnError(t *testing.T) {
	success, failure := ended(runs[0]), ended(runs[1])
	for _, c := range []struct {
		status      status
		ran         []outcome
		contradicts bool
	}{
		{"exit status 0", success, false}, {"exit status 1", failure, false},
		{"exit status 1", success, true}, {"signal: killed", success, true},
	} {
		if err := contradiction(c.status, c.ran); (err != nil) != c.contradicts {
			t.Errorf("%s: got error %v", c.status, err)
		}
	}
}

// status stands for an [os.ProcessState].
type status string

func (s status) String() string { return string(s) }

// reported is a report as upstream writes it, except for the thousands of specs that were left out.
const reported = `<?xml version="1.0" encoding="UTF-8"?>
  <testsuites tests="7" disabled="3" errors="0" failures="1" time="70.5">
      <testsuite name="Kubernetes e2e suite" package="/home" tests="7" disabled="1" skipped="3" errors="0" failures="1" time="70.5" timestamp="2026-11-21T04:00:00">
          <testcase name="[SynchronizedBeforeSuite]" classname="Kubernetes e2e suite" status="passed" time="0.5"></testcase>
          <testcase name="[It] [sig-a] left out" classname="Kubernetes e2e suite" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
          <testcase name="[It] [sig-a] left out, too" classname="Kubernetes e2e suite" status="skipped" time="0"></testcase>
          <testcase name="[It] [sig-a] not written yet" classname="Kubernetes e2e suite" status="pending" time="0"><skipped message="pending"></skipped></testcase>
          <testcase name="[It] [sig-a] ran" classname="Kubernetes e2e suite" status="passed" time="1.25"></testcase>
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
			{name: "[sig-a] ran", spec: true, status: "passed", took: 1250 * time.Millisecond},
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

func TestFiveSpecsMustFailIfNothingEvictsAndNoneOtherwise(t *testing.T) {
	eviction := 0
	for _, s := range specs {
		if s.aboutEviction() {
			eviction++
		}
	}
	if eviction != 7 || len(specs) != 13 {
		t.Errorf("got %d specs of eviction among %d, want 7 among 13", eviction, len(specs))
	}
	for _, r := range runs {
		fail := 0
		for _, s := range specs {
			if !s.passesIn(r) {
				fail++
			}
		}
		if nobody := r.name == "nobody"; fail != map[bool]int{true: 5}[nobody] {
			t.Errorf("%s: %d specs must fail", r.name, fail)
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

func TestRunsAreChosenByNameAndPlayedInTheirOwnOrder(t *testing.T) {
	for flag, want := range map[string]string{
		"": "built-in nobody taintkeeper taintkeeper-coexist taintkeeper-all", "taintkeeper": "taintkeeper",
		"taintkeeper,built-in": "built-in taintkeeper", "nobody,nobody": "nobody",
		"ours": "", "built-in,": "", "built-in, nobody": "",
	} {
		chosen, err := chooseRuns(flag, nil)
		var names []string
		for _, r := range chosen {
			names = append(names, r.name)
		}
		if got := strings.Join(names, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("-runs=%s: got %q and error %v, want %q", flag, got, err, want)
		}
	}
	if _, err := chooseRuns("", []string{"taintkeeper"}); err == nil {
		t.Error("got no error for an argument, which would otherwise be ignored")
	}
}

func TestTheTableHasARowPerSpecAndAColumnPerRunAndAVerdict(t *testing.T) {
	ran := ended(runs[2])
	ran[1].status, ran[1].message = "failed", "[FAILED] Failed to evict Pod\n"+strings.Repeat("a line\n", 50)
	bad := judged(runs[2], ran[:len(ran)-1])
	bad.state = "cluster"
	text := printed(judged(runs[0], ended(runs[0])), judged(runs[1], ended(runs[1])), bad)
	for _, want := range []string{
		"SPEC                                                                      BUILT-IN      NOBODY        ",
		"\nNoExecuteTaintManager Single Pod ",
		"  evicts pods from tainted nodes                                          passed 1.0 s  failed 1.0 s  failed 1.0 s !\n",
		"did not run !",
		"\n  removing taint cancels eviction [Conformance]  ",
		"nobody: 2 of 7 NoExecuteTaintManager specs and 6 of 6 others had to pass; 2 and 6 did, and 5 failed because no pod was evicted. As expected, in 0s.",
		"taintkeeper: 7 of 7 NoExecuteTaintManager specs and 6 of 6 others had to pass; 6 and 5 did. NOT as expected, in 0s.",
		"[FAILED] Failed to evict Pod", "log: e2e.log", "cluster: cluster",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "a line"); n > messageLines {
		t.Errorf("%d lines of a message are shown, want at most %d", n, messageLines)
	}
}
