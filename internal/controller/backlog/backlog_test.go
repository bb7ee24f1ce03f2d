// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

var (
	t0  = time.Unix(1_000_000, 0)
	std = LimitsFor(16)
)

// there says about every pod that it is there.
func there(types.UID) bool { return true }

// pods returns pods of a namespace that are due at the same time. Their UIDs end with their places in the list.
func pods(namespace string, count int, due time.Time) (all []Leaving) {
	for i := range count {
		all = append(all, Leaving{
			UID: types.UID(fmt.Sprintf("%s/%03d", namespace, i)), Group: namespace, Due: due,
		})
	}
	return all
}

// begin begins all tries that may begin.
func begin(b *Backlog, now time.Time) (begun []*Eviction) {
	for {
		e, again := b.Next(now)
		if e != nil {
			begun = append(begun, e)
		} else if again.IsZero() || again.After(now) {
			return begun
		}
	}
}

func uids(all []*Eviction) (uids []string) {
	for _, e := range all {
		uids = append(uids, string(e.UID))
	}
	return uids
}

// one is a Backlog with one pod, which is in flight.
func one(t *testing.T) (*Backlog, *Eviction) {
	t.Helper()
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", 1, t0), t0)
	begun := begin(b, t0)
	if len(begun) != 1 {
		t.Fatalf("%d evictions begin, want 1", len(begun))
	}
	return b, begun[0]
}

// asks are limits of pods about which the Eviction API is asked.
var asks = Limits{Prompt: 8, Retries: 4, Slow: 8, PerGroup: 2, Patience: sec, Pace: 20 * ms}

// inLane returns pods in another lane, with an answer.
func inLane(lane Lane, answer Answer, all []Leaving) []Leaving {
	all = slices.Clone(all)
	for i := range all {
		all[i].Lane, all[i].Answer = lane, answer
	}
	return all
}

func TestLanesTakeTurnsAndFillTheirPlaces(t *testing.T) {
	b := New(Lanes{std, asks}, there)
	b.Set("n", slices.Concat(pods("a", 50, t0), inLane(Ask, Answer{}, pods("b", 50, t0))), t0)
	begun := begin(b, t0)
	if len(begun) != 18 {
		t.Errorf("%d evictions begin, want 16 deletes and 2 asks of a group", len(begun))
	}
	if begun[0].Lane == begun[1].Lane {
		t.Errorf("the first two to begin are %v, want one of each lane", uids(begun[:2]))
	}
}

func TestAPodChangesLanesOnceItsTryInFlightHasEnded(t *testing.T) {
	for name, outcome := range map[string]Outcome{"withdrawn": Withdrawn, "refused": Failed(time.Hour, "w"), "hung": Hung} {
		b := New(Lanes{std, asks}, there)
		b.Set("n", pods("a", 1, t0), t0)
		e := begin(b, t0)[0]
		e.Memo = "of the delete"
		stay, cancel := b.Set("n", inLane(Ask, Answer{}, pods("a", 1, t0)), t0)
		if len(stay) > 0 || len(cancel) != 1 || !errors.Is(e.Cancelled(), ErrWithdrawn) {
			t.Fatalf("%s: %d may stay, and %d are cancelled because of %v", name, len(stay), len(cancel), e.Cancelled())
		}
		if begun := begin(b, t0.Add(sec)); len(begun) > 0 {
			t.Fatalf("%s: it is asked about while its delete is in flight", name)
		}
		b.Done(e, outcome, t0.Add(sec))
		begun := begin(b, t0.Add(sec))
		if len(begun) != 1 || begun[0].Lane != Ask || begun[0].Tries > 0 || begun[0].Memo != nil {
			t.Errorf("%s: %v begin, want a new eviction that asks", name, begun)
		}
		b.Done(begun[0], Over, t0.Add(sec))
		if len(b.nodes)+len(b.lanes[Delete].groups)+len(b.lanes[Ask].groups) > 0 {
			t.Errorf("%s: something is left over", name)
		}
	}
}

