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

func TestATaintWhoseArrivalWasNotSeenIsDueThatMuchLater(t *testing.T) {
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
