// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// noon is when things happen in these tests.
var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func noExecute(key, value string) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoExecute}
}

func since(taint corev1.Taint, instant time.Time) verdict.Taint {
	return verdict.Taint{Taint: taint, Since: instant}
}

// forever tolerates a key without end.
func forever(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
}

func forSeconds(key string, seconds int64) corev1.Toleration {
	toleration := forever(key)
	toleration.TolerationSeconds = &seconds
	return toleration
}

// boundLongAgo returns a pod with these tolerations that was there before any taint.
func boundLongAgo(tolerations ...corev1.Toleration) verdict.Pod {
	return verdict.Pod{Tolerations: tolerations, Bound: noon.Add(-time.Hour)}
}

func checkDue(t *testing.T, got verdict.Verdict, want time.Time) {
	t.Helper()
	if !got.Leaves || got.Stays() {
		t.Fatalf("the pod stays, want due %s", want)
	}
	if !got.Due.Equal(want) {
		t.Errorf("due %s, want %s", got.Due, want)
	}
}

func checkStays(t *testing.T, got verdict.Verdict) {
	t.Helper()
	if got.Leaves || !got.Stays() {
		t.Fatalf("due %s because of %s, want it to stay", got.Due, got.Taint.Key)
	}
	if !got.Due.IsZero() {
		t.Errorf("it stays, but has a due instant: %s", got.Due)
	}
}

func TestTheFirstTolerationInListOrderThatMatchesCounts(t *testing.T) {
	other := forSeconds("other", 1)
	noSchedule := corev1.Toleration{Key: "disk", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	allEffects := corev1.Toleration{Key: "disk", Operator: corev1.TolerationOpExists}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	broken := corev1.Toleration{Key: "disk", Operator: corev1.TolerationOpEqual, Value: "broken", Effect: corev1.TaintEffectNoExecute}
	full := corev1.Toleration{Key: "disk", Operator: corev1.TolerationOpEqual, Value: "full", Effect: corev1.TaintEffectNoExecute}
	tests := []struct {
		name        string
		tolerations []corev1.Toleration
		wantIndex   int
		wantShadows []int
		wantLeaves  bool
		wantAfter   time.Duration
	}{
		{"no toleration at all", nil, -1, nil, true, 0},
		{"only one for another key", []corev1.Toleration{other}, -1, nil, true, 0},
		{"only one for another effect", []corev1.Toleration{noSchedule}, -1, nil, true, 0},
		{"only one for another value", []corev1.Toleration{full}, -1, nil, true, 0},
		{"one for the same value", []corev1.Toleration{broken}, 0, nil, false, 0},
		{"one for every effect", []corev1.Toleration{allEffects}, 0, nil, false, 0},
		{"one for everything", []corev1.Toleration{everything}, 0, nil, false, 0},
		{"those that do not match are passed over", []corev1.Toleration{other, noSchedule, full, forSeconds("disk", 60)}, 3, nil, true, time.Minute},
		{"a longer one later is shadowed", []corev1.Toleration{forSeconds("disk", 5), forSeconds("disk", 60)}, 0, []int{1}, true, 5 * time.Second},
		{"a shorter one later is shadowed", []corev1.Toleration{forSeconds("disk", 60), forSeconds("disk", 5)}, 0, []int{1}, true, time.Minute},
		{"a later one without a limit is shadowed", []corev1.Toleration{forSeconds("disk", 60), everything}, 0, []int{1}, true, time.Minute},
		{"one with seconds after one without a limit is shadowed", []corev1.Toleration{everything, forSeconds("disk", 60)}, 0, []int{1}, false, 0},
		{"one of zero seconds later is shadowed", []corev1.Toleration{broken, forSeconds("disk", 0)}, 0, []int{1}, false, 0},
		{
			"only those that match are shadowed",
			[]corev1.Toleration{other, forSeconds("disk", 60), noSchedule, allEffects, full, broken, everything}, 1, []int{3, 5, 6}, true, time.Minute,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := boundLongAgo(test.tolerations...)
			got := verdict.Rule{}.Decide(pod, []verdict.Taint{since(noExecute("disk", "broken"), noon)})

			want := verdict.Verdict{Reason: verdict.Reason{
				Taint:           since(noExecute("disk", "broken"), noon),
				TolerationIndex: test.wantIndex,
				Shadowed:        test.wantShadows,
				Start:           noon,
				Leaves:          test.wantLeaves,
			}}
			if test.wantIndex >= 0 {
				want.Toleration = &test.tolerations[test.wantIndex]
			}
			if test.wantLeaves {
				want.Due = noon.Add(test.wantAfter)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("another verdict (-want +got):\n%s", diff)
			}
			if got.Toleration != want.Toleration {
				t.Error("the toleration is a copy, want it to point into the pod's list")
			}
		})
	}
}

