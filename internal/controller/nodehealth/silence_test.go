// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

var noon = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// mute returns a node whose kubelet has not posted anything since the node was made.
func mute(name string, made int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(after(made))}}
}

// called returns a node of a name whose kubelet has posted a heartbeat.
func called(name string, heartbeat int) *corev1.Node {
	node := mute(name, -3600)
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(after(heartbeat)),
	}}
	return node
}

// echoing returns a clock of silence that has heard an echo at noon.
func echoing() *silence {
	s := newSilence(defaultGrace, noon)
	s.echo(noon)
	return s
}

// echoes lets an echo come in each second, from one on up to another.
func (s *silence) echoes(from, to int) {
	for second := from; second <= to; second++ {
		s.echo(after(second))
	}
}

func wantSilent(t *testing.T, s *silence, now int, want ...string) {
	t.Helper()
	var got []string
	for name, now := range s.all() {
		if now == readiness.Silent {
			got = append(got, name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("after %d s these are silent: %q, want %q", now, got, want)
	}
}

func TestANodeIsSilentOnceItsGracePeriodIsOverByTheClockOfEchoes(t *testing.T) {
	s := echoing()
	s.saw(called("n", 0), noon)
	s.echoes(1, 50)
	wantSilent(t, s, 50)
	s.echoes(51, 51)
	wantSilent(t, s, 51, "n")
}

func TestSilenceDoesNotCountWithoutEchoes(t *testing.T) {
	s := echoing()
	s.saw(called("n", 0), noon)
	s.echoes(1, 49)
	wantSilent(t, s, 3600)
	if s.freshAt(after(54)) || !s.freshAt(after(53)) {
		t.Error("5 s after the latest echo it still counts, or does not before")
	}
}

// After a gap of an hour that counts as 5 s, and then there are 20 s more.
func TestAGapCountsForLittleAndGivesTimeToBeHeardAgain(t *testing.T) {
	s := echoing()
	s.saw(called("n", 0), noon)
	s.echoes(1, 40)
	s.echo(after(3640))
	wantSilent(t, s, 3640)
	s.echoes(3641, 3659)
	wantSilent(t, s, 3659)
	s.echoes(3660, 3660)
	wantSilent(t, s, 3660, "n")
}

// Echoes that are a minute apart count 5 s each, and the node has its grace and 20 s for ever.
func TestADeadNodeIsFoundWithSeldomEchoes(t *testing.T) {
	s := echoing()
	s.saw(called("n", 0), noon)
	for minute := 1; minute <= 14; minute++ {
		s.echo(after(60 * minute))
	}
	wantSilent(t, s, 840)
	s.echo(after(900))
	wantSilent(t, s, 900, "n")
}

func TestAnEchoOfAnEarlierRenewalTellsNothingNew(t *testing.T) {
	s := echoing()
	s.echoes(1, 10)
	if s.echo(after(9)) || s.echo(after(10)) {
		t.Error("an old renewal is an echo")
	}
}

// A renewal that comes between two echoes is news of after the first.
func TestASignOfLifeIsStampedWithWhatHasPassedSinceTheLatestEcho(t *testing.T) {
	s := echoing()
	s.saw(called("n", 0), noon)
	s.renewed("n", after(3), after(3))
	s.echo(after(4))
	s.echoes(5, 53)
	wantSilent(t, s, 53)
	s.echoes(54, 54)
	wantSilent(t, s, 54, "n")
}

func TestTheFirstSightOfANodeIsASignOfLife(t *testing.T) {
	s := echoing()
	s.echoes(1, 5)
	s.saw(called("n", -1000), after(5))
	s.echoes(6, 55)
	wantSilent(t, s, 55)
	s.echoes(56, 56)
	wantSilent(t, s, 56, "n")
}

func TestANodeThatNeverPostedItsStatusCountsFromItsCreation(t *testing.T) {
	s := echoing()
	s.saw(mute("n", -7), noon)
	s.echoes(1, 53)
	wantSilent(t, s, 53)
	s.echoes(54, 54)
	wantSilent(t, s, 54, "n")
	s.saw(called("n", 54), after(54)) // its first status
	wantSilent(t, s, 54)
}

func TestACreationInTheFutureIsNow(t *testing.T) {
	s := echoing()
	s.saw(mute("n", 3600), noon)
	s.echoes(1, 60)
	wantSilent(t, s, 60)
	s.echoes(61, 61)
	wantSilent(t, s, 61, "n")
}

func TestOnlyAHeartbeatOrARenewalThatIsNewIsASignOfLife(t *testing.T) {
	for name, c := range map[string]struct {
		see  func(s *silence)
		sign bool
	}{
		"some other change of the node":     {func(s *silence) { s.saw(called("n", 0), after(10)) }, false},
		"a heartbeat":                       {func(s *silence) { s.saw(called("n", 10), after(10)) }, true},
		"some other change of the lease":    {func(s *silence) { s.renewed("n", noon, after(10)) }, false},
		"a renewal":                         {func(s *silence) { s.renewed("n", after(10), after(10)) }, true},
		"a renewal by a clock that was set": {func(s *silence) { s.renewed("n", after(-60), after(10)) }, true},
		"the lease is deleted":              {func(s *silence) { s.forgetLease("n") }, false},
		"a node of the name that was made anew": {func(s *silence) {
			node := called("n", 0)
			node.UID = "another"
			s.saw(node, after(10))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := echoing()
			s.saw(called("n", 0), noon)
			s.renewed("n", noon, noon)
			s.echoes(1, 10)
			c.see(s)
			s.echoes(11, 55)
			if got := s.of("n"); (got == readiness.Silent) == c.sign {
				t.Errorf("its standing 45 s later is %d", got)
			}
		})
	}
}

func TestALeaseThatAListLacksLeavesItsNodeSomeTimeOnce(t *testing.T) {
	s := echoing()
	s.saw(called("n", 0), noon)
	s.renewed("n", noon, noon)
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
	s.saw(called("n", 0), noon)
	s.saw(called("m", 0), noon)
	s.echoes(1, 60)
	s.lead()
	wantSilent(t, s, 60)
	if all := s.all(); all["n"] != readiness.Doubtful {
		t.Errorf("a node whose grace period was over before is %v", all["n"])
	}
	s.renewed("m", after(79), after(79))
	s.echoes(61, 80)
	wantSilent(t, s, 80, "n")
}

func TestAfterAFullDisruptionEveryNodeThatWasEverHeardIsHeardNow(t *testing.T) {
	s := echoing()
	s.saw(mute("mute", 0), noon)
	s.saw(called("n", 0), noon)
	s.echoes(1, 70)
	wantSilent(t, s, 70, "mute", "n")
	s.forgive(after(70))
	wantSilent(t, s, 70, "mute")
	s.renewed("mute", after(71), after(71))
	s.forgive(after(71))
	wantSilent(t, s, 71)
}