func TestAHeldPodThatWasAskedAboutKeepsItsBackoff(t *testing.T) {
	b := New(Lanes{std, asks}, there)
	b.Set("n", inLane(Ask, Answer{}, pods("a", 1, t0)), t0)
	b.Done(begin(b, t0)[0], Failed(time.Minute, ""), t0)
	b.Set("n", inLane(Delete, Answer{Held: true}, pods("a", 1, t0)), t0.Add(sec))
	b.Set("n", inLane(Ask, Answer{}, pods("a", 1, t0)), t0.Add(2*sec))
	if e, again := b.Next(t0.Add(3 * sec)); e != nil || !again.Equal(t0.Add(time.Minute)) {
		t.Errorf("it is tried again at %v, want after its backoff", again)
	}
}

func TestAGroupHasAtMostPerGroupInFlightHoweverLongTheyTake(t *testing.T) {
	limits := std
	limits.PerGroup = 2
	b := New(Lanes{limits}, there)
	b.Set("n", slices.Concat(pods("a", 9, t0), pods("b", 3, t0)), t0)
	first := begin(b, t0)
	if got := len(first); got != 4 {
		t.Fatalf("%d evictions of two groups begin, want 2 of each", got)
	}
	if got := begin(b, t0.Add(time.Minute)); len(got) > 0 {
		t.Errorf("%v begin while two of each group are slow", uids(got))
	}
	for _, e := range first[:2] { // one of each
		b.Done(e, Over, t0.Add(time.Minute))
	}
	if got := begin(b, t0.Add(time.Minute)); len(got) != 2 || got[0].Group == got[1].Group {
		t.Errorf("%v begin, want one of each group", uids(got))
	}
}

func TestAtMost16EvictionsAreInFlightThatAreNotSlow(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", 100, t0), t0)
	if got := len(begin(b, t0)); got != 16 {
		t.Errorf("%d evictions begin, want 16", got)
	}
	if e, again := b.Next(t0); e != nil || !again.Equal(t0.Add(250*ms)) {
		t.Errorf("the next begins now or at %v, want after 250 ms", again)
	}
	if got := len(begin(b, t0.Add(250*ms))); got != 16 {
		t.Errorf("%d evictions begin once the first are slow, want 16", got)
	}
}

func TestANamespaceThatHangsHas4Places(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", 100, t0), t0)
	for _, e := range begin(b, t0) {
		b.Done(e, Hung, t0.Add(sec))
	}
	if got := len(begin(b, t0.Add(sec))); got != 4 {
		t.Errorf("%d evictions of a namespace that hangs begin, want 4", got)
	}
	b.Set("m", pods("b", 100, t0), t0.Add(sec))
	begun := begin(b, t0.Add(sec))
	if len(begun) != 12 || begun[0].Group != "b" {
		t.Errorf("%v begin, want 12 of another namespace", uids(begun))
	}
}

func TestANamespaceHangsUntilATryThatBeganLaterIsAnswered(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", 40, t0), t0)
	first := begin(b, t0)
	later := begin(b, t0.Add(sec))
	b.Done(first[0], Hung, t0.Add(2*sec))
	b.Done(first[1], Over, t0.Add(2*sec))
	if g := b.lanes[Delete].groups["a"]; !g.hangs && !g.judged.Equal(t0) {
		t.Errorf("judged by the try of %v", g.judged)
	}
	b.Done(later[0], Hung, t0.Add(2*sec))
	b.Done(first[2], Over, t0.Add(3*sec))
	if !b.lanes[Delete].groups["a"].hangs {
		t.Error("an earlier try was answered, and it does not hang anymore")
	}
	b.Done(later[1], Failed(sec, "webhook w"), t0.Add(3*sec))
	if b.lanes[Delete].groups["a"].hangs {
		t.Error("a try that began just as late was answered, and it still hangs")
	}
}

func TestInANamespaceThatHangsFirstTriesComeBeforeRetries(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", 30, t0), t0)
	hung := begin(b, t0)
	for _, e := range hung {
		b.Done(e, Hung, t0.Add(sec))
	}
	var got []*Eviction
	for i := range 5 {
		now := t0.Add(time.Duration(i+2) * sec)
		got = append(got, begin(b, now)...)
	}
	for i, e := range got {
		if first := i < 14; first == slices.Contains(hung, e) {
			t.Errorf("%s is number %d of %v", e.UID, i, uids(got))
		}
	}
}

