// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/verdict"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// mute returns a node whose kubelet has not posted anything since the node was made.
func mute(name string, made int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(after(made))}}
}

// called returns a node with the given name whose kubelet has posted a heartbeat.
func called(name string, heartbeat int) *corev1.Node {
	node := mute(name, -3600)
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(after(heartbeat)),
	}}
	return node
}

// echoing returns records whose clock has heard an echo at noon.
func echoing() *records {
	s := newRecords(defaultGrace, readiness.Policy{}, noon)
	s.clock.echo(noon)
	return s
}

// echoes lets an echo come in each second, from one on up to another.
func (r *records) echoes(from, to int) {
	for second := from; second <= to; second++ {
		r.clock.echo(after(second))
	}
}

// heartbeats is what the watch of nodes brings at an instant.
func (r *records) heartbeats(node *corev1.Node, at time.Time) { r.put(node, verdict.SeenAt(at).Sight) }

// renews is what the watch of leases brings at an instant: a lease that was renewed at a time of the kubelet's clock.
func (r *records) renews(name string, last, at time.Time) {
	r.brought(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: last}},
	}, at)
}

func wantSilent(t *testing.T, s *records, now int, want ...string) {
	t.Helper()
	var got []string
	for m, is := range s.standings {
		if is == readiness.Silent {
			got = append(got, m.Name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("after %d s these are silent: %q, want %q", now, got, want)
	}
}

func TestANodeIsSilentOnceItsGracePeriodIsOverByTheClockOfEchoes(t *testing.T) {
	s := echoing()
	s.heartbeats(called("n", 0), noon)
	s.echoes(1, 50)
	wantSilent(t, s, 50)
	s.echoes(51, 51)
	wantSilent(t, s, 51, "n")
}

func TestSilenceDoesNotCountWithoutEchoes(t *testing.T) {
	s := echoing()
	s.heartbeats(called("n", 0), noon)
	s.echoes(1, 49)
	wantSilent(t, s, 3600)
	if s.clock.freshAt(after(54)) || !s.clock.freshAt(after(53)) {
		t.Error("5 s after the latest echo it still counts, or does not before")
	}
}

// The gap of an hour counts as 5 s, and after it there are 20 s more.
func TestAGapCountsForLittleAndGivesTimeToBeHeardAgain(t *testing.T) {
	s := echoing()
	s.heartbeats(called("n", 0), noon)
	s.echoes(1, 40)
	s.clock.echo(after(3640))
	wantSilent(t, s, 3640)
	s.echoes(3641, 3659)
	wantSilent(t, s, 3659)
	s.echoes(3660, 3660)
	wantSilent(t, s, 3660, "n")
}

// Echoes that are a minute apart count as 5 s each, so the node has its grace period and 20 s more.
func TestADeadNodeIsFoundWithSeldomEchoes(t *testing.T) {
	s := echoing()
	s.heartbeats(called("n", 0), noon)
	for minute := 1; minute <= 14; minute++ {
		s.clock.echo(after(60 * minute))
	}
	wantSilent(t, s, 840)
	s.clock.echo(after(900))
	wantSilent(t, s, 900, "n")
}

func TestAnEchoOfAnEarlierRenewalTellsNothingNew(t *testing.T) {
	s := echoing()
	s.echoes(1, 10)
	if s.clock.echo(after(9)) || s.clock.echo(after(10)) {
		t.Error("an old renewal is an echo")
	}
}

// A renewal that comes between two echoes counts from a time after the first.
func TestASignOfLifeIsStampedWithWhatHasPassedSinceTheLatestEcho(t *testing.T) {
	s := echoing()
	s.heartbeats(called("n", 0), noon)
	s.renews("n", after(3), after(3))
	s.clock.echo(after(4))
	s.echoes(5, 53)
	wantSilent(t, s, 53)
	s.echoes(54, 54)
	wantSilent(t, s, 54, "n")
}

func TestTheFirstSightOfANodeIsASignOfLife(t *testing.T) {
	s := echoing()
	s.echoes(1, 5)
	s.heartbeats(called("n", -1000), after(5))
	s.echoes(6, 55)
	wantSilent(t, s, 55)
	s.echoes(56, 56)
	wantSilent(t, s, 56, "n")
}

func TestANodeThatNeverPostedItsStatusCountsFromItsCreation(t *testing.T) {
	s := echoing()
	s.heartbeats(mute("n", -8), noon) // within the second that was over 7 s ago
	s.echoes(1, 53)
	wantSilent(t, s, 53)
	s.echoes(54, 54)
	wantSilent(t, s, 54, "n")
	s.heartbeats(called("n", 54), after(54)) // its first status
	wantSilent(t, s, 54)
}

func TestACreationInTheFutureIsNow(t *testing.T) {
	s := echoing()
	s.heartbeats(mute("n", 3600), noon)
	s.echoes(1, 60)
	wantSilent(t, s, 60)
	s.echoes(61, 61)
	wantSilent(t, s, 61, "n")
}

// The API server's clock and this machine's differ, and nothing else tells when the node was created.
func TestADifferenceOfClocksMakesNoNodeSilentEarly(t *testing.T) {
	for name, seen := range map[string]verdict.Sight{
		"no Date was heard":               {At: noon, Latest: after(3600)},
		"the API server is an hour ahead": {At: noon, Earliest: after(3600), Latest: after(3600), Behind: noon},
		"it is an hour behind":            {At: noon, Earliest: after(-3600), Latest: after(-3600), Behind: after(-3600)},
	} {
		t.Run(name, func(t *testing.T) {
			s := echoing()
			s.put(mute("n", int(seen.Latest.Sub(noon)/time.Second)), seen)
			s.echoes(1, 60)
			wantSilent(t, s, 60)
			s.echoes(61, 61)
			wantSilent(t, s, 61, "n")
		})
	}
}

func TestOnlyAHeartbeatOrARenewalThatIsNewIsASignOfLife(t *testing.T) {
	for name, c := range map[string]struct {
		see  func(s *records)
		sign bool
	}{
		"some other change of the node":     {func(s *records) { s.heartbeats(called("n", 0), after(10)) }, false},
		"a heartbeat":                       {func(s *records) { s.heartbeats(called("n", 10), after(10)) }, true},
		"some other change of the lease":    {func(s *records) { s.renews("n", noon, after(10)) }, false},
		"a renewal":                         {func(s *records) { s.renews("n", after(10), after(10)) }, true},
		"a renewal by a clock that was set": {func(s *records) { s.renews("n", after(-60), after(10)) }, true},
		"the lease is deleted":              {func(s *records) { s.forgetLease("n") }, false},
		"a node that was recreated under its name": {func(s *records) {
			node := called("n", 0)
			node.UID = "another"
			s.heartbeats(node, after(10))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := echoing()
			s.heartbeats(called("n", 0), noon)
			s.renews("n", noon, noon)
			s.echoes(1, 10)
			c.see(s)
			s.echoes(11, 55)
			if got := s.standing(s.of("n")); (got == readiness.Silent) == c.sign {
				t.Errorf("its standing 45 s later is %d", got)
			}
		})
	}
}

func TestBeforeTheFirstEchoNoNodeIsSilent(t *testing.T) {
	s := newRecords(defaultGrace, readiness.Policy{}, noon)
	s.heartbeats(called("n", -3600), noon)
	s.heartbeats(mute("m", -3600), noon)
	wantSilent(t, s, 0)
	s.echoes(0, 0)
	wantSilent(t, s, 0, "m")
}

// The watch of leases lags behind that of nodes. A heartbeat comes, and then all the echoes at once.
func TestAHeartbeatThatCameBeforeLateEchoesIsNotOlderThanItIs(t *testing.T) {
	s := echoing()
	s.heartbeats(called("n", 0), noon)
	s.heartbeats(called("n", 60), after(60))
	s.echoes(1, 110)
	wantSilent(t, s, 110)
	s.echoes(111, 111)
	wantSilent(t, s, 111, "n")
}

func TestALeaseThatAListLacksLeavesItsNodeSomeTimeOnce(t *testing.T) {
	s := echoing()
	s.heartbeats(called("n", 0), noon)
	s.renews("n", noon, noon)
	s.echoes(1, 45)
	s.listed(map[string]bool{})
	s.echoes(46, 65)
	wantSilent(t, s, 65)
	s.listed(map[string]bool{})
	s.echoes(66, 66)
	wantSilent(t, s, 66, "n")
}

func TestALeaderGivesNodesThatSeemSilentSomeTime(t *testing.T) {
	s := echoing()
	s.heartbeats(called("n", 0), noon)
	s.heartbeats(called("m", 0), noon)
	s.echoes(1, 60)
	s.clock.giveExtraGrace()
	wantSilent(t, s, 60)
	if is := s.standing(s.of("n")); is != readiness.Doubtful {
		t.Errorf("a node whose grace period was over before is %v", is)
	}
	s.renews("m", after(79), after(79))
	s.echoes(61, 80)
	wantSilent(t, s, 80, "n")
}

func TestAfterAFullDisruptionEveryNodeThatWasEverHeardIsHeardNow(t *testing.T) {
	s := echoing()
	s.heartbeats(mute("mute", 0), noon)
	s.heartbeats(called("n", 0), noon)
	s.echoes(1, 70)
	wantSilent(t, s, 70, "mute", "n")
	s.restart(after(70))
	wantSilent(t, s, 70, "mute")
	s.renews("mute", after(71), after(71))
	s.restart(after(71))
	wantSilent(t, s, 71)
}
