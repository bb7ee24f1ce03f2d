// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

func TestLatenessCountsFromWhenAPodHadToLeaveWithoutInterruption(t *testing.T) {
	w := newWorld()
	w.tainted(10, noExecute("off"))
	w.tainted(12)
	w.tainted(14, noExecute("off"))
	w.tolerates(15, tolerating("other", 3)) // changes nothing
	w.evicts(16)
	late := w.lateness()
	if len(late) != 1 || !late[0].due.Equal(sec(14)) || late[0].by != late[0].evicted.answered.Sub(sec(14)) {
		t.Fatalf("%+v, want one eviction that was due at 14 s", late)
	}
	if late[0].explanation.touched || !late[0].unexplained() {
		t.Errorf("%+v: no fault explains it", late[0].explanation)
	}
}

func TestLatenessIsExplainedByTheBackoffOfAPodsOwnFailures(t *testing.T) {
	tests := map[string]struct {
		failures    []float64
		evicted     float64
		unexplained bool
	}{
		"after one failure 100 ms":                    {failures: []float64{10.02}, evicted: 10.2},
		"after one failure not some seconds":          {failures: []float64{10.02}, evicted: 14, unexplained: true},
		"after six failures 3.2 s":                    {failures: []float64{10, 10.1, 10.3, 10.7, 11.5, 13.1}, evicted: 16.4},
		"a failure that comes late explains no delay": {failures: []float64{14}, evicted: 14.2, unexplained: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.tainted(10, noExecute("off"))
			for _, failed := range test.failures {
				w.calls(deletePod, failed).fails()
			}
			w.evicts(test.evicted)
			late := w.lateness()
			if len(late) != 1 || late[0].unexplained() != test.unexplained {
				t.Errorf("%+v, want unexplained %t", late, test.unexplained)
			}
		})
	}
}

func TestATaintThatNobodyCouldSeeWhenItCameIsDueAsMuchLater(t *testing.T) {
	w := newWorld()
	w.tolerates(1, tolerating("off", 5))
	w.episodes = []episode{{span: oracle.Between(sec(5), sec(12)), what: "outage"}}
	w.tainted(9, noExecute("off")) // seen after the outage, at 12 s
	w.evicts(17.1)
	late := w.lateness()
	if len(late) != 1 || !late[0].due.Equal(sec(14)) || late[0].unexplained() || !late[0].explanation.touched {
		t.Errorf("%+v, want one that was due at 14 s and is explained by the outage", late)
	}
}

func TestATaintThatWasSeenLateIsDueAsMuchLaterAndMayBeDueWhenNobodyLeads(t *testing.T) {
	w := newWorld()
	w.tolerates(1, tolerating("off", 5))
	w.episodes = []episode{{span: oracle.Between(sec(5), sec(12)), what: "outage"}}
	w.tainted(9, noExecute("off")) // seen after the outage, at 12 s
	w.lives[0].ended = sec(16)
	w.reigns = append(w.reigns, reign{from: sec(22), holder: "holder-b"})
	w.evicts(22.5).replica = "b"
	late := w.lateness()
	if len(late) != 1 || late[0].unexplained() {
		t.Errorf("%+v, want one that is explained by the outage and then by the election", late)
	}
}