func TestNamespacesTakeTurns(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", slices.Concat(pods("a", 100, t0), pods("b", 2, t0)), t0)
	b.Set("m", pods("c", 1, t0), t0)
	got := uids(begin(b, t0))
	slices.Sort(got[:3])
	slices.Sort(got[3:5])
	if want := []string{"a/000", "b/000", "c/000", "a/001", "b/001", "a/002"}; !slices.Equal(got[:6], want) {
		t.Errorf("they begin in the order %v, want %v, and all others of a", got, want)
	}
}

func TestInANamespaceTheFirstDueIsFirstAndThenTheLowestPriorityAndPodsOfOneNodeGoTogether(t *testing.T) {
	b := New(Lanes{std}, there)
	of := func(uid string, due time.Duration, priority int32) Leaving {
		return Leaving{UID: types.UID(uid), Group: "a", Due: t0.Add(due), Priority: priority}
	}
	b.Set("m", []Leaving{of("m1", 0, 0), of("m2", 0, 5), of("m3", 10*ms, 0)}, t0)
	b.Set("n", []Leaving{of("n1", 0, 0), of("n2", -sec, 9)}, t0)
	want := []string{"n2", "m1", "m3", "n1", "m2"}
	if got := uids(begin(b, t0.Add(20*ms))); !slices.Equal(got, want) {
		t.Errorf("they begin in the order %v, want %v", got, want)
	}
}

func TestNoPodIsTriedBeforeItIsDue(t *testing.T) {
	b := New(Lanes{std}, there)
	// Both are due in the same second, and the one with the lower priority is due later.
	soon := Leaving{UID: "soon", Group: "a", Due: t0.Add(100 * ms), Priority: 9}
	late := Leaving{UID: "late", Group: "a", Due: t0.Add(900 * ms)}
	b.Set("n", []Leaving{soon, late}, t0)
	if e, again := b.Next(t0); e != nil || !again.Equal(soon.Due) {
		t.Errorf("Next returns %v and %v, want the instant %v", e, again, soon.Due)
	}
	if got := uids(begin(b, soon.Due)); !slices.Equal(got, []string{"soon"}) {
		t.Errorf("%v begin", got)
	}
	if got := uids(begin(b, late.Due)); !slices.Equal(got, []string{"late"}) {
		t.Errorf("%v begin", got)
	}
}

func TestWhenThe65thIsSlowTheYoungestOfTheNamespaceWithTheMostIsCancelled(t *testing.T) {
	b := New(Lanes{std}, there)
	now := t0
	b.Set("n", slices.Concat(pods("a", 50, now), pods("b", 20, now)), now)
	var begun []*Eviction
	for range 5 {
		begun = append(begun, begin(b, now)...)
		now = now.Add(250 * ms)
	}
	youngest := slices.IndexFunc(begun[65:], func(e *Eviction) bool { return e.Group == "a" })
	cancel := b.Excess(now)
	if len(begun) != 70 || len(cancel) != 6 {
		t.Fatalf("%d of %d are cancelled, want 6 of 70", len(cancel), len(begun))
	}
	for _, e := range cancel {
		if e.Group != "a" || !errors.Is(e.Cancelled(), ErrNoRoom) {
			t.Errorf("%s of another namespace is cancelled: %v", e.UID, e.Cancelled())
		}
	}
	if cancel[0].began.Before(begun[65+youngest].began) {
		t.Errorf("%s is cancelled, which is not the youngest", cancel[0].UID)
	}
	if again := b.Excess(now); len(again) != 0 {
		t.Errorf("%v are cancelled twice", uids(again))
	}
}

// 200 namespaces hang. The evictions that began first must continue, so that it is noticed when their namespaces no
// longer hang.
func TestTheOldestSlowEvictionsAreNeverCancelled(t *testing.T) {
	b := New(Lanes{std}, there)
	for i := range 200 {
		b.Set(fmt.Sprint("n", i), pods(fmt.Sprintf("ns%03d", i), 1, t0), t0)
	}
	now := t0
	var oldest []*Eviction
	for range 200 {
		now = now.Add(50 * ms)
		for _, e := range b.Excess(now) {
			if slices.Contains(oldest, e) {
				t.Fatalf("%s is cancelled, which is one of the 64 that began first", e.UID)
			}
			b.Done(e, Hung, now)
		}
		begun := begin(b, now)
		oldest = append(oldest, begun[:min(len(begun), 64-len(oldest))]...)
	}
	if len(oldest) != 64 {
		t.Errorf("%d evictions were slow, want 64", len(oldest))
	}
}

