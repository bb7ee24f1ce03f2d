// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// after is an instant of a story that begins at began.
func after(d time.Duration) time.Time { return began.Add(d) }

const perTry = time.Second / 2

func newHold() Hold { return NewHold(float32(callsPerTry / perTry.Seconds())) }

// storm makes pods of a node due at an instant.
func (h *Hold) storm(at time.Time, node string, tries int) {
	h.Decided(NodeTries{Node: node, Begun: tries, From: at}, at)
}

func (h *Hold) wantSpared(t *testing.T, want string) {
	t.Helper()
	names, _ := h.Nodes()
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%q are spared, want %q", got, want)
	}
}

func TestAHoldLastsAsLongAsTheBuiltInTakesForAllItsTries(t *testing.T) {
	for name, test := range map[string]struct {
		play func(h *Hold)
		want time.Duration // until T
	}{
		"one storm":                                {func(h *Hold) { h.storm(began, "n", 100) }, 50*time.Second + slack},
		"two nodes at once":                        {func(h *Hold) { h.storm(began, "n", 100); h.storm(began, "m", 20) }, time.Minute + slack},
		"more while the first are worked off":      {func(h *Hold) { h.storm(began, "n", 100); h.storm(after(20*time.Second), "m", 20) }, time.Minute + slack},
		"more after the first are worked off":      {func(h *Hold) { h.storm(began, "n", 10); h.storm(after(time.Minute), "m", 20) }, 70*time.Second + slack},
		"the API server stands still meanwhile":    {func(h *Hold) { h.storm(began, "n", 100); h.Stalled(after(10*time.Second), after(50*time.Second)) }, 90*time.Second + slack},
		"it stands still once all is over":         {func(h *Hold) { h.storm(began, "n", 100); h.Stalled(after(time.Hour), after(2*time.Hour)) }, 50*time.Second + slack},
		"what is decided again is not tried again": {func(h *Hold) { h.storm(began, "n", 100); h.storm(after(time.Second), "n", 0) }, 50*time.Second + slack},
		"it restarts in a storm, in which one pod is due": {func(h *Hold) {
			h.Decided(NodeTries{Node: "n", Begun: 100, From: began, Due: 1}, began)
			h.Restarted(after(10 * time.Second))
		}, 50*time.Second + slack},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHold()
			test.play(&h)
			if h.over(after(test.want - 1)) {
				t.Errorf("it is over before %v", test.want)
			}
			if !h.over(after(test.want)) {
				t.Errorf("it is not over at %v", test.want)
			}
			if got := h.Working(began); got != test.want-slack {
				t.Errorf("the built-in works for %v, want all but the slack", got)
			}
		})
	}
}

// A held pod is due for as long as it is held. kube-controller-manager can restart at any time.
func TestWhilePodsAreDueAHoldLastsAsIfTheBuiltInHadJustRestarted(t *testing.T) {
	const held = 100
	const takes = held * triesPerRestart * perTry
	h := newHold()
	h.Decided(NodeTries{Node: "n", Begun: held, From: began, Due: held}, began)
	var last time.Time
	for at := time.Duration(0); at <= time.Hour; at += together {
		last = after(at)
		h.Restarted(last)
		if until := last.Add(takes + slack); h.over(until.Add(-1)) {
			t.Fatalf("after %v it is over before %v more", at, until.Sub(last))
		}
	}
	if since := last.Sub(h.Record(last).Since); since > takes+slack+2*together {
		t.Errorf("it is since %v ago, when no try can be left that began then", since)
	}
	if got := len(h.tries); got > int((takes+slack)/together)+1 {
		t.Errorf("it remembers %d tries", got)
	}
	h.Decided(NodeTries{Node: "n", Spared: last, Stays: true}, last)
	h.wantSpared(t, "n")
	end := last.Add(takes + slack)
	if h.over(end.Add(-1)) || !h.over(end) {
		t.Errorf("once no pod is due, it is over at %v, want %v", h.end().Add(slack), end)
	}
}

// Nothing was tried for an hour, as far as this process knows, so no storm is known.
func TestAnUntaintOfDuePodsSparesTheNodeWhetherAStormIsKnownOrNot(t *testing.T) {
	h := newHold()
	h.Decided(NodeTries{Node: "n", Begun: 4, From: began, Due: 4}, began)
	at := after(time.Hour)
	if !h.over(at) {
		t.Fatal("the storm is not over after an hour without a renewal")
	}
	h.Decided(NodeTries{Node: "n", Spared: at, Stays: true}, at)
	h.wantSpared(t, "n")
	if h.over(at.Add(4*triesPerRestart*perTry + slack - 1)) {
		t.Error("the tries of a restarted built-in are not waited for")
	}
}

