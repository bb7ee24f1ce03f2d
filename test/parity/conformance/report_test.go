// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

func printed(results ...result) string {
	var out strings.Builder
	report(&out, results)
	return out.String()
}

func TestTheTableHasARowPerSpecAndAColumnPerRun(t *testing.T) {
	text := printed(judged(runs[0], ended(runs[0])), judged(runs[1], ended(runs[1])))
	for _, want := range []string{
		"SPEC                                                                      BUILT-IN      NOBODY\n",
		"\nNoExecuteTaintManager Single Pod\n",
		"  evicts pods from tainted nodes                                          passed 1.0 s  failed 1.0 s\n",
		"  removing taint cancels eviction [Conformance]                           passed 1.0 s  passed 1.0 s\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	for _, s := range specs {
		if !strings.Contains(text, "  "+untagged(s.text)+"  ") {
			t.Errorf("there is no row for %s", s.name())
		}
	}
}

func TestTheVerdictSaysWhatHadToBeAndWhatWas(t *testing.T) {
	all := judged(runs[2], ended(runs[2]))
	all.took = 5*time.Minute + 400*time.Millisecond
	none := judged(runs[1], ended(runs[1]))
	less := judged(runs[2], ended(runs[2])[:8]) // without the others

	for want, res := range map[string]result{
		"taintkeeper: 7 of 7 NoExecuteTaintManager specs and 6 of 6 others had to pass; 7 and 6 did. As expected, in 5m0s.":                                   all,
		"nobody: 2 of 7 NoExecuteTaintManager specs and 6 of 6 others had to pass; 2 and 6 did, and 5 failed because no pod was evicted. As expected, in 0s.": none,
		"taintkeeper: 7 of 7 NoExecuteTaintManager specs and 6 of 6 others had to pass; 7 and 0 did. NOT as expected, in 0s.":                                 less,
	} {
		if got := res.verdict(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestWhatIsNotAsExpectedIsMarkedAndExplained(t *testing.T) {
	ran := ended(runs[2])
	ran[1].status, ran[1].message = "failed", "[FAILED] Failed to evict Pod\n"+strings.Repeat("a line\n", 50)
	res := judged(runs[2], ran[:len(ran)-1])
	res.state = "cluster"
	text := printed(res)
	for _, want := range []string{
		"failed 1.0 s !", "did not run !", "[FAILED] Failed to evict Pod", "log: e2e.log", "cluster: cluster",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "a line"); n > messageLines {
		t.Errorf("%d lines of a message are shown, want at most %d", n, messageLines)
	}
}

func TestARunThatIsAsExpectedShowsItsFilesAndNoComplaint(t *testing.T) {
	res := judged(runs[0], ended(runs[0]))
	res.junit = "junit.xml"
	text := printed(res)
	if !strings.HasSuffix(text, "\n  JUnit: junit.xml\n  log: e2e.log\n") {
		t.Errorf("it does not end with the files:\n%s", text)
	}
	if strings.Contains(text, "!") {
		t.Errorf("something is marked as unexpected:\n%s", text)
	}
}
