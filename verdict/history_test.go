// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/verdict"
)

// added returns a taint whose timeAdded is some seconds after noon.
func added(taint corev1.Taint, seconds int) corev1.Taint {
	taint.TimeAdded = &metav1.Time{Time: noon.Add(time.Duration(seconds) * time.Second)}
	return taint
}

// seen is how a version of a node is seen some time after noon.
func seen(after time.Duration, change ...func(*verdict.Seen)) verdict.Seen {
	s := verdict.SeenAt(noon.Add(after))
	s.Version = fmt.Sprint(after)
	for _, apply := range change {
		apply(&s)
	}
	return s
}

func afterAGap(s *verdict.Seen)    { s.Gap = true }
func neverStamped(s *verdict.Seen) { s.NeverStamped = true }

func TestWhatContinues(t *testing.T) {
	const sec = time.Second
	plain := noExecute("k", "")
	notReady, unreachable := noExecute(corev1.TaintNodeNotReady, ""), noExecute(corev1.TaintNodeUnreachable, "")
	for name, test := range map[string]struct {
		first, next corev1.Taint // seen at 10.4 s and at 70.4 s
		how         []func(*verdict.Seen)
		since       time.Duration // of the next
		add         int           // the timeAdded that it should have
	}{
		"a taint without timeAdded":                      {plain, plain, nil, 10400 * time.Millisecond, 10},
		"one to which its timeAdded is written":          {plain, added(plain, 10), nil, 10400 * time.Millisecond, 10},
		"one to which a later timeAdded is written":      {plain, added(plain, 70), nil, 10400 * time.Millisecond, 10},
		"one to which an earlier timeAdded is written":   {added(plain, 10), added(plain, 5), nil, 6 * sec, 5},
		"not-ready that becomes unreachable":             {added(notReady, 10), added(unreachable, 70), nil, 10400 * time.Millisecond, 10},
		"another value":                                  {plain, noExecute("k", "v"), nil, 70400 * time.Millisecond, 70},
		"without timeAdded, over a gap":                  {plain, plain, []func(*verdict.Seen){afterAGap}, 70400 * time.Millisecond, 70},
		"without timeAdded, over a gap, never stamped":   {plain, plain, []func(*verdict.Seen){afterAGap, neverStamped}, 10400 * time.Millisecond, 70},
		"set again in a gap, with timeAdded":             {plain, added(plain, 65), []func(*verdict.Seen){afterAGap}, 66 * sec, 65},
		"set again in a gap, never stamped":              {plain, added(plain, 65), []func(*verdict.Seen){afterAGap, neverStamped}, 66 * sec, 65},
		"its timeAdded taken off in a gap":               {added(plain, 10), plain, []func(*verdict.Seen){afterAGap, neverStamped}, 70400 * time.Millisecond, 70},
		"the same timeAdded, over a gap":                 {added(plain, 10), added(plain, 10), []func(*verdict.Seen){afterAGap}, 11 * sec, 10},
		"the timeAdded that it should have, over a gap":  {plain, added(plain, 10), []func(*verdict.Seen){afterAGap}, 11 * sec, 10},
		"another timeAdded, over a gap":                  {added(plain, 10), added(plain, 30), []func(*verdict.Seen){afterAGap}, 31 * sec, 30},
		"not-ready that becomes unreachable, over a gap": {added(notReady, 10), added(unreachable, 30), []func(*verdict.Seen){afterAGap}, 31 * sec, 30},
	} {
		t.Run(name, func(t *testing.T) {
			known := verdict.Advance(nil, []corev1.Taint{test.first}, seen(10400*time.Millisecond))
			next := verdict.Advance(known, []corev1.Taint{test.next}, seen(70400*time.Millisecond, test.how...))
			if got := next[0].Since.Sub(noon); got != test.since {
				t.Errorf("it counts from %v, want %v", got, test.since)
			}
			if got := next[0].Add.Sub(noon); got != time.Duration(test.add)*sec {
				t.Errorf("its timeAdded should be at %v, want %d s", got, test.add)
			}
		})
	}
}