// Other pods stay due indefinitely.
func TestANodeIsSparedUntilAllTriesAreOverThatBeganBefore(t *testing.T) {
	h := newHold()
	h.Decided(NodeTries{Node: "n", Begun: 1, From: began, Due: 11}, began)
	h.Decided(NodeTries{Node: "n", Spared: began, Stays: true, Due: 10}, began)
	end := 10*triesPerRestart*perTry + slack // all were due for the last time when the node was Spared
	for at := time.Duration(0); at < end; at += time.Second {
		h.Restarted(after(at))
		h.forget(after(at))
		h.wantSpared(t, "n")
	}
	for at := end; at < end+2*together; at += time.Second {
		h.Restarted(after(at))
	}
	h.forget(after(end + 2*together))
	h.wantSpared(t, "")
}

func TestAHoldIsNeverWrittenFurtherAheadThanThePolicyHeeds(t *testing.T) {
	h := newHold()
	h.storm(began, "n", 10_000)
	for _, at := range []time.Duration{0, time.Minute, time.Hour} {
		if until := h.Record(after(at)).Until; !until.Before(after(at + longest)) {
			t.Errorf("at %v it is written until %v", at, until.Sub(began))
		}
	}
}

func TestAStormBeginsWithItsFirstPodAndEndsWithTheHold(t *testing.T) {
	h := newHold()
	h.storm(began, "n", 10)
	h.storm(after(30*time.Second), "m", 10)
	if since := h.Record(after(30 * time.Second)).Since; since.After(began) {
		t.Errorf("it began %v after its first pod", since.Sub(began))
	}
	h.storm(after(time.Hour), "n", 10)
	if since := h.Record(after(time.Hour)).Since; since.Before(after(time.Hour-5*time.Second)) || since.After(after(time.Hour)) {
		t.Errorf("the storm of an hour later began after %v", since.Sub(began))
	}
}

// What was due long before this process started can no longer be in the backlog.
func TestAStormBeginsNoEarlierThanABacklogCanLast(t *testing.T) {
	h := newHold()
	h.Decided(NodeTries{Node: "n", Begun: 1, From: began}, after(24*time.Hour))
	if since := h.Record(after(24 * time.Hour)).Since; since.Before(after(24*time.Hour - longest - time.Minute)) {
		t.Errorf("it began %v before", after(24*time.Hour).Sub(since))
	}
}

func TestANodeIsSparedAsLongAsAPodStaysThatWasTriedInThisStorm(t *testing.T) {
	at := after(time.Second)
	decide := func(h *Hold, d NodeTries) {
		d.Node, d.From = "n", at
		h.Decided(d, at)
	}
	foundByTheNextLeader := func(h *Hold) {
		h.Merge(Record{Since: began, Until: after(time.Minute), Spared: "n"}, at, at)
	}
	for name, test := range map[string]struct {
		play func(h *Hold)
		want string
	}{
		"untainted":                     {func(h *Hold) { decide(h, NodeTries{Spared: at, Stays: true}) }, "n"},
		"tolerated while others leave":  {func(h *Hold) { decide(h, NodeTries{Begun: 1, Spared: at, Stays: true}) }, "n"},
		"never tried":                   {func(h *Hold) { decide(h, NodeTries{Stays: true}) }, ""},
		"tried in a storm that is over": {func(h *Hold) { decide(h, NodeTries{Spared: began.Add(-time.Hour), Stays: true}) }, ""},
		"due again": {func(h *Hold) {
			decide(h, NodeTries{Spared: at, Stays: true})
			decide(h, NodeTries{Begun: 2})
		}, ""},
		"gone, and others stay": {func(h *Hold) {
			decide(h, NodeTries{Spared: at, Stays: true})
			decide(h, NodeTries{Stays: true})
		}, ""},
		"spared by the leader before, and nothing is due": {func(h *Hold) {
			foundByTheNextLeader(h)
			decide(h, NodeTries{Stays: true})
		}, "n"},
		"spared by the leader before, and another pod of the node is due": {func(h *Hold) {
			foundByTheNextLeader(h)
			decide(h, NodeTries{Begun: 1, Stays: true})
		}, "n"},
		"spared by the leader before, and all are due again": {func(h *Hold) {
			foundByTheNextLeader(h)
			decide(h, NodeTries{Begun: 1})
		}, ""},
		"all is over": {func(h *Hold) {
			decide(h, NodeTries{Spared: at, Stays: true})
			h.storm(after(time.Hour), "m", 1)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHold()
			h.storm(began, "m", 2)
			test.play(&h)
			h.wantSpared(t, test.want)
		})
	}
}

