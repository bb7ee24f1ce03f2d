// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/verdict"
)

func TestADeadlineStaysWhenTheValueOfItsTaintChanges(t *testing.T) {
	epoch := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }
	was := func(value string, since int) verdict.Past { return verdict.Past{Value: value, Since: at(since)} }
	with := func(value string, since int, before ...verdict.Past) verdict.Taint {
		return verdict.Taint{Taint: corev1.Taint{Key: "k", Value: value, Effect: corev1.TaintEffectNoExecute}, Since: at(since), Before: before}
	}
	tolerations := []corev1.Toleration{
		{Key: "k", Value: "short", TolerationSeconds: new(int64(60))},
		{Key: "k", Value: "long", TolerationSeconds: new(int64(600))},
		{Key: "k", Value: "ever"},
	}
	for name, test := range map[string]struct {
		bound int
		taint verdict.Taint
		due   int // -1: never
	}{
		"the earlier value's is the earlier":                {0, with("long", 40, was("short", 10)), 70},
		"the present value's is the earlier":                {0, with("short", 40, was("long", 10)), 100},
		"the first of three values has the earliest":        {0, with("long", 50, was("long", 40), was("short", 10)), 70},
		"a value that is not tolerated makes the pod leave": {0, with("none", 40, was("short", 10)), 40},
		"a value that is tolerated forever ends it":         {0, with("ever", 40, was("short", 10)), -1},
		"what came before such a value stays ended":         {0, with("long", 50, was("ever", 40), was("short", 10)), 650},
		"a pod that was bound while the value was there":    {20, with("long", 40, was("short", 10)), 80},
		"a pod that was bound after the value had gone":     {45, with("long", 40, was("short", 10)), 645},
		"a pod that was bound in the second of three":       {45, with("long", 50, was("long", 40), was("short", 10)), 645},
	} {
		t.Run(name, func(t *testing.T) {
			got := verdict.Rule{}.Decide(verdict.Pod{Tolerations: tolerations, Bound: at(test.bound)}, []verdict.Taint{test.taint})
			switch {
			case test.due < 0 && got.Leaves:
				t.Errorf("due at %s, want never", got.Due.Sub(epoch))
			case test.due >= 0 && (!got.Leaves || !got.Due.Equal(at(test.due))):
				t.Errorf("leaves: %t, due at %s, want at %d s", got.Leaves, got.Due.Sub(epoch), test.due)
			case got.Taint.Value != test.taint.Value:
				t.Errorf("the verdict names value %q, want the present one, %q", got.Taint.Value, test.taint.Value)
			}
		})
	}
}

// A value that is tolerated indefinitely ends the countdown of the one before it, however many values follow.
func TestAValueThatWasToleratedIndefinitelyEndsACountdownWhateverFollows(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hour := int64(3600)
	pod := verdict.Pod{Bound: start.Add(-time.Hour), Tolerations: []corev1.Toleration{
		{Key: "k", Operator: corev1.TolerationOpEqual, Value: "planned", Effect: corev1.TaintEffectNoExecute},
		{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &hour},
	}}
	var known []verdict.Taint
	set := func(value string, at time.Duration) {
		known = verdict.Advance(known, []corev1.Taint{{Key: "k", Value: value, Effect: corev1.TaintEffectNoExecute}}, verdict.SeenAt(start.Add(at)))
	}
	set("first", 0)
	set("planned", time.Minute) // tolerated indefinitely: the countdown of "first" is over
	at := 50 * time.Minute
	want := start.Add(at + time.Hour) // the countdown of v0
	for i := range 20 {
		set(fmt.Sprint("v", i), at+time.Duration(i)*time.Second)
		if v := (verdict.Rule{}).Decide(pod, known); !v.Leaves || v.Due.Before(want) {
			t.Fatalf("after %d values: due at %v, want %v", i+1, v.Due, want)
		}
	}
}

func TestAfterForgottenValuesACountdownContinuesOnlyForPodsThatAskForNoValueOfTheKey(t *testing.T) {
	toleration := func(key string, operator corev1.TolerationOperator, value string, seconds int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: operator, Value: value, TolerationSeconds: &seconds}
	}
	const exists, equal = corev1.TolerationOpExists, corev1.TolerationOpEqual
	taint := since(noExecute("k", "now"), noon.Add(time.Minute))
	taint.Before = []verdict.Past{
		{Value: "before", Since: noon.Add(30 * time.Second), Forgotten: true}, {Value: "first", Since: noon},
	}
	const present, first = time.Minute + 100*time.Second, 100 * time.Second
	for name, test := range map[string]struct {
		tolerations []corev1.Toleration
		due         time.Duration
	}{
		"any value of the key":   {[]corev1.Toleration{toleration("k", exists, "", 100)}, first},
		"any value of any key":   {[]corev1.Toleration{toleration("", exists, "", 100)}, first},
		"a value of the key":     {[]corev1.Toleration{toleration("k", equal, "old", 1), toleration("k", exists, "", 100)}, present},
		"a value of any key":     {[]corev1.Toleration{toleration("", equal, "old", 1), toleration("k", exists, "", 100)}, present},
		"a value of another key": {[]corev1.Toleration{toleration("other", equal, "old", 1), toleration("k", exists, "", 100)}, first},
	} {
		t.Run(name, func(t *testing.T) {
			checkDue(t, verdict.Rule{}.Decide(boundLongAgo(test.tolerations...), []verdict.Taint{taint}), noon.Add(test.due))
		})
	}
}