// A timeAdded in the future comes from a clock that is ahead. It says nothing, and is left alone until somebody
// overwrites it.
func TestATimeAddedInTheFuture(t *testing.T) {
	future := added(noExecute("k", ""), 3600)
	known := verdict.Advance(nil, []corev1.Taint{future}, seen(10*time.Second))
	if known[0].ToldBy(known[0].Add) {
		t.Error("a timeAdded says that it is the same, although nobody knows when it was set")
	}
	if known[0].Since.Sub(noon) != 10*time.Second || known[0].Unstamped() || known[0].ToldBy(future.TimeAdded) {
		t.Errorf("it counts from %v, is unstamped: %t, told: %t", known[0].Since.Sub(noon), known[0].Unstamped(), known[0].ToldBy(future.TimeAdded))
	}
	over := verdict.Advance(known, []corev1.Taint{added(noExecute("k", ""), 60)}, seen(61*time.Second))
	if over[0].Since.Sub(noon) != 10*time.Second || !over[0].Unstamped() || over[0].Add.Sub(noon) != 10*time.Second {
		t.Errorf("written over, it counts from %v, is unstamped: %t, and should have %v", over[0].Since.Sub(noon), over[0].Unstamped(), over[0].Add.Sub(noon))
	}
}

// One process writes down when a cause began, and its successor must not count from a clock that was ahead.
func TestATimeAddedInTheFutureNextToTheOtherNameOfItsCauseIsWrittenOver(t *testing.T) {
	ahead := added(noExecute(corev1.TaintNodeUnreachable, ""), 3600)
	known := verdict.Advance(nil, []corev1.Taint{ahead, noExecute(corev1.TaintNodeNotReady, "")}, seen(10*time.Second))
	for _, taint := range known {
		if !taint.Unstamped() || taint.Add.Sub(noon) != 10*time.Second {
			t.Errorf("%s is unstamped: %t, and should have %v", taint.Key, taint.Unstamped(), taint.Add.Sub(noon))
		}
	}
}

// If both names have one, neither says anything, and neither is written over.
func TestTimeAddedsInTheFutureOfBothNamesOfACauseAreLeftAlone(t *testing.T) {
	both := []corev1.Taint{
		added(noExecute(corev1.TaintNodeUnreachable, ""), 3600), added(noExecute(corev1.TaintNodeNotReady, ""), 3600),
	}
	for _, taint := range verdict.Advance(nil, both, seen(10*time.Second)) {
		if taint.Unstamped() || taint.ToldBy(taint.TimeAdded) {
			t.Errorf("%s is unstamped: %t, told: %t", taint.Key, taint.Unstamped(), taint.ToldBy(taint.TimeAdded))
		}
	}
}

// However many gaps there are, they make the taint count at most from the end of its second.
func TestManyGapsPostponeNothing(t *testing.T) {
	taint := added(noExecute("k", ""), 10)
	known := verdict.Advance(nil, []corev1.Taint{taint}, seen(10400*time.Millisecond))
	for i := range 100 {
		known = verdict.Advance(known, []corev1.Taint{taint}, seen(time.Duration(20+i)*time.Second, afterAGap))
	}
	if got := known[0].Since.Sub(noon); got != 11*time.Second {
		t.Errorf("after 100 gaps it counts from %v, want 11 s", got)
	}
}

func TestOfManyValuesTheNewestAndTheFirstAreRemembered(t *testing.T) {
	var known []verdict.Taint
	for i := range 40 {
		known = verdict.Advance(known, []corev1.Taint{noExecute("k", fmt.Sprint("v", i))}, seen(time.Duration(i)*time.Minute))
		if i == 16 && known[0].Before[15].Forgotten {
			t.Error("one of 17 values is forgotten, want 16 remembered and the present one")
		}
	}
	before := known[0].Before
	if len(before) != 16 || before[0].Value != "v38" || before[14].Value != "v24" || before[15].Value != "v0" || !before[15].Forgotten || before[14].Forgotten {
		t.Errorf("remembered are %+v", before)
	}
}