func TestWhatIsFoundAndWhatWasTriedMeanwhileAreWorkedOffOneAfterTheOther(t *testing.T) {
	found := Record{Since: began, Until: after(300 * time.Second).Add(slack)} // 600 tries
	for name, test := range map[string]struct {
		witnessed time.Duration // from then on
		own       time.Duration // when this process knows of a storm of 600 tries
		want      time.Duration // all is tried
	}{
		"by a replica that came after it began":           {10 * time.Second, 20 * time.Second, 600 * time.Second},
		"by a standby that knows of both":                 {-time.Hour, 0, 300 * time.Second},
		"by a process that found it twice (as it writes)": {10 * time.Second, 20 * time.Second, 600 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			next := newHold()
			next.storm(after(test.own), "m", 600)
			for range 2 {
				next.Merge(found, after(test.own), after(test.witnessed))
			}
			if got := next.end().Sub(began); got < test.want || got > test.want+time.Minute {
				t.Errorf("all is tried after %v, want %v", got, test.want)
			}
		})
	}
}

func TestWithTooManySparedNodesAllAreSpared(t *testing.T) {
	h := newHold()
	h.storm(began, "n", 1)
	for i := range sparedNodes + 1 {
		h.Decided(NodeTries{Node: fmt.Sprintf("n%d", i), Spared: began, Stays: true}, began)
	}
	if spared := h.Record(began).Spared; spared != AllNodes {
		t.Errorf("%d bytes name the spared nodes, want %q", len(spared), AllNodes)
	}
	next := newHold()
	next.Merge(h.Record(began), began, began)
	if _, all := next.Nodes(); !all {
		t.Error("the next leader does not spare all nodes")
	}
}

func TestANewLeaderTakesTheLaterEndTheEarlierBeginningAndAllThatIsSpared(t *testing.T) {
	early := Record{Since: began, Until: after(3 * time.Minute), Spared: "a b"}
	late := Record{Since: after(time.Minute), Until: after(4 * time.Minute), Spared: "b c"}
	for name, order := range map[string][]Record{"in order": {early, late}, "the other way round": {late, early}} {
		t.Run(name, func(t *testing.T) {
			h := newHold()
			for _, r := range order {
				h.Merge(r, after(2*time.Minute), began.Add(-time.Hour))
			}
			want := Record{Since: began, Until: after(4 * time.Minute), Spared: "a b c"}
			if got := h.Record(after(2 * time.Minute)); got != want {
				t.Errorf("it takes %+v, want %+v", got, want)
			}
		})
	}
}

func TestWhatIsOverOrInvalidIsNotTakenOver(t *testing.T) {
	for name, until := range map[string]time.Time{"over": began, "in the year 9999": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		h := newHold()
		h.Merge(Record{Since: began, Until: until, Spared: "n"}, after(time.Second), began)
		if got := h.Record(after(time.Second)); got != (Record{}) {
			t.Errorf("until %s: it takes %+v", name, got)
		}
	}
}

func TestARecordMustBeWrittenAgain(t *testing.T) {
	want := Record{Since: began, Until: after(2 * time.Minute), Spared: "a b"}
	for name, test := range map[string]struct {
		written Record
		covers  bool
	}{
		"not if nothing has changed":     {want, true},
		"not if it begins earlier":       {Record{Since: after(-time.Minute), Until: want.Until, Spared: want.Spared}, true},
		"not if little of the end lacks": {Record{Since: began, Until: want.Until.Add(-slack / 4), Spared: want.Spared}, true},
		"if it begins too late":          {Record{Since: after(time.Second), Until: want.Until, Spared: want.Spared}, false},
		"if it ends too early":           {Record{Since: began, Until: want.Until.Add(-slack/4 - time.Second), Spared: want.Spared}, false},
		"if other nodes are spared":      {Record{Since: began, Until: want.Until, Spared: "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.written.Covers(want); got != test.covers {
				t.Errorf("%+v covers %+v: %t", test.written, want, got)
			}
		})
	}
}
