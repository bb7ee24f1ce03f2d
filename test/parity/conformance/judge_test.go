// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
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

func TestARunIsAsExpectedWhenEverySpecEndsAsItMust(t *testing.T) {
	for _, r := range runs {
		if res := judged(r, ended(r)); !res.asExpected() {
			t.Errorf("%s: %v", r.name, res.complaintLines())
		}
	}
}

// The first spec needs an eviction, the second expects none.
func TestWhatIsNotAsExpected(t *testing.T) {
	const needsEviction, needsNone = 1, 2 // in ended
	for what, c := range map[string]struct {
		run       string
		change    func([]outcome) []outcome
		complaint string
	}{
		"a spec is missing": {
			"taintkeeper", func(ran []outcome) []outcome { return slices.Delete(ran, needsEviction, needsEviction+1) },
			"evicts pods from tainted nodes [Serial] did not run",
		},
		"nothing ran at all": {
			"nobody", func([]outcome) []outcome { return nil },
			"no spec ran",
		},
		"a spec is missing and another ran twice": {
			"taintkeeper", func(ran []outcome) []outcome { ran[needsEviction] = ran[needsNone]; return ran },
			"evicts pods from tainted nodes [Serial] did not run",
		},
		"as many passed but under another name": {
			"taintkeeper", func(ran []outcome) []outcome {
				ran[needsEviction].name = "[sig-node] NoExecuteTaintManager Single Pod something new [Serial]"
				return ran
			},
			"something new [Serial] ran and is not in the list of specs",
		},
		"a part of the suite bears the name of a spec": {
			"taintkeeper", func(ran []outcome) []outcome { ran[needsEviction].spec = false; return ran },
			"evicts pods from tainted nodes [Serial] did not run",
		},
		"a spec fails that must pass": {
			"taintkeeper", func(ran []outcome) []outcome {
				ran[needsEviction].status, ran[needsEviction].message = "failed", "Failed to evict Pod"
				return ran
			},
			"failed, but had to pass",
		},
		"a spec skips itself": {
			"built-in", func(ran []outcome) []outcome {
				ran[needsNone].status, ran[needsNone].message = "skipped", "skipped - needs 2 nodes"
				return ran
			},
			"skipped, but had to pass",
		},
		"a spec passes that must fail": {
			"nobody", func(ran []outcome) []outcome { ran[needsEviction].status = statusPassed; return ran },
			"passed, but had to fail, because nothing evicts in this run",
		},
		"a spec fails for another reason than a missing eviction": {
			"nobody", func(ran []outcome) []outcome { ran[needsEviction].message = "connection refused"; return ran },
			"not because no pod was evicted",
		},
		"a spec fails that expects no eviction": {
			"nobody", func(ran []outcome) []outcome { ran[needsNone].status = "failed"; return ran },
			"failed, but had to pass",
		},
		"the suite fails before its specs": {
			"built-in", func(ran []outcome) []outcome { ran[0].status, ran[0].message = "failed", "no nodes"; return ran },
			"[SynchronizedBeforeSuite] of the suite failed: no nodes",
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := runNamed(t, c.run)
			res := judged(r, c.change(ended(r)))
			if res.asExpected() {
				t.Fatal("it counts as expected")
			}
			if lines := strings.Join(res.complaintLines(), "\n"); !strings.Contains(lines, c.complaint) {
				t.Errorf("the complaints do not say %q:\n%s", c.complaint, lines)
			}
		})
	}
}

func TestOneUnexpectedRunIsEnough(t *testing.T) {
	good, bad := judged(runs[0], ended(runs[0])), judged(runs[2], nil)
	if asExpected([]result{good, bad}) {
		t.Error("a run without its specs counts as expected next to one with them")
	}
	if !asExpected([]result{good}) {
		t.Error("a run that is as expected does not count as such")
	}
}

func TestAProcessThatFailsThoughNothingInItsReportDidIsAnError(t *testing.T) {
	success, failure := ended(runs[0]), ended(runs[1])
	for _, c := range []struct {
		what, status string
		ran          []outcome
		contradicts  bool
	}{
		{"all passed", "exit status 0", success, false},
		{"some failed", "exit status 1", failure, false},
		{"all passed and the process failed", "exit status 1", success, true},
		{"all passed and the process was killed", "signal: killed", success, true},
	} {
		if err := contradiction(status(c.status), c.ran); (err != nil) != c.contradicts {
			t.Errorf("%s: got error %v", c.what, err)
		}
	}
}

// status stands for an [os.ProcessState].
type status string

func (s status) String() string { return string(s) }

var _ interface{ String() string } = (*os.ProcessState)(nil)