// An observer who knows nothing about the API server's clock cannot date anything that was recorded.
func TestWithoutAClockWhatIsRecordedCountsFromTheSight(t *testing.T) {
	s := verdict.Sight{At: noon.Add(time.Hour), Latest: noon.Add(time.Hour)}
	if got := s.Start(noon); !got.Equal(s.At) {
		t.Errorf("it counts from %v before the sight", s.At.Sub(got))
	}
}

// The second value came within the second in which, unseen, the taint was removed and added again.
func TestOverAGapNothingIsKnownOfEarlierValues(t *testing.T) {
	v1, v2 := added(noExecute("k", "v1"), 10), added(noExecute("k", "v2"), 70)
	known := verdict.Advance(nil, []corev1.Taint{v1}, seen(10400*time.Millisecond))
	known = verdict.Advance(known, []corev1.Taint{v2}, seen(70100*time.Millisecond))
	known = verdict.Advance(known, []corev1.Taint{v2}, seen(80*time.Second, afterAGap))
	pod := verdict.Pod{Tolerations: []corev1.Toleration{forSeconds("k", 100)}, Bound: noon}
	if due := (verdict.Rule{}).Decide(pod, known).Due.Sub(noon); due != 171*time.Second {
		t.Errorf("due at %v, want 100 s after the end of the second of 70 s", due)
	}
}

// The timeAdded that a taint should have can be a second that ends after the sight.
func TestATaintThatIsSetAgainUnseenCountsFromTheEndOfTheSecondThatItShouldHave(t *testing.T) {
	roughly := seen(10200 * time.Millisecond)
	roughly.Earliest, roughly.Latest = noon.Add(10100*time.Millisecond), noon.Add(11050*time.Millisecond)
	known := verdict.Advance(nil, []corev1.Taint{noExecute("k", "")}, roughly)
	next := verdict.Advance(known, []corev1.Taint{added(noExecute("k", ""), 11)}, seen(20*time.Second, afterAGap))
	if got := next[0].Since.Sub(noon); got < 12*time.Second || got > 12200*time.Millisecond {
		t.Errorf("it counts from %v, and may have been set at 11.9 s", got)
	}
}

func TestManyGapsPostponeNothingWithoutADateEither(t *testing.T) {
	taint := added(noExecute("k", ""), 10)
	var known []verdict.Taint
	for i := range 100 {
		s := seen(time.Duration(10+30*i)*time.Second+400*time.Millisecond, afterAGap)
		s.Earliest, s.Behind = time.Time{}, time.Time{}
		known = verdict.Advance(known, []corev1.Taint{taint}, s)
	}
	if got := known[0].Since.Sub(noon); got > 12*time.Second {
		t.Errorf("after 100 gaps it counts from %v", got)
	}
}

func TestATimeAddedInTheFutureThatIsWrittenOverAnotherIsWrittenBack(t *testing.T) {
	for _, at := range []time.Duration{10800 * time.Millisecond, 11200 * time.Millisecond} {
		known := verdict.Advance(nil, []corev1.Taint{noExecute("k", "")}, seen(10200*time.Millisecond))
		known = verdict.Advance(known, []corev1.Taint{added(noExecute("k", ""), 3600)}, seen(at))
		if !known[0].Unstamped() {
			t.Errorf("written at %v, it stays", at)
		}
	}
}

// The timeAdded that a taint should have is a second. Another value that comes within it counts from its own sight.
func TestAnotherValueCountsFromItsOwnSightWithinTheSecondThatTheTaintShouldHave(t *testing.T) {
	for name, test := range map[string]struct{ first, next corev1.Taint }{
		"no timeAdded":              {noExecute("k", "x"), added(noExecute("k", ""), 10)},
		"a timeAdded in the future": {added(noExecute("k", "x"), 3600), added(noExecute("k", ""), 10)},
		"the same in the future":    {added(noExecute("k", "x"), 3600), added(noExecute("k", ""), 3600)},
		"one that drops timeAdded":  {added(noExecute("k", "x"), 10), noExecute("k", "")},
	} {
		known := verdict.Advance(nil, []corev1.Taint{test.first}, seen(10300*time.Millisecond))
		known = verdict.Advance(known, []corev1.Taint{test.next}, seen(10400*time.Millisecond))
		if got := known[0].Since.Sub(noon); got != 10400*time.Millisecond {
			t.Errorf("%s: it counts from %v, want 10.4 s", name, got)
		}
	}
}

