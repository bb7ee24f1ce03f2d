// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestTheJudge plays timelines to the judge: the audit log, the observer's watch and the ledger of what chaos did. A
// row says in its name what it is about, then what happened at which second, and which verdict must follow. No verdict
// means that all is right, and "unexplained" that no fault explains a delay that is too short to be wrong.
func TestTheJudge(t *testing.T) {
	for _, row := range []struct{ name, timeline, verdict string }{
		{"a pod that tolerates nothing leaves at once", "10 taints off; 10.05 a evicts", ""},
		{"a pod leaves when its seconds are over", "1 tolerates off=5; 10 taints off; 15.05 a evicts", ""},
		{"a pod leaves 4 s after it was due", "10 taints off; 14 a evicts", "unexplained"},
		{"it is due since the last time it had to leave", "10 taints off; 12 untainted; 14 taints off; 15 tolerates other=3; 17.9 a evicts", "unexplained"},
		{"it is due since 10 s, whatever it tolerates since 13 s", "10 taints off; 13 tolerates other=3; 16 a evicts", "late"},
		{"a pod leaves 5 s after it was due", "10 taints off; 15 a evicts", "late"},
		{"a pod that had to leave never does", "10 taints off", "lost"},

		{"a pod leaves a moment before its seconds are over", "1 tolerates off=5; 10 taints off; 14.995 a evicts", "early early"},
		{"a DELETE that never arrives is decided on too early", "1 tolerates off=5; 10 taints off; 12 a deletes failing; 15.05 a evicts", "early"},
		{"a mirror pod leaves", "1 mirror; 10 taints off; 20 a evicts", "wrong wrong"},
		{"a pod that tolerates the taint forever leaves", "1 tolerates off; 10 taints off; 20 a evicts", "wrong wrong"},

		// Untainted: each eviction needs a live read of the node.
		{"a pod leaves long after the untaint", "10 taints off; 11 untainted; 12.2 a evicts", "wrong wrong"},
		{"by a live read that was made just before the untaint", "10 taints off; 11 untainted; 11.4 a evicts", ""},
		{"by a live read that was made long before", "10 taints off; 10.9 a reads; 11 untainted; 13 a deletes; 13.005 leaves by replica", "wrong"},
		{"by a live read whose answer was held up", "10 taints off; 10.9 a reads told=13; 11 untainted; 13.01 a deletes; 13.02 leaves by replica", ""},
		{
			"by a live read whose call was held up, and that could show the untaint",
			"10 taints off; 10.9 a reads forwarded=12.99; 11 untainted; 13.01 a deletes; 13.02 leaves by replica", "wrong",
		},

		// The seconds were lengthened: each DELETE is decided by what the API server has shown of the pod.
		{
			"while the watch was cut, and the answer to the PATCH shows it",
			"1 tolerates off=5; 10 taints off; 11 a unwatches pods; 12 tolerates off=100; 15.05 a evicts", "early",
		},
		{
			"while the watch was cut, after the answer to the PATCH",
			"1 tolerates off=5; 10 taints off; 11 a unwatches pods; 15.045 tolerates off=100; 15.05 a evicts", "",
		},
		{
			"while the watch was held up, and the answer to the PATCH is lost",
			"1 tolerates off=5; 10 taints off; 11.5 a stalls pods until 16; 12 tolerates off=100; 15.02 a marks lost; 15.03 a deletes; 15.035 leaves by replica", "",
		},
		{
			"while the watch was held up, and a GET shows it",
			"1 tolerates off=5; 10 taints off; 11.5 a stalls pods until 16; 12 tolerates off=100; 15.02 a gets; 15.03 a deletes; 15.035 leaves by replica", "early",
		},
		{
			"and only the other replica's watch was cut",
			"1 tolerates off=5; 10 taints off; 11 b unwatches pods; 12 tolerates off=100; 15.05 a evicts", "early early",
		},

		// A DELETE hangs: it is aborted when the pod may stay.
		{"and is carried out long after the untaint", "10 taints off; 10.03 a reads; 10.05 a deletes answered=20; 12 untainted; 20 leaves by replica", "wrong"},
		{
			"and is carried out before the untaint, but answered long after",
			"10 taints off; 10.03 a reads; 10.05 a deletes answered=20; 11 a unwatches pods; 11.5 leaves by replica; 12 untainted", "",
		},
		{"and is carried out soon after the untaint", "10 taints off; 10.03 a reads; 10.05 a deletes answered=13.4; 12 untainted; 13.4 leaves by replica", ""},
		{
			"and is carried out long after the untaint, which no watch brings",
			"10 taints off; 10.03 a reads; 10.05 a deletes answered=20; 11 a stalls nodes until 20; 12 untainted; 20 leaves by replica", "",
		},

		{"a DELETE has no UID", "10 taints off; 10.05 a evicts uid=", "wrong"},
		{"a DELETE has the UID of no pod with that name", "10 taints off; 10.05 a evicts name=default/other", "wrong"},
		{"a DELETE comes again although its answer had arrived", "10 taints off; 10.05 a evicts; 10.15 a deletes", "twice"},
		{"a DELETE comes again because its answer was lost", "10 taints off; 10.05 a evicts lost; 10.15 a deletes", ""},
		{"another replica deletes again what its watch has shown to terminate", "10 taints off; 10.05 a evicts; 12 b deletes", "twice"},
		{"another replica deletes again what its watch could not show", "9 b unwatches pods; 10 taints off; 10.05 a evicts; 12 b deletes", ""},
		{"a pod that somebody else deleted long ago is deleted", "10 taints off; 10.01 leaves by kwok; 12 a deletes", "wrong"},

		// A pod is marked first. If that fails three times, it is deleted anyway.
		{"a pod is deleted without a mark", "10 taints off; 10.05 a removes", "strange"},
		{"after two marks that failed", "10 taints off; 10.05 a marks failing; 10.2 a marks failing; 10.4 a removes", "strange"},
		{"after three", "10 taints off; 10.05 a marks failing; 10.2 a marks failing; 10.4 a marks failing; 10.8 a removes", ""},

		// What excuses a delay, and what does not.
		{"a pod is still there after the longest recovery, whatever explains it", "9 outage until 200; 10 taints off; 50 calm", "lost"},
		{"a taint is seen only after the outage", "1 tolerates off=5; 5 outage until 12; 9 taints off; 17.1 a evicts", ""},
		{
			"the API server goes down a second after the next leader began, before anything can be late",
			"9 a ends; 10 taints off; 20 b leads; 22.2 outage until 50; 54 untainted", "",
		},
		{"the API server goes down long after the next leader began", "9 a ends; 10 taints off; 20 b leads; 23 outage until 50; 54 untainted", "lost"},
		{"no watch can be opened", "9 a unwatches nodes; 10 taints off; 40 untainted", ""},
		{"only the standby's watch is held up", "9 b stalls pods until 200; 10 taints off; 150 untainted", "lost"},
		{"the leader's watch of pods is held up", "9 a stalls pods until 60; 10 taints off; 61 untainted", ""},
		{"a pod is left alone after one failed call, for longer than the backoff of one", "10 taints off; 10.05 a deletes failing; 45 untainted", "late"},
		{
			"a pod waits for the backoff of many calls that failed",
			"10 taints off; 10.05 a deletes failing; 10.2 a deletes failing; 10.4 a deletes failing; 10.8 a deletes failing; 11.6 a deletes failing; " +
				"13.2 a deletes failing; 16.4 a deletes failing; 22.8 a deletes failing; 39 untainted", "",
		},
		{"a pod leaves 6 s late because the deletes of others hang", "9 webhook hangs until 29; 10 taints off; 16 a evicts", "late"},
		{"a guarded pod leaves when the webhook answers again", "guarded; 9 webhook hangs until 29; 10 taints off; 30 a evicts", ""},
		{
			"a guarded pod waits longer because it was refused often",
			"guarded; 9 webhook refuses until 23; 10 taints off; 10.05 a deletes refused; 10.2 a deletes refused; 10.4 a deletes refused; 10.8 a deletes refused; " +
				"11.6 a deletes refused; 13.2 a deletes refused; 16.4 a deletes refused; 22.8 a deletes refused; 41 a evicts", "",
		},

		// Wrong clocks, and taints with a timeAdded.
		{"the leader's clock is behind, but it saw the taint come", "5 a clock -20 until 180; 10 taints off; 31 a evicts", "lost"},
		{
			"a leader whose clock is behind counts a taint with an earlier timeAdded from when it saw it",
			"1 tolerates off=15; 5 a clock -60 until 180; 30 taints off@10; 45 a evicts", "",
		},
		{"and after it was set right from its timeAdded", "1 tolerates off=15; 5 a clock -60 until 29; 30 taints off@10; 45 a evicts", "lost"},
		{"and so does one whose clock is ahead", "1 tolerates off=15; 5 a clock 60 until 180; 30 taints off@10; 45 a evicts", "lost"},
		{"and not by the clock of the other", "1 tolerates off=15; 5 b clock -60 until 180; 30 taints off@10; 45 a evicts", "lost"},
		{
			"not-ready becomes unreachable while the leader's watch of nodes is broken, which begins the count again",
			"1 tolerates not-ready=20 unreachable=20; 10.9 taints not-ready@10; 24 a unwatches nodes; 25.9 taints not-ready@10 unreachable@25; " +
				"25.91 taints unreachable@25; 26 a watches nodes; 46.05 a evicts", "",
		},
		{
			"and even later for a leader that began only then",
			"1 tolerates not-ready=20 unreachable=20; 10.9 taints not-ready@10; 25.9 taints not-ready@10 unreachable@25; 25.91 taints unreachable@25; " +
				"26 a starts; 52 a evicts", "late",
		},

		// What a replica writes to a node.
		{"a timeAdded that was put off is written back", "1 tolerates off; 10.3 taints off@10; 20.3 taints off@20; 20.6 a writes off@10", ""},
		{"a timeAdded is put off by a replica", "1 tolerates off; 10.3 taints off@10; 20.6 a writes off@20", "wrong"},
		{"a timeAdded is removed by a replica", "1 tolerates off; 10.3 taints off@10; 20.6 a writes off", "wrong"},
		{"a timeAdded is written by a clock that is ahead", "1 tolerates off; 10.3 taints off; 10.6 a writes off@70", "late"},
		{"one in the future that somebody else wrote is left alone", "1 tolerates off other; 10.3 taints off@70 other; 10.6 a writes off@70 other@10", ""},
		{"a timeAdded that is before the taint is written", "1 tolerates off; 10.3 taints off; 10.6 a writes off@9", "early"},
		{"a taint of somebody else is undone by writing a timeAdded", "1 tolerates off other; 10.3 taints off; 10.4 taints off other; 10.6 a writes off@10", "wrong"},
		{"a value of somebody else is undone by writing a timeAdded", "1 tolerates off; 10.3 taints off; 10.4 taints off=now; 10.6 a writes off@10", "wrong"},
		{"a replica hands the evictions back when it is stopped", "1 tolerates off; 10 taints off@10; 200 a stops; 201 a writes off@201", ""},

		// The built-in, next to the eviction clock: it may not mark while that is fresh, and nobody can stop it after that.
		{"it evicts when the eviction clock is stale", "-25 a renews; 10 taints off; 10.05 built-in marks; 10.06 built-in deletes", ""},
		{
			"it marks and deletes while the clock is fresh",
			"-70 a renews; -45 a renews; -20 a renews; 5 a renews; 10 taints off; 10.05 built-in marks; 10.06 built-in deletes", "foreign foreign",
		},
		{"it marks just before the clock is renewed", "10 taints off; 10.05 built-in marks; 10.1 a renews; 14 built-in deletes", ""},
		{"it marks again what it had marked", "1 tolerates off; 10 built-in marks; 12 a renews; 14 built-in marks", ""},
		{
			"it deletes what it did not mark, and the clock had been fresh for long",
			"-70 a renews; -45 a renews; -20 a renews; 5 a renews; 10 taints off; 10.05 manager deletes", "foreign",
		},

		// The built-in works off its backlog by name: what a replica has recorded, it may not delete when it may stay.
		{"a replica has recorded that the pod was due", "10 taints off; 12 untainted; 14 a renews; 70 built-in deletes", "wrong"},
		{"the pod may stay since the last record", "10 taints off; 11 a renews; 12 untainted; 70 built-in deletes", ""},
		{"the replica that recorded has not seen that it was due", "10 taints off; 12 untainted; 13 a starts; 15 a renews; 70 built-in deletes", ""},
		{"it marked the pod while that was due", "10 taints off; 11 built-in marks; 12 untainted; 14 a renews; 30 built-in deletes", ""},
		{"no pod of that name was ever due", "70 built-in deletes", "wrong"},
		{"a DELETE follows that no replica is known to have sent", "10 taints off; 10.05 a evicts; 12 leaves by replica", "strange"},
		{"a pod took the name of one that was due", "10 taints off; 11.5 a renews; 12 leaves by replica; 13 successor; 70 manager deletes", "wrong"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := play(t, row.timeline)
			var verdict []string
			found := h.judge()
			for _, f := range found {
				verdict = append(verdict, string(f.charge))
			}
			for _, d := range h.delays() {
				if len(found) == 0 && d.evicted != nil && d.unexplained() {
					verdict = append(verdict, "unexplained")
				}
			}
			if got := strings.Join(verdict, " "); got != row.verdict {
				t.Errorf("%s:\n%q, want %q: %v", row.timeline, got, row.verdict, found)
			}
		})
	}
}