func TestWhatFailedWaitsForItsBackoff(t *testing.T) {
	b, e := one(t)
	b.Done(e, Failed(3*sec, "webhook w"), t0)
	if got, again := b.Next(t0.Add(2 * sec)); got != nil || !again.Equal(t0.Add(3*sec)) {
		t.Errorf("it is tried again at %v, want after 3 s", again)
	}
	if got := begin(b, t0.Add(3*sec)); len(got) != 1 || got[0].Tries != 1 || got[0].Refuser != "webhook w" {
		t.Errorf("%v begin", uids(got))
	}
}

func TestAPodThatHangsAgainSaysNothingNewOfItsNamespace(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", 2, t0), t0)
	begun := begin(b, t0)
	e, other, now := begun[0], begun[1], t0
	for _, step := range []struct {
		ends  *Eviction
		as    Outcome
		hangs bool
	}{
		{e, Hung, true},
		{other, Failed(0, ""), false}, // it is answered, and began just as late
		{e, Hung, false},              // again
		{e, Failed(0, ""), false},
		{e, Hung, true}, // it had been answered
		{e, Later(0), true},
		{e, Unsure(0), true},
		{e, Failed(0, ""), false},
	} {
		now = now.Add(sec)
		if b.Done(step.ends, step.as, now); b.lanes[Delete].groups["a"].hangs != step.hangs {
			t.Fatalf("after %v: hangs: %t, want %t", now.Sub(t0), !step.hangs, step.hangs)
		}
		begin(b, now)
	}
	if e.Tries != 5 {
		t.Errorf("%d tries failed or hung, want 5", e.Tries)
	}
}

func TestATryThatWasWithdrawnSaysNothingOfItsNamespace(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", 1, t0), t0)
	b.Set("m", pods("a", 2, t0)[1:], t0)
	begun := begin(b, t0)
	b.Set(begun[0].Node, nil, t0)
	if b.Done(begun[0], Hung, t0.Add(sec)); b.lanes[Delete].groups["a"].hangs {
		t.Error("its namespace hangs")
	}
}

func TestWhetherATryThatWasPutOffIsMadeAtOnceWhenItsPodChanges(t *testing.T) {
	for name, test := range map[string]struct {
		ended Outcome
		moved time.Duration // by how much its due instant moved
		again time.Duration // when it is tried again
		fresh bool          // as another eviction
	}{
		"due less than a second earlier":                {Later(4 * sec), -sec + 1, 4 * sec, false},
		"due a second earlier":                          {Later(4 * sec), -sec, 0, false},
		"due an hour later, which is not now":           {Later(4 * sec), time.Hour, time.Hour, true},
		"refused, and due a second earlier":             {Failed(5*time.Minute, "webhook w"), -sec, 5 * time.Minute, false},
		"refused, and due an hour later: it is another": {Failed(5*time.Minute, "webhook w"), time.Hour, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, e := one(t)
			e.Memo = "of the first"
			b.Done(e, test.ended, t0)
			b.Set("n", pods("a", 1, t0.Add(test.moved)), t0)
			if got, again := b.Next(t0); test.again == 0 && got != e || test.again > 0 && (got != nil || !again.Equal(t0.Add(test.again))) {
				t.Errorf("it is tried at %v, want %v", again.Sub(t0), test.again)
			}
			if fresh := e.Memo == nil && e.Tries == 0; fresh != test.fresh {
				t.Errorf("it is another eviction: %t", fresh)
			}
		})
	}
}

// What is known about a node is set again with each of its changes, and the node can have very many pods.
func TestASetThatBringsNothingNewMovesNothing(t *testing.T) {
	b := New(Lanes{std}, there)
	all := pods("a", 100, t0)
	b.Set("n", all, t0)
	begin(b, t0)
	if b.Set("n", all, t0); !b.lanes[Delete].pending.empty() {
		t.Errorf("%d of the evictions that wait for their turn are moved", len(b.lanes[Delete].pending.all))
	}
}