func TestTolerationSecondsCountFromTheStartAndSaturate(t *testing.T) {
	untilLatest := verdict.Latest.Unix() - noon.Unix()
	tests := []struct {
		name    string
		seconds int64
		want    time.Time
	}{
		{"the least there is", math.MinInt64, noon},
		{"minus one", -1, noon},
		{"zero", 0, noon},
		{"one", 1, noon.Add(time.Second)},
		{"five minutes", 300, noon.Add(5 * time.Minute)},
		{"the longest time.Duration", math.MaxInt64 / int64(time.Second), noon.Add(time.Duration(math.MaxInt64).Truncate(time.Second))},
		{"585 years, which upstream evicts within the second", 18446744074, time.Unix(noon.Unix()+18446744074, 0)},
		{"one before the latest instant", untilLatest - 1, verdict.Latest.Add(-time.Second)},
		{"the latest instant", untilLatest, verdict.Latest},
		{"one after the latest instant", untilLatest + 1, verdict.Latest},
		{"two to the power of 62", 1 << 62, verdict.Latest},
		{"the most there is", math.MaxInt64, verdict.Latest},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := boundLongAgo(forSeconds("disk", test.seconds))
			checkDue(t, verdict.Rule{}.Decide(pod, []verdict.Taint{since(noExecute("disk", ""), noon)}), test.want)
		})
	}
}

func TestTheSumKeepsTheFractionOfTheStart(t *testing.T) {
	start := noon.Add(123456789 * time.Nanosecond)
	pod := boundLongAgo(forSeconds("disk", 300))
	checkDue(t, verdict.Rule{}.Decide(pod, []verdict.Taint{since(noExecute("disk", ""), start)}), start.Add(5*time.Minute))
}

func TestNothingIsDueBeforeAStartThatIsPastTheLatestInstant(t *testing.T) {
	start := verdict.Latest.Add(time.Hour)
	for _, seconds := range []int64{math.MinInt64, 0, 1, math.MaxInt64} {
		pod := boundLongAgo(forSeconds("disk", seconds))
		checkDue(t, verdict.Rule{}.Decide(pod, []verdict.Taint{since(noExecute("disk", ""), start)}), start)
	}
}

func TestAPodThatWasNeverBoundAndATaintThatWasNeverSeenDoNotOverflow(t *testing.T) {
	pod := verdict.Pod{Tolerations: []corev1.Toleration{forSeconds("disk", math.MaxInt64)}}
	checkDue(t, verdict.Rule{}.Decide(pod, []verdict.Taint{{Taint: noExecute("disk", "")}}), verdict.Latest)
}

func TestTheStartIsTheLaterOfTaintAndBinding(t *testing.T) {
	tests := []struct {
		name         string
		since, bound time.Time
		want         time.Time
	}{
		{"the taint after the binding", noon, noon.Add(-time.Hour), noon},
		{"the binding after the taint", noon, noon.Add(time.Hour), noon.Add(time.Hour)},
		{"the binding a nanosecond after the taint", noon, noon.Add(1), noon.Add(1)},
		{"both at once", noon, noon, noon},
		{"a pod of which nobody knows when it was bound", noon, time.Time{}, noon},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			taint := since(noExecute("disk", ""), test.since)
			for _, seconds := range []int64{-1, 0, 30} {
				pod := verdict.Pod{Tolerations: []corev1.Toleration{forSeconds("disk", seconds)}, Bound: test.bound}
				got := verdict.Rule{}.Decide(pod, []verdict.Taint{taint})
				if !got.Start.Equal(test.want) {
					t.Errorf("tolerated %d s: start %s, want %s", seconds, got.Start, test.want)
				}
				checkDue(t, got, test.want.Add(time.Duration(max(seconds, 0))*time.Second))
			}
			checkDue(t, verdict.Rule{}.Decide(verdict.Pod{Bound: test.bound}, []verdict.Taint{taint}), test.want)
		})
	}
}