// A later timeAdded postpones nothing, but it is all that is known about a value that comes with it.
func TestAnotherValueCountsFromATimeAddedThatWasMovedOn(t *testing.T) {
	known := verdict.Advance(nil, []corev1.Taint{added(noExecute("k", "a"), 4)}, seen(10300*time.Millisecond))
	known = verdict.Advance(known, []corev1.Taint{added(noExecute("k", "a"), 15)}, seen(20300*time.Millisecond))
	if got := known[0].Since.Sub(noon); got != 5*time.Second {
		t.Errorf("moved on, it counts from %v, want 5 s", got)
	}
	known = verdict.Advance(known, []corev1.Taint{added(noExecute("k", "b"), 15)}, seen(20400*time.Millisecond))
	if got := known[0].Since.Sub(noon); got != 16*time.Second {
		t.Errorf("with another value it counts from %v, want 16 s", got)
	}
}

// It may have been set again with that value at any time.
func TestOverAGapAnotherValueIsAnotherTaint(t *testing.T) {
	known := verdict.Advance(nil, []corev1.Taint{added(noExecute("k", "a"), 10)}, seen(10400*time.Millisecond))
	next := verdict.Advance(known, []corev1.Taint{added(noExecute("k", "b"), 10)}, seen(20*time.Second, afterAGap))
	if next[0].Since.Sub(noon) != 11*time.Second || len(next[0].Before) != 0 {
		t.Errorf("it counts from %v, after %v", next[0].Since.Sub(noon), next[0].Before)
	}
}

func TestTwoNamesOfOneCauseCountFromTheEarlierWhateverTheirOrder(t *testing.T) {
	notReady := added(noExecute(corev1.TaintNodeNotReady, ""), 10)
	unreachable := added(noExecute(corev1.TaintNodeUnreachable, ""), 10)
	known := verdict.Advance(nil, []corev1.Taint{notReady}, seen(10400*time.Millisecond))
	for _, order := range [][]corev1.Taint{{notReady, unreachable}, {unreachable, notReady}} {
		behind := seen(100*time.Second, afterAGap)
		behind.Behind = noon.Add(-time.Hour) // this machine's clock
		for _, taint := range verdict.Advance(known, order, behind) {
			if got := taint.Since.Sub(noon); got != 11*time.Second {
				t.Errorf("%s counts from %v, want 11 s", taint.Key, got)
			}
		}
	}
}

func TestTaintsOfOtherEffectsAreNotRemembered(t *testing.T) {
	noSchedule := corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule}
	known := verdict.Advance(nil, []corev1.Taint{noSchedule, noExecute("k", "")}, seen(0))
	if len(known) != 1 || known[0].Effect != corev1.TaintEffectNoExecute {
		t.Errorf("%+v are remembered, want the NoExecute taint", known)
	}
}

func TestWhatMakesATaintAnother(t *testing.T) {
	same := since(added(noExecute("k", "v"), 10), noon)
	if other := since(added(noExecute("k", "v"), 10), noon); !same.Same(other) {
		t.Error("two that are equal are not the same")
	}
	for name, change := range map[string]func(*verdict.Taint){
		"the key":            func(t *verdict.Taint) { t.Key = "other" },
		"the value":          func(t *verdict.Taint) { t.Value = "other" },
		"the timeAdded":      func(t *verdict.Taint) { t.TimeAdded = nil },
		"when it began":      func(t *verdict.Taint) { t.Since = t.Since.Add(1) },
		"the earlier values": func(t *verdict.Taint) { t.Before = []verdict.Past{{Value: "before"}} },
	} {
		other := same
		if change(&other); same.Same(other) {
			t.Errorf("%s is another, and the taint is the same", name)
		}
	}
}