func TestAtMost50EvictionsASecondAreRetriedThatFailed(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", 2000, t0), t0)
	now, tries := t0, 0
	for ; now.Before(t0.Add(10 * sec)); now = now.Add(5 * ms) {
		for _, e := range begin(b, now) {
			if now.After(t0.Add(5 * sec)) {
				tries++
			}
			b.Done(e, Failed(100*ms, ""), now)
		}
	}
	if tries < 245 || tries > 250 {
		t.Errorf("%d tries in 5 s, want 250", tries)
	}
}

func TestAPodWhoseNodeIsUntaintedIsForgottenOrCancelled(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", slices.Concat(pods("a", 1, t0), pods("later", 1, t0.Add(sec))), t0)
	inFlight := begin(b, t0)
	stay, cancel := b.Set("n", nil, t0)
	if len(stay) != 2 || !slices.Equal(cancel, inFlight) || !errors.Is(cancel[0].Cancelled(), ErrWithdrawn) {
		t.Errorf("%v stay and %v are cancelled, want both and the one in flight", uids(stay), uids(cancel))
	}
	if stay, cancel = b.Set("n", nil, t0); len(stay)+len(cancel) != 0 {
		t.Errorf("%v stay and %v are cancelled once more", uids(stay), uids(cancel))
	}
	b.Done(inFlight[0], Hung, t0)
	if len(b.nodes)+len(b.lanes[Delete].groups) != 0 {
		t.Error("something is left")
	}
}

func TestAPodThatMustLeaveAgainIsNotTriedTwiceAtOnce(t *testing.T) {
	b, e := one(t)
	e.Memo = "of the first"
	b.Set("n", nil, t0)
	if _, cancel := b.Set("n", pods("a", 1, t0), t0); len(cancel) != 0 {
		t.Error("it is cancelled twice")
	}
	if again := begin(b, t0); len(again) != 0 {
		t.Error("it is tried twice at once")
	}
	b.Done(e, Hung, t0)
	if again := begin(b, t0); len(again) != 1 || again[0] != e || e.Memo != nil || e.Tries != 0 {
		t.Errorf("%v begin, want it again as another eviction", uids(again))
	}
}

func TestAnEvictionWhosePodIsDueLaterNowIsCancelled(t *testing.T) {
	b, e := one(t)
	stay, cancel := b.Set("n", pods("a", 1, t0.Add(sec)), t0)
	if len(stay) != 0 || len(cancel) != 1 {
		t.Fatalf("%v stay and %v are cancelled, want none and the one", uids(stay), uids(cancel))
	}
	b.Done(e, Hung, t0)
	if got, again := b.Next(t0); got != nil || !again.Equal(t0.Add(sec)) {
		t.Errorf("it is tried at %v, want after a second", again)
	}
}

func TestARefusalKeepsItsBackoffWhenATaintComesAndGoes(t *testing.T) {
	again := func(now time.Time) time.Time { return now }
	before := func(time.Time) time.Time { return t0 }
	for name, test := range map[string]struct {
		away  time.Duration
		again time.Duration // from the refusal on
		due   func(now time.Time) time.Time
	}{
		"a second":                {sec, 5 * time.Minute, again},
		"a second, due as before": {sec, 5 * time.Minute, before},
		"nearly 10 min":           {10*time.Minute - sec, 10*time.Minute - sec, again},
		"more than 10 min":        {10*time.Minute + sec, 10*time.Minute + sec, again},
	} {
		t.Run(name, func(t *testing.T) {
			b, e := one(t)
			b.Done(e, Failed(5*time.Minute, "webhook w"), t0)
			if stay, _ := b.Set("n", nil, t0); len(stay) != 1 {
				t.Fatalf("%v stay", uids(stay))
			}
			if s := b.Stats(t0); s.Due != 0 {
				t.Errorf("%d pods are due while the node has no taint", s.Due)
			}
			now := t0.Add(test.away)
			begin(b, now)
			b.Set("n", pods("a", 1, test.due(now)), now)
			got, again := b.Next(now)
			if got == nil && !again.Equal(t0.Add(test.again)) {
				t.Errorf("it is tried again at %v, want after %v", again.Sub(t0), test.again)
			}
			if got != nil && test.again != test.away {
				t.Errorf("it is tried at once, want after %v", test.again)
			}
			if remembered := test.away < 10*time.Minute; remembered != (b.Stats(now).Refused["webhook w"] == 1) {
				t.Errorf("the refusal is remembered: %v", !remembered)
			}
		})
	}
}