func TestOfSeveralTaintsTheEarliestDueDecides(t *testing.T) {
	var (
		a = since(noExecute("a", ""), noon)
		b = since(noExecute("b", ""), noon.Add(10*time.Second))
		c = since(noExecute("c", ""), noon.Add(20*time.Second))
	)
	tests := []struct {
		name        string
		tolerations []corev1.Toleration
		taints      []verdict.Taint
		wantKey     string
		wantLeaves  bool
		wantAfter   time.Duration
	}{
		{"a second taint tolerated for less time brings it forward", []corev1.Toleration{forSeconds("a", 60), forSeconds("b", 5)}, []verdict.Taint{a, b}, "b", true, 15 * time.Second},
		{"without the shorter one it is pushed back", []corev1.Toleration{forSeconds("a", 60), forSeconds("b", 5)}, []verdict.Taint{a}, "a", true, time.Minute},
		{"a second taint tolerated for more time changes nothing", []corev1.Toleration{forSeconds("a", 60), forSeconds("b", 90)}, []verdict.Taint{a, b}, "a", true, time.Minute},
		{"a longer toleration that began earlier can still be first", []corev1.Toleration{forSeconds("a", 21), forSeconds("c", 2)}, []verdict.Taint{a, c}, "a", true, 21 * time.Second},
		{"one without a toleration decides over one with seconds", []corev1.Toleration{forSeconds("a", 60)}, []verdict.Taint{a, b}, "b", true, 10 * time.Second},
		{"one with seconds decides over one without a limit", []corev1.Toleration{forever("a"), forSeconds("b", 60)}, []verdict.Taint{a, b}, "b", true, 70 * time.Second},
		{"one without a toleration decides over one tolerated forever", []corev1.Toleration{forever("a")}, []verdict.Taint{a, b}, "b", true, 10 * time.Second},
		{"all tolerated forever", []corev1.Toleration{forever("a"), forever("b"), forever("c")}, []verdict.Taint{a, b, c}, "a", false, 0},
		{"each taint has its own first toleration", []corev1.Toleration{forSeconds("c", 1), forSeconds("", 60)}, []verdict.Taint{a, b, c}, "c", true, 21 * time.Second},
		{"two due at once are named by key", []corev1.Toleration{forSeconds("a", 10)}, []verdict.Taint{a, b}, "a", true, 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := verdict.Rule{}.Decide(boundLongAgo(test.tolerations...), test.taints)
			if got.Taint.Key != test.wantKey {
				t.Errorf("decided by %q, want %q", got.Taint.Key, test.wantKey)
			}
			if !test.wantLeaves {
				checkStays(t, got)
				return
			}
			checkDue(t, got, noon.Add(test.wantAfter))
		})
	}
}

func TestTaintsDueAtOnceAreNamedByKeyAndThenValueWhateverTheirOrder(t *testing.T) {
	tests := []struct {
		name   string
		taints [2]corev1.Taint
	}{
		{"another key", [2]corev1.Taint{noExecute("a", "2"), noExecute("b", "1")}},
		{"the same key with another value, which validation refuses", [2]corev1.Taint{noExecute("a", "1"), noExecute("a", "2")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			first, second := since(test.taints[0], noon), since(test.taints[1], noon)
			for _, order := range [][]verdict.Taint{{first, second}, {second, first}} {
				for _, pod := range []verdict.Pod{boundLongAgo(), boundLongAgo(forSeconds("", 5)), boundLongAgo(forever(""))} {
					got := verdict.Rule{}.Decide(pod, order)
					if diff := cmp.Diff(first, got.Taint); diff != "" {
						t.Errorf("named another taint (-want +got):\n%s", diff)
					}
				}
			}
		})
	}
}

func TestChangedTolerationSecondsTakeEffect(t *testing.T) {
	tainted := []verdict.Taint{since(noExecute("disk", ""), noon)}
	for _, seconds := range []int64{60, 30, 90} {
		got := verdict.Rule{}.Decide(boundLongAgo(forSeconds("disk", seconds)), tainted)
		checkDue(t, got, noon.Add(time.Duration(seconds)*time.Second))
	}
	checkStays(t, verdict.Rule{}.Decide(boundLongAgo(forever("disk")), tainted))
}

func TestOnlyNoExecuteTaintsMakeAPodLeave(t *testing.T) {
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, "", "NoAdmit"} {
		t.Run("effect "+string(effect), func(t *testing.T) {
			ignored := since(corev1.Taint{Key: "a", Effect: effect}, noon.Add(-time.Minute))
			got := verdict.Rule{}.Decide(boundLongAgo(), []verdict.Taint{ignored})
			if diff := cmp.Diff(verdict.Verdict{}, got); diff != "" {
				t.Errorf("it is not ignored alone (-want +got):\n%s", diff)
			}
			decides := since(noExecute("b", ""), noon)
			got = verdict.Rule{}.Decide(boundLongAgo(), []verdict.Taint{ignored, decides, ignored})
			if got.Taint.Key != "b" {
				t.Errorf("decided by %q, want the NoExecute taint", got.Taint.Key)
			}
			checkDue(t, got, noon)
		})
	}
}

