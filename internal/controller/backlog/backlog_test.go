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
	// asks are limits of pods about which the Eviction API is asked.
	asks = Limits{Prompt: 8, Retries: 4, Slow: 8, PerGroup: 2, Patience: sec, Pace: 20 * ms}
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

// with returns a Backlog in which pods must leave node "n".
func with(limits Limits, leaving ...[]Leaving) *Backlog {
	b := New(Lanes{limits, asks}, there)
	b.Set("n", slices.Concat(leaving...), t0)
	return b
}

// asking are pods about which the Eviction API is asked.
func asking(all []Leaving) []Leaving {
	for i := range all {
		all[i].Lane = Ask
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

// hangs reports whether a namespace hangs, as far as its deletes are concerned.
func (b *Backlog) hangs(namespace string) bool { return b.lanes[Delete].groups[namespace].hangs }

// isEmpty reports whether nothing is left over.
func (b *Backlog) isEmpty() bool {
	return len(b.nodes)+len(b.lanes[Delete].groups)+len(b.lanes[Ask].groups) == 0
}

func TestLanesTakeTurnsAndFillTheirPlaces(t *testing.T) {
	begun := begin(with(std, pods("a", 50, t0), asking(pods("b", 50, t0))), t0)
	if len(begun) != 18 {
		t.Errorf("%d evictions begin, want 16 deletes and 2 asks of a group", len(begun))
	}
	if begun[0].Lane == begun[1].Lane {
		t.Errorf("the first two to begin are %v, want one of each lane", uids(begun[:2]))
	}
}

func TestAGroupHasAtMostPerGroupInFlightHoweverLongTheyTake(t *testing.T) {
	limits := std
	limits.PerGroup = 2
	b := with(limits, pods("a", 9, t0), pods("b", 3, t0))
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
	b := with(std, pods("a", 100, t0))
	if got := len(begin(b, t0)); got != 16 {
		t.Errorf("%d evictions begin, want 16", got)
	}
	if e, again := b.Next(t0); e != nil || !again.Equal(t0.Add(250*ms)) {
		t.Errorf("the next begins now or at %v, want after 250 ms", again)
	}
	for slow, want := range []int{16, 16, 16, 16, 0} { // 64 may be slow
		if got := len(begin(b, t0.Add(time.Duration(slow+1)*250*ms))); got != want {
			t.Errorf("%d evictions begin once %d are slow, want %d", got, (slow+1)*16, want)
		}
	}
}

func TestANamespaceThatHangsHas4Places(t *testing.T) {
	b := with(std, pods("a", 100, t0))
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
	b := with(std, pods("a", 40, t0))
	first, later := begin(b, t0), begin(b, t0.Add(sec))
	for _, step := range []struct {
		ends  *Eviction
		as    Outcome
		hangs bool
	}{
		{first[0], Hung, true},
		{first[1], Over, false}, // it began just as late
		{later[0], Hung, true},
		{first[2], Over, true},
		{later[1], Failed(sec, "webhook w"), false},
	} {
		if b.Done(step.ends, step.as, t0.Add(3*sec)); b.hangs("a") != step.hangs {
			t.Fatalf("after the end of %s: hangs: %t, want %t", step.ends.UID, !step.hangs, step.hangs)
		}
	}
}

func TestAPodThatHangsAgainSaysNothingNewOfItsNamespace(t *testing.T) {
	b := with(std, pods("a", 2, t0))
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
		if b.Done(step.ends, step.as, now); b.hangs("a") != step.hangs {
			t.Fatalf("after %v: hangs: %t, want %t", now.Sub(t0), !step.hangs, step.hangs)
		}
		begin(b, now)
	}
	if e.Tries != 5 {
		t.Errorf("%d tries failed or hung, want 5", e.Tries)
	}
	b = with(std, pods("a", 2, t0))
	withdrawn := begin(b, t0)[0]
	b.Set("n", pods("a", 2, t0)[1:], t0)
	if b.Done(withdrawn, Hung, t0.Add(sec)); b.hangs("a") {
		t.Error("a try that was withdrawn says that its namespace hangs")
	}
}

func TestInANamespaceThatHangsFirstTriesComeBeforeRetries(t *testing.T) {
	b := with(std, pods("a", 30, t0))
	hung := begin(b, t0)
	for _, e := range hung {
		b.Done(e, Hung, t0.Add(sec))
	}
	var got []*Eviction
	for i := range 5 {
		got = append(got, begin(b, t0.Add(time.Duration(i+2)*sec))...)
	}
	for i, e := range got {
		if first := i < 14; first == slices.Contains(hung, e) {
			t.Errorf("%s is number %d of %v", e.UID, i, uids(got))
		}
	}
}

func TestNamespacesTakeTurns(t *testing.T) {
	if got := uids(begin(with(std, pods("a", 1, t0), pods("b", 1, t0)), t0)); !slices.Equal(got, []string{"a/000", "b/000"}) {
		t.Errorf("they begin in the order %v, want the namespace first that came first", got)
	}
	b := with(std, pods("a", 100, t0), pods("b", 2, t0))
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

func TestNoPodIsTriedBeforeItMayBe(t *testing.T) {
	all := pods("a", 4, t0)
	all[1].Due, all[1].Priority = t0.Add(100*ms), 9 // before the next, in the same second
	all[2].Due = t0.Add(900 * ms)
	all[3].Answer.After = t0.Add(time.Hour)
	held := pods("held", 1, t0)
	held[0].Answer.Held = true
	b := with(std, all, held)
	for _, step := range []struct {
		at    time.Duration
		begin string
	}{{0, "a/000"}, {100 * ms, "a/001"}, {900 * ms, "a/002"}, {time.Hour, "a/003"}} {
		if got := uids(begin(b, t0.Add(step.at))); !slices.Equal(got, []string{step.begin}) {
			t.Errorf("after %v %v begin, want %s", step.at, got, step.begin)
		}
		if s := b.Stats(t0.Add(step.at)); s.Held < 1 {
			t.Errorf("after %v no pod is held", step.at)
		}
	}
	held[0].Answer.Held = false
	b.Set("n", slices.Concat(all, held), t0.Add(time.Hour))
	if got := uids(begin(b, t0.Add(time.Hour))); !slices.Equal(got, []string{"held/000"}) {
		t.Errorf("%v begin once it is not held, want the one that was", got)
	}
}

func TestWhenThe65thIsSlowTheYoungestOfTheNamespaceWithTheMostIsCancelled(t *testing.T) {
	b, now := with(std, pods("a", 50, t0), pods("b", 20, t0)), t0
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

func TestNamespacesWithEquallyManySlowEvictionsLoseEquallyMany(t *testing.T) {
	b, now := with(std, pods("a", 34, t0), pods("b", 34, t0)), t0
	for range 5 {
		begin(b, now)
		now = now.Add(250 * ms)
	}
	lost := map[string]int{}
	for _, e := range b.Excess(now) {
		lost[e.Group]++
	}
	if lost["a"] != 2 || lost["b"] != 2 {
		t.Errorf("of 68 are cancelled %v, want 2 of each namespace", lost)
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

// What is known about a node is set again with each of its changes, and the node can have very many pods.
func TestASetThatBringsNothingNewMovesNothing(t *testing.T) {
	all := pods("a", 100, t0)
	b := with(std, all)
	begin(b, t0)
	if b.Set("n", all, t0); !b.lanes[Delete].pending.empty() {
		t.Errorf("%d of the evictions that wait for their turn are moved", len(b.lanes[Delete].pending.all))
	}
}

func TestAtMost50EvictionsASecondAreRetriedThatFailed(t *testing.T) {
	b := with(std, pods("a", 2000, t0))
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

// onePod is the only pod of a Backlog, which is in flight at first. Instants count from t0.
type onePod struct {
	*testing.T

	b        *Backlog
	e        *Eviction // the last try
	now      time.Duration
	inFlight bool
}

func newOnePod(t *testing.T) *onePod {
	t.Helper()
	p := &onePod{T: t, b: with(std, pods("a", 1, t0))}
	if p.tried(0); !p.inFlight {
		t.Fatal("it is not tried at once")
	}
	p.e.Memo = "of the first"
	return p
}

// tried lets it be tried now, if it may be.
func (p *onePod) tried(at time.Duration) {
	p.now = at
	if e, _ := p.b.Next(t0.Add(at)); e != nil {
		p.e, p.inFlight = e, true
	}
}

// ends lets its try in flight end.
func (p *onePod) ends(at time.Duration, as Outcome) {
	p.Helper()
	if p.now = at; !p.inFlight {
		p.Fatalf("after %v it is not in flight", at)
	}
	p.b.Done(p.e, as, t0.Add(at))
	p.inFlight = false
}

// leaves says that it must leave, in some way.
func (p *onePod) leaves(at time.Duration, change ...func(l *Leaving)) (cancelled bool) {
	p.now = at
	l := pods("a", 1, t0)
	for _, apply := range change {
		apply(&l[0])
	}
	_, cancel := p.b.Set("n", l, t0.Add(at))
	return len(cancel) > 0
}

// stays says that it may stay.
func (p *onePod) stays(at time.Duration) {
	p.now = at
	p.b.Set("n", nil, t0.Add(at))
}

// next returns when it is tried next, or a negative time if it never is.
func (p *onePod) next() time.Duration {
	for now := t0.Add(p.now); ; {
		e, again := p.b.Next(now)
		switch {
		case e != nil:
			return now.Sub(t0)
		case again.IsZero():
			return -1
		}
		now = again
	}
}

func due(d time.Duration) func(l *Leaving) { return func(l *Leaving) { l.Due = t0.Add(d) } }
func heldUntil(d time.Duration) func(l *Leaving) {
	return func(l *Leaving) { l.Answer.After = t0.Add(d) }
}
func held(l *Leaving)  { l.Answer.Held = true }
func asked(l *Leaving) { l.Lane = Ask }

func TestWhenAPodIsTriedAgain(t *testing.T) {
	refused := Failed(5*time.Minute, "webhook w")
	const never = -1
	for name, test := range map[string]struct {
		happens func(p *onePod)
		want    time.Duration
		tries   int  // failed or hung, that the eviction knows of
		fresh   bool // as another eviction, which remembers nothing
	}{
		"failed":                      {func(p *onePod) { p.ends(0, Failed(3*sec, "")) }, 3 * sec, 1, false},
		"refused":                     {func(p *onePod) { p.ends(0, refused) }, 5 * time.Minute, 1, false},
		"hung":                        {func(p *onePod) { p.ends(sec, Hung) }, sec, 1, false},
		"put off":                     {func(p *onePod) { p.ends(0, Later(4*sec)) }, 4 * sec, 0, false},
		"not confirmed":               {func(p *onePod) { p.ends(0, Unsure(4*sec)) }, 4 * sec, 0, false},
		"put off after a refusal":     {func(p *onePod) { p.ends(0, Failed(0, "w")); p.tried(0); p.ends(0, Later(sec)) }, sec, 1, false},
		"not confirmed, and news":     {func(p *onePod) { p.ends(0, Unsure(4*sec)); p.leaves(sec) }, sec, 0, false},
		"put off, and a node changes": {func(p *onePod) { p.ends(0, Later(4*sec)); p.leaves(sec) }, 4 * sec, 0, false},
		"put off, and due less than a second earlier": {
			func(p *onePod) { p.ends(0, Later(4*sec)); p.leaves(0, due(-sec+1)) }, 4 * sec, 0, false,
		},
		"put off, and due a second earlier": {func(p *onePod) { p.ends(0, Later(4*sec)); p.leaves(0, due(-sec)) }, 0, 0, false},
		"put off, and due an hour later":    {func(p *onePod) { p.ends(0, Later(4*sec)); p.leaves(0, due(time.Hour)) }, time.Hour, 0, true},
		"refused, and due a second earlier": {func(p *onePod) { p.ends(0, refused); p.leaves(0, due(-sec)) }, 5 * time.Minute, 1, false},
		"refused, and due an hour later":    {func(p *onePod) { p.ends(0, refused); p.leaves(0, due(time.Hour)) }, time.Hour, 0, true},
		"refused, and held for a moment": {
			func(p *onePod) {
				p.ends(0, refused)
				for at := time.Duration(0); at < 3*sec; at += sec {
					p.leaves(at, held)
					p.leaves(at)
				}
			}, 5 * time.Minute, 1, false,
		},
		"asked about and refused, then held for a moment": {
			func(p *onePod) {
				p.leaves(0, asked)
				p.ends(0, Withdrawn)
				p.tried(0)
				p.ends(0, refused)
				p.leaves(sec, held)
				p.leaves(2*sec, asked)
			}, 5 * time.Minute, 1, true,
		},
		"held": {func(p *onePod) { p.ends(0, Failed(sec, "")); p.leaves(sec, held) }, never, 1, false},
		"held until an instant, and let go earlier": {
			func(p *onePod) {
				p.ends(0, Failed(sec, ""))
				p.leaves(2*sec, heldUntil(time.Hour))
				p.leaves(20*sec, heldUntil(20*sec))
			}, 20 * sec, 1, false,
		},
		"held until an instant, and let go now": {
			func(p *onePod) { p.ends(0, Failed(sec, "")); p.leaves(2*sec, heldUntil(time.Hour)); p.leaves(20 * sec) }, 20 * sec, 1, false,
		},
		"withdrawn, and it must leave again": {
			func(p *onePod) { p.stays(0); p.leaves(0); p.ends(0, Withdrawn) }, 0, 0, true,
		},
		"withdrawn and hung, and it must leave again": {func(p *onePod) { p.stays(0); p.leaves(0); p.ends(0, Hung) }, 0, 0, true},
		"withdrawn, as it is due a second later":      {func(p *onePod) { p.leaves(0, due(sec)); p.ends(0, Hung) }, sec, 0, true},
		"withdrawn, as it is held":                    {func(p *onePod) { p.leaves(0, held); p.ends(0, Hung) }, never, 0, true},
		"withdrawn, in its second try": {
			func(p *onePod) {
				p.ends(0, Failed(sec, "w"))
				p.tried(sec)
				p.stays(2 * sec)
				p.ends(2*sec, Withdrawn)
				p.leaves(4 * sec)
			}, 4 * sec, 1, true,
		},
		"withdrawn and refused, in its second try": {
			func(p *onePod) {
				p.ends(0, Failed(sec, "w"))
				p.tried(sec)
				p.stays(2 * sec)
				p.ends(2*sec, Failed(time.Minute, "w"))
				p.leaves(4 * sec)
			}, 62 * sec, 2, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newOnePod(t)
			test.happens(p)
			if got := p.next(); got != test.want {
				t.Errorf("it is tried again after %v, want %v", got, test.want)
			}
			if fresh := p.e.Memo == nil; p.e.Tries != test.tries || fresh != test.fresh {
				t.Errorf("it knows of %d tries, want %d; fresh: %t, want %t", p.e.Tries, test.tries, fresh, test.fresh)
			}
		})
	}
}

func TestARefusalKeepsItsBackoffWhenATaintComesAndGoes(t *testing.T) {
	const kept, forgotten = 10*time.Minute - sec, 10*time.Minute + sec
	for name, test := range map[string]struct {
		away, due, want time.Duration
	}{
		"a second":                {sec, sec, 5 * time.Minute},
		"a second, due as before": {sec, 0, 5 * time.Minute},
		"nearly 10 min":           {kept, kept, kept},
		"more than 10 min":        {forgotten, forgotten, forgotten},
	} {
		t.Run(name, func(t *testing.T) {
			p := newOnePod(t)
			p.ends(0, Failed(5*time.Minute, "webhook w"))
			p.stays(0)
			if s := p.b.Stats(t0); s.Due != 0 {
				t.Errorf("%d pods are due while the node has no taint", s.Due)
			}
			begin(p.b, t0.Add(test.away))
			p.leaves(test.away, due(test.due))
			if remembered := p.b.Stats(t0.Add(test.away)).Refused["webhook w"] == 1; remembered != (test.away < 10*time.Minute) {
				t.Errorf("the refusal is remembered: %t", remembered)
			}
			if got := p.next(); got != test.want {
				t.Errorf("it is tried again after %v, want %v", got, test.want)
			}
		})
	}
	p := newOnePod(t)
	p.ends(0, Failed(sec, "webhook w"))
	p.stays(0)
	if e, again := p.b.Next(t0); e != nil || !again.Equal(t0.Add(10*time.Minute)) {
		t.Errorf("to be asked again at %v, want after 10 min", again)
	}
	if p.b.Next(t0.Add(10 * time.Minute)); !p.b.isEmpty() {
		t.Error("something is left after 10 min")
	}
}

func TestATryInFlightIsCancelledOnceWhenItsPodNeedNotLeaveNow(t *testing.T) {
	p := newOnePod(t)
	stay, cancel := p.b.Set("n", nil, t0)
	if len(stay) != 1 || len(cancel) != 1 || !errors.Is(p.e.Cancelled(), ErrWithdrawn) {
		t.Errorf("%v stay, and %v are cancelled: %v", uids(stay), uids(cancel), p.e.Cancelled())
	}
	if stay, cancel := p.b.Set("n", nil, t0); len(stay)+len(cancel) > 0 {
		t.Errorf("%v stay and %v are cancelled once more", uids(stay), uids(cancel))
	}
	if p.leaves(0) || p.leaves(0, held) {
		t.Error("it is cancelled twice")
	}
	if again := begin(p.b, t0); len(again) > 0 {
		t.Error("it is tried twice at once")
	}
	p.stays(0)
	if p.ends(0, Hung); !p.b.isEmpty() {
		t.Error("something is left")
	}
}

func TestATryInFlightIsCancelledWhenItsPodMustLeaveInAnotherWay(t *testing.T) {
	for name, change := range map[string]func(l *Leaving){"due later": due(sec), "held": held, "asked about": asked} {
		p := newOnePod(t)
		if !p.leaves(0, change) || !errors.Is(p.e.Cancelled(), ErrWithdrawn) {
			t.Errorf("%s: it is not withdrawn: %v", name, p.e.Cancelled())
		}
	}
	later := with(std, pods("later", 1, t0.Add(sec)))
	if stay, cancel := later.Set("n", nil, t0); len(stay) != 1 || len(cancel) > 0 || !later.isEmpty() {
		t.Errorf("%v stay and %v are cancelled, want the one that is not due yet, and nothing left", uids(stay), uids(cancel))
	}
}

func TestAPodChangesLanesOnceItsTryInFlightHasEnded(t *testing.T) {
	for name, outcome := range map[string]Outcome{"withdrawn": Withdrawn, "refused": Failed(time.Hour, "w"), "hung": Hung} {
		p := newOnePod(t)
		p.leaves(0, asked)
		if begun := begin(p.b, t0.Add(sec)); len(begun) > 0 {
			t.Fatalf("%s: it is asked about while its delete is in flight", name)
		}
		p.ends(sec, outcome)
		begun := begin(p.b, t0.Add(sec))
		if len(begun) != 1 || begun[0].Lane != Ask || begun[0].Tries > 0 || begun[0].Memo != nil {
			t.Errorf("%s: %v begin, want a new eviction that asks", name, begun)
		}
		if p.b.Done(begun[0], Over, t0.Add(sec)); !p.b.isEmpty() {
			t.Errorf("%s: something is left over", name)
		}
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

func TestAtTheEndOfTheProcessWhatHangsIsCancelled(t *testing.T) {
	b := with(std, pods("a", 20, t0))
	hangs := begin(b, t0)
	begin(b, t0.Add(sec))
	if cancel := b.Stop(3*sec, t0.Add(3*sec)); !slices.Equal(cancel, hangs) {
		t.Errorf("%v are cancelled", uids(cancel))
	}
	if cancel := b.Stop(3*sec, t0.Add(4*sec)); len(cancel) != 4 {
		t.Errorf("%v are cancelled then", uids(cancel))
	}
}

func TestStatsCountWhatIsAhead(t *testing.T) {
	b := with(std, pods("a", 20, t0), pods("b", 5, t0.Add(sec)), pods("c", 1, t0.Add(2*sec)))
	for _, e := range begin(b, t0)[:3] {
		b.Done(e, Failed(sec, "webhook w"), t0)
	}
	s := b.Stats(t0.Add(sec))
	if s.Pending != 1 || s.Due != 25 || s.InFlight != 13 || s.Refused["webhook w"] != 3 || !s.Next.Equal(t0.Add(2*sec)) ||
		!s.Oldest.Equal(t0) || !s.Untried.Equal(t0) || !s.Begun.Equal(t0) {
		t.Errorf("%+v", s)
	}
	if late, none := s.Overdue(t0.Add(sec)), (&Stats{}).Overdue(t0); late != sec || none != 0 {
		t.Errorf("the oldest is overdue for %v, and %v if there is none", late, none)
	}
}

func TestUntriedAreDeletesThatHaveNotBegun(t *testing.T) {
	b := with(std, pods("a", 16, t0), pods("b", 1, t0.Add(sec)), asking(pods("c", 20, t0)))
	begin(b, t0)
	if s := b.Stats(t0.Add(sec)); !s.Untried.Equal(t0.Add(sec)) {
		t.Errorf("the first that was not tried is due %v after the start, want 1s", s.Untried.Sub(t0))
	}
}

func TestPodsAreDueOnceTheyAre(t *testing.T) {
	b := with(std, pods("a", 20, t0), pods("b", 5, t0.Add(sec)))
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
	b := with(std, pods("a", many, t0))
	if begun := callsOfNext(t, b, &b.lanes[Delete].pending, t0); len(begun) != 16 {
		t.Errorf("%d evictions begin, want 16", len(begun))
	}
	// It forgets as many refusals.
	const few = 5*movesPerCall + 1
	b = with(LimitsFor(few), pods("a", few, t0))
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

func TestTheLimitsFollowTheNumberOfPlaces(t *testing.T) {
	if got := LimitsFor(1); got.Prompt != 1 || got.Retries != 1 || got.Slow != 4 {
		t.Errorf("with one place %+v", got)
	}
	if got := LimitsFor(16); got.Prompt != 16 || got.Retries != 4 || got.Slow != 64 {
		t.Errorf("with 16 places %+v", got)
	}
}