func TestARefusalIsForgottenAfterTenMinutes(t *testing.T) {
	b, e := one(t)
	b.Done(e, Failed(sec, "webhook w"), t0)
	b.Set("n", nil, t0)
	got, again := b.Next(t0)
	if got != nil || !again.Equal(t0.Add(10*time.Minute)) {
		t.Errorf("to be asked again at %v, want after 10 min", again)
	}
	b.Next(again)
	if len(b.nodes)+len(b.lanes[Delete].groups) != 0 {
		t.Error("something is left")
	}
}

func TestAnEvictionThatIsNotConfirmedKeepsWhatIsRememberedOfIt(t *testing.T) {
	b, e := one(t)
	e.Memo = "marked"
	b.Done(e, Failed(0, "webhook w"), t0)
	b.Done(begin(b, t0)[0], Later(sec), t0)
	again := begin(b, t0.Add(sec))
	if len(again) != 1 || e.Memo != "marked" || e.Tries != 1 {
		t.Errorf("%v begin, with memo %v after %d tries", uids(again), e.Memo, e.Tries)
	}
}

func TestAnEvictionThatIsNotConfirmedIsTriedAgainWhenNewsOfItsNodeCome(t *testing.T) {
	b, e := one(t)
	e.Memo = "announced"
	b.Done(e, Unsure(4*sec), t0)
	if begun := begin(b, t0.Add(sec)); len(begun) != 0 {
		t.Fatalf("%v begin before the time is over", uids(begun))
	}
	b.Set("n", pods("a", 1, t0), t0.Add(sec))
	if begun := begin(b, t0.Add(sec)); len(begun) != 1 || e.Memo != "announced" {
		t.Errorf("%v begin, with memo %v", uids(begun), e.Memo)
	}
	b.Done(e, Later(4*sec), t0.Add(sec))
	b.Set("n", pods("a", 1, t0), t0.Add(2*sec))
	if begun := begin(b, t0.Add(2*sec)); len(begun) != 0 {
		t.Errorf("%v begin, although it is only later", uids(begun))
	}
}

func TestAnEvictionThatWaitsForItsTurnAgainIsTheSameAfterAChangeOfItsPod(t *testing.T) {
	b, l := New(Lanes{LimitsFor(1)}, there), pods("a", 1, t0)
	b.Set("n", l, t0)
	e, _ := b.Next(t0)
	e.Memo = "announced"
	b.Done(e, Unsure(sec), t0)
	b.Set("m", pods("a", 2, t0.Add(-time.Hour))[1:], t0.Add(sec))
	if other, _ := b.Next(t0.Add(sec)); other == nil || other == e {
		t.Fatal("the other does not have the only place")
	}
	l[0].Due = l[0].Due.Add(ms) // still due
	b.Set("n", l, t0.Add(sec))
	if e.Memo != "announced" || !e.Begun() {
		t.Errorf("memo %v, begun %t", e.Memo, e.Begun())
	}
}

func TestATryInFlightOfAPodThatIsGoneIsNotWithdrawn(t *testing.T) {
	b := New(Lanes{std}, func(types.UID) bool { return false })
	b.Set("n", pods("a", 1, t0), t0)
	e := begin(b, t0)[0]
	if _, cancel := b.Set("n", nil, t0); len(cancel) != 0 || e.Cancelled() != nil {
		t.Error("it is withdrawn")
	}
	if cancel := b.Stop(sec, t0.Add(2*sec)); len(cancel) != 1 {
		t.Error("it is not cancelled when it hangs at the end of the process")
	}
	b.Done(e, Hung, t0.Add(2*sec))
	if len(b.nodes)+len(b.lanes[Delete].groups) != 0 {
		t.Error("something is left")
	}
}