func TestAPodOnAnUntaintedNodeStaysWithoutAReason(t *testing.T) {
	for _, none := range [][]verdict.Taint{nil, {}} {
		got := verdict.Rule{}.Decide(boundLongAgo(forSeconds("disk", 0)), none)
		checkStays(t, got)
		if diff := cmp.Diff(verdict.Verdict{}, got); diff != "" {
			t.Errorf("want the zero verdict (-want +got):\n%s", diff)
		}
	}
}

func TestComparisonOperatorsMatchOnlyWhenTheMatcherHasThem(t *testing.T) {
	seconds := int64(60)
	toleration := func(operator corev1.TolerationOperator, value string) corev1.Toleration {
		return corev1.Toleration{Key: "sla", Operator: operator, Value: value, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	tests := []struct {
		name       string
		toleration corev1.Toleration
		taintValue string
		tolerated  bool
	}{
		{"Gt with a taint of a greater value", toleration(corev1.TolerationOpGt, "950"), "990", true},
		{"Gt with a taint of the same value", toleration(corev1.TolerationOpGt, "950"), "950", false},
		{"Gt with a taint of a lesser value", toleration(corev1.TolerationOpGt, "950"), "900", false},
		{"Lt with a taint of a lesser value", toleration(corev1.TolerationOpLt, "950"), "900", true},
		{"Lt with a taint of the same value", toleration(corev1.TolerationOpLt, "950"), "950", false},
		{"Lt with a taint of a greater value", toleration(corev1.TolerationOpLt, "950"), "990", false},
		{"Gt with a taint whose value is not a number", toleration(corev1.TolerationOpGt, "950"), "high", false},
		{"Lt with a value that is not a number", toleration(corev1.TolerationOpLt, "high"), "900", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := boundLongAgo(test.toleration)
			tainted := []verdict.Taint{since(noExecute("sla", test.taintValue), noon)}
			checkDue(t, verdict.Rule{}.Decide(pod, tainted), noon)

			want := noon
			if test.tolerated {
				want = noon.Add(time.Minute)
			}
			comparing := verdict.Rule{Matcher: taints.Matcher{ComparisonOperators: true}}
			checkDue(t, comparing.Decide(pod, tainted), want)
		})
	}
}

func TestAShadowedTolerationIsFoundWithTheSameMatcher(t *testing.T) {
	pod := boundLongAgo(
		forSeconds("sla", 60),
		corev1.Toleration{Key: "sla", Operator: corev1.TolerationOpGt, Value: "950"},
	)
	taint := since(noExecute("sla", "990"), noon)
	if got := (verdict.Rule{}).Judge(pod, taint).Shadowed; got != nil {
		t.Errorf("without comparison operators %v is shadowed, want none", got)
	}
	comparing := verdict.Rule{Matcher: taints.Matcher{ComparisonOperators: true}}
	if diff := cmp.Diff([]int{1}, comparing.Judge(pod, taint).Shadowed); diff != "" {
		t.Errorf("with comparison operators (-want +got):\n%s", diff)
	}
}

func TestAVerdictIsDueFromItsInstantOnAndPendingBefore(t *testing.T) {
	leaves := verdict.Verdict{Reason: verdict.Reason{Leaves: true, Due: noon}}
	stays := verdict.Verdict{}
	tests := []struct {
		name         string
		verdict      verdict.Verdict
		now          time.Time
		due, pending bool
	}{
		{"a nanosecond before", leaves, noon.Add(-1), false, true},
		{"at the instant", leaves, noon, true, false},
		{"after it", leaves, noon.Add(time.Hour), true, false},
		{"a pod that stays, at the beginning of time", stays, time.Time{}, false, false},
		{"a pod that stays, now", stays, noon, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.verdict.DueAt(test.now); got != test.due {
				t.Errorf("due %t, want %t", got, test.due)
			}
			if got := test.verdict.PendingAt(test.now); got != test.pending {
				t.Errorf("pending %t, want %t", got, test.pending)
			}
		})
	}
}

