// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestTheReportCountsWhatHappenedAndFindsNothingWrong(t *testing.T) {
	w := newWorld()
	w.injected = map[faultKind]int{internalError: 3, cutWatch: 2, hungReview: 4, clockBehind: 1, swapped: 6}
	w.lives[1].how = endedItself
	w.watch("b", watchNodes).closed = sec(50)
	w.streams = append(w.streams, stream{replica: "b", run: 1, kind: watchNodes, opened: sec(54)})
	w.tainted(10, noExecute("off"))
	w.evicts(10.05)
	w.pods["other"] = &pod{uid: "other", name: "default/other", states: []podState{{podFacts: podFacts{mirror: true, node: theNode}}}}

	var out strings.Builder
	if !w.report(&out, map[disruption]int{killLeader: 4}) {
		t.Error("something is said to be wrong")
	}
	for _, line := range []string{
		"       3  500", "       4  admission hanging", "       1  clock of a replica set behind", "       6  not-ready and unreachable swapped", "       2  watch cut", "      16  in all, in 3 calls", "       4  leader killed",
		"       1  times a replica exited on its own", "       4  seconds at most that a running replica had no watch", "       2  existed", "       1  evicted", "       0  deleted by others first",
		"       1 evicted, half within 55ms, 9 in 10 within 55ms, 99 in 100 within 55ms, all within 55ms  not touched by a fault",
		"       0  later than the faults explain", "  lost    0", "  late    0", "  twice   0", "  foreign 0",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
}

func TestTheReportTellsTheStoryOfWhatIsWrong(t *testing.T) {
	w := newWorld()
	w.tolerates(1, forever("off"))
	w.tainted(10, noExecute("off"))
	w.evicts(20)
	var out strings.Builder
	if w.report(&out, nil) {
		t.Error("nothing is said to be wrong")
	}
	for _, line := range []string{"  wrong   2", "wrong: default/pod: DELETE pod by run 1 of a", "[off Exists forever]", "DELETE pod default/pod"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
}

func TestAnEvictionThatIsALittleLateIsReportedButIsNotWrong(t *testing.T) {
	w := newWorld()
	w.tainted(10, noExecute("off"))
	w.evicts(14)
	var out strings.Builder
	if !w.report(&out, nil) {
		t.Error("it is said to be wrong")
	}
	if !strings.Contains(out.String(), "       1  later than the faults explain") ||
		!strings.Contains(out.String(), "not explained: pod default/pod left node node 4.005s after it was due; the faults explain 0s of it") {
		t.Errorf("the lateness is missing in\n%s", out.String())
	}
}