func TestAPodThatAPolicyHoldsIsNotTriedUntilItLetsItGo(t *testing.T) {
	b := New(Lanes{std}, there)
	l := pods("a", 3, t0)
	l[1].Answer.After = t0.Add(time.Hour)
	l[2].Answer.Held = true
	b.Set("n", l, t0)
	if got := uids(begin(b, t0)); !slices.Equal(got, []string{"a/000"}) {
		t.Errorf("%v begin, want the first", got)
	}
	if s := b.Stats(t0); s.Due != 1 || s.Held != 2 {
		t.Errorf("%d are due and %d held, want 1 and 2", s.Due, s.Held)
	}
	if got := uids(begin(b, t0.Add(time.Hour))); !slices.Equal(got, []string{"a/001"}) {
		t.Errorf("after an hour %v begin, want the second", got)
	}
	l[2].Answer.Held = false
	b.Set("n", l, t0.Add(time.Hour))
	if got := uids(begin(b, t0.Add(time.Hour))); !slices.Equal(got, []string{"a/002"}) {
		t.Errorf("%v begin once it is not held, want the third", got)
	}
}

func TestARefusalKeepsItsBackoffWhileAPolicyHoldsThePod(t *testing.T) {
	b, e := one(t)
	b.Done(e, Failed(time.Minute, "webhook w"), t0)
	l := pods("a", 1, t0)
	for i := range 3 {
		now := t0.Add(time.Duration(i) * sec)
		l[0].Answer.Held = true
		b.Set("n", l, now)
		l[0].Answer.Held = false
		b.Set("n", l, now)
		if got, again := b.Next(now); got != nil || !again.Equal(t0.Add(time.Minute)) {
			t.Errorf("after %s it is tried at %v, want after a minute", now.Sub(t0), again.Sub(t0))
		}
	}
	if got := begin(b, t0.Add(time.Minute)); len(got) != 1 || got[0].Tries != 1 {
		t.Errorf("%v begin after a minute, want it, as a retry", uids(got))
	}
}

func TestAPodThatAPolicyLetsGoEarlierThanItSaidIsTriedThen(t *testing.T) {
	for name, answer := range map[string]Answer{
		"at an instant": {After: t0.Add(20 * sec)},
		"now":           {},
	} {
		t.Run(name, func(t *testing.T) {
			b, e := one(t)
			b.Done(e, Failed(sec, ""), t0)
			l := pods("a", 1, t0)
			l[0].Answer.After = t0.Add(time.Hour)
			b.Set("n", l, t0.Add(2*sec))
			l[0].Answer = answer
			b.Set("n", l, t0.Add(20*sec))
			if begun := begin(b, t0.Add(20*sec)); len(begun) != 1 {
				t.Errorf("%d are tried, want the pod", len(begun))
			}
		})
	}
}

func TestAnEvictionThatAPolicyHoldsInFlightIsCancelled(t *testing.T) {
	b, e := one(t)
	held := pods("a", 1, t0)
	held[0].Answer.Held = true
	if _, cancel := b.Set("n", held, t0); len(cancel) != 1 {
		t.Fatal("it is not cancelled")
	}
	b.Done(e, Hung, t0)
	if got := begin(b, t0.Add(time.Hour)); len(got) != 0 {
		t.Errorf("%v begin", uids(got))
	}
}

func TestStatsCountWhatIsAhead(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", slices.Concat(pods("a", 20, t0), pods("b", 5, t0.Add(sec)), pods("c", 1, t0.Add(2*sec))), t0)
	for _, e := range begin(b, t0)[:3] {
		b.Done(e, Failed(sec, "webhook w"), t0)
	}
	s := b.Stats(t0.Add(sec))
	if s.Pending != 1 || s.Due != 25 || s.InFlight != 13 || s.Refused["webhook w"] != 3 || !s.Next.Equal(t0.Add(2*sec)) ||
		!s.Oldest.Equal(t0) || !s.Untried.Equal(t0) || !s.Begun.Equal(t0) {
		t.Errorf("%+v", s)
	}
	if due := b.Due(t0); len(due["n"]) != 20 {
		t.Errorf("%d pods are due, want 20", len(due["n"]))
	}
	if due := b.Due(t0.Add(-sec)); len(due) != 0 {
		t.Errorf("%v are due before any is", due)
	}
}