// instants are recorded to the second at best; what is asked for is never too early.
var instants = []struct {
	name                string
	recorded, firstSeen time.Time
	want                time.Time
}{
	{"seen at the recorded instant", noon, noon, noon},
	{"seen within the recorded second", noon, noon.Add(400 * time.Millisecond), noon.Add(400 * time.Millisecond)},
	{"seen in its last nanosecond", noon, noon.Add(time.Second - 1), noon.Add(time.Second - 1)},
	{"seen when it ended", noon, noon.Add(time.Second), noon.Add(time.Second)},
	{"seen a nanosecond after it ended", noon, noon.Add(time.Second + 1), noon.Add(time.Second)},
	{"seen a day after, by a restarted process", noon, noon.AddDate(0, 0, 1), noon.Add(time.Second)},
	{"recorded in the future", noon.Add(time.Hour), noon, noon},
	{"recorded in the next second", noon, noon.Add(-100 * time.Millisecond), noon.Add(-100 * time.Millisecond)},
	{"recorded with a fraction, seen earlier in the second", noon.Add(700 * time.Millisecond), noon.Add(200 * time.Millisecond), noon.Add(200 * time.Millisecond)},
	{"recorded with a fraction, seen later", noon.Add(700 * time.Millisecond), noon.Add(time.Minute), noon.Add(time.Second)},
	{"recorded in another time zone", noon.In(time.FixedZone("", 19800)), noon.Add(time.Minute), noon.Add(time.Second)},
	{"never recorded", time.Time{}, noon.Add(400 * time.Millisecond), noon.Add(400 * time.Millisecond)},
}

func TestWhatWasRecordedIsNeverDatedTooEarly(t *testing.T) {
	for _, test := range instants {
		t.Run(test.name, func(t *testing.T) {
			if got := verdict.SeenAt(test.firstSeen).Start(test.recorded); !got.Equal(test.want) {
				t.Errorf("recorded %s, seen %s: %s, want %s", test.recorded, test.firstSeen, got, test.want)
			}
		})
	}
}

func TestATaintCountsFromItsTimeAdded(t *testing.T) {
	for _, test := range instants {
		t.Run(test.name, func(t *testing.T) {
			timeAdded := metav1.NewTime(test.recorded)
			if got := verdict.SeenAt(test.firstSeen).Since(&timeAdded); !got.Equal(test.want) {
				t.Errorf("added %s, seen %s: %s, want %s", timeAdded, test.firstSeen, got, test.want)
			}
		})
	}
	t.Run("without a timeAdded from its first sight", func(t *testing.T) {
		firstSeen := noon.Add(400 * time.Millisecond)
		if got := verdict.SeenAt(firstSeen).Since(nil); !got.Equal(firstSeen) {
			t.Errorf("%s, want %s", got, firstSeen)
		}
	})
}

func TestAPodIsBoundWhenItWasScheduledElseWhenItWasCreated(t *testing.T) {
	created, scheduled := noon, noon.Add(7*time.Second)
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(scheduled)}
	}
	tests := []struct {
		name       string
		created    time.Time
		conditions []corev1.PodCondition
		want       time.Time
	}{
		{"scheduled", created, []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionTrue)}, scheduled},
		{"scheduled, among other conditions", created, []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(time.Hour))},
			condition(corev1.PodScheduled, corev1.ConditionTrue),
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(time.Minute))},
		}, scheduled},
		{"no condition", created, nil, created},
		{"only other conditions", created, []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionTrue)}, created},
		{"the condition is False", created, []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionFalse)}, created},
		{"the condition is Unknown", created, []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionUnknown)}, created},
		{"nothing is recorded", time.Time{}, nil, time.Time{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.CreationTimestamp = metav1.NewTime(test.created)
			pod.Status.Conditions = test.conditions
			if got := verdict.Bound(pod); !got.Equal(test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestAValueThatWasGoneBeforeThePodCameSetsItNoDeadline(t *testing.T) {
	tolerating := func(value string, seconds int64) corev1.Toleration {
		return corev1.Toleration{Key: "k", Value: value, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	taint := since(noExecute("k", "z"), noon.Add(200*time.Second))
	taint.Before = []verdict.Past{{Value: "y", Since: noon.Add(100 * time.Second)}, {Value: "x", Since: noon}}
	for name, c := range map[string]struct{ bound, want time.Duration }{
		"it came before all":                 {0, 10 * time.Second},
		"it came while the second was there": {150 * time.Second, 170 * time.Second},
		"it came with the third":             {200 * time.Second, 1200 * time.Second},
		"it came when the third was there":   {300 * time.Second, 1300 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			pod := verdict.Pod{Bound: noon.Add(c.bound), Tolerations: []corev1.Toleration{tolerating("x", 10), tolerating("y", 20), tolerating("z", 1000)}}
			checkDue(t, verdict.Rule{}.Decide(pod, []verdict.Taint{taint}), noon.Add(c.want))
		})
	}
}