// How long a call takes depends on how many evictions it moves, and the caller holds a lock meanwhile.
func TestACallOfNextMovesAtMost1000EvictionsAndAllAreMovedWithoutWaiting(t *testing.T) {
	const many = 20*movesPerCall + 1 // more calls than there are places
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", many, t0), t0.Add(-sec))
	if begun := callsOfNext(t, b, &b.lanes[Delete].pending, t0); len(begun) != 16 {
		t.Errorf("%d evictions begin, want 16", len(begun))
	}
}

func TestACallOfNextForgetsAtMost1000Refusals(t *testing.T) {
	const many = 5*movesPerCall + 1
	b := New(Lanes{LimitsFor(many)}, there)
	b.Set("n", pods("a", many, t0), t0)
	for _, e := range begin(b, t0) {
		b.Done(e, Failed(sec, "webhook w"), t0)
	}
	b.Set("n", nil, t0)
	if begun := callsOfNext(t, b, &b.lanes[Delete].spared, t0.Add(rememberRefusal)); len(begun)+len(b.nodes) != 0 {
		t.Errorf("%d evictions begin and %d nodes are left, want none", len(begun), len(b.nodes))
	}
}

// callsOfNext calls Next at an instant until a queue is empty. Each call may move at most movesPerCall of its
// evictions.
func callsOfNext(t *testing.T, b *Backlog, from *ordered[*Eviction], now time.Time) (begun []*Eviction) {
	t.Helper()
	for !from.empty() {
		before := len(from.all)
		e, again := b.Next(now)
		if e != nil {
			begun = append(begun, e)
		} else if !from.empty() && (again.IsZero() || again.After(now)) {
			t.Fatalf("%d evictions wait to be moved, and Next should be called again at %v", len(from.all), again)
		}
		if moved := before - len(from.all); moved > movesPerCall || moved < min(before, movesPerCall) {
			t.Fatalf("a call moves %d of %d evictions, want %d", moved, before, movesPerCall)
		}
	}
	return begun
}

func TestAtTheEndOfTheProcessWhatHangsIsCancelled(t *testing.T) {
	b := New(Lanes{std}, there)
	b.Set("n", pods("a", 20, t0), t0)
	hangs := begin(b, t0)
	begin(b, t0.Add(sec))
	if cancel := b.Stop(3*sec, t0.Add(3*sec)); !slices.Equal(cancel, hangs) {
		t.Errorf("%v are cancelled", uids(cancel))
	}
	if cancel := b.Stop(3*sec, t0.Add(4*sec)); len(cancel) != 4 {
		t.Errorf("%v are cancelled then", uids(cancel))
	}
}

func TestTheLimitsFollowTheNumberOfPlaces(t *testing.T) {
	if got := LimitsFor(1); got.Prompt != 1 || got.Retries != 1 || got.Slow != 4 {
		t.Errorf("with one place %+v", got)
	}
	if got := LimitsFor(16); got.Prompt != 16 || got.Retries != 4 || got.Slow != 64 {
		t.Errorf("with 16 places %+v", got)
	}
}

func TestAWithdrawnTryLeavesTheBackoffOfTheRefusalsBeforeIt(t *testing.T) {
	for name, outcome := range map[string]Outcome{"withdrawn": Withdrawn, "refused, too": Failed(time.Minute, "w")} {
		b := New(Lanes{std}, there)
		b.Set("n", pods("a", 1, t0), t0)
		b.Done(begin(b, t0)[0], Failed(sec, "w"), t0)
		b.Set("n", nil, t0.Add(2*sec)) // the taint comes and goes
		b.Set("n", pods("a", 1, t0), t0.Add(2*sec))
		again := begin(b, t0.Add(2*sec))
		if len(again) != 1 || again[0].Tries != 1 {
			t.Fatalf("%s: %v begin, want the second try", name, uids(again))
		}
		b.Set("n", nil, t0.Add(3*sec))
		b.Done(again[0], outcome, t0.Add(3*sec))
		b.Set("n", pods("a", 1, t0), t0.Add(4*sec))
		next, _ := b.Next(t0.Add(4 * sec))
		switch {
		case outcome == Withdrawn && (next == nil || next.Tries != 1):
			t.Errorf("%s: it goes on with %v, want the try that was withdrawn", name, next)
		case outcome != Withdrawn && next != nil:
			t.Errorf("%s: it is tried again at once", name)
		}
	}
}
