// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/verdict"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// taint returns a NoExecute taint that counts from some seconds after noon.
func taint(key string, since float64) verdict.Taint {
	return verdict.Taint{Taint: corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}, Since: at(since)}
}

// tolerates tolerates a taint for some seconds, or indefinitely if they are negative.
func tolerates(key string, seconds int64) corev1.Toleration {
	toleration := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	if seconds >= 0 {
		toleration.TolerationSeconds = &seconds
	}
	return toleration
}

func TestATimerIsKeptUntilThePodStaysOrMustLeaveNow(t *testing.T) {
	one, two, forever, lessThanNoTime := tolerates("one", 120), tolerates("two", 4), tolerates("two", -1), tolerates("one", 0)
	lessThanNoTime.TolerationSeconds = new(int64(-5))
	for name, test := range map[string]struct {
		tolerations   []corev1.Toleration
		taints        []verdict.Taint
		bound, starts float64
		then          []verdict.Taint // at 60 s, if it is not nil
		due           float64         // -1: never
	}{
		"no toleration":                              {nil, []verdict.Taint{taint("one", 10)}, 0, 0, nil, 10},
		"tolerated for a while":                      {[]corev1.Toleration{one}, []verdict.Taint{taint("one", 10)}, 0, 0, nil, 130},
		"tolerated for less than no time":            {[]corev1.Toleration{lessThanNoTime}, []verdict.Taint{taint("one", 10)}, 0, 0, nil, 10},
		"tolerated indefinitely":                     {[]corev1.Toleration{forever}, []verdict.Taint{taint("two", 10)}, 0, 0, nil, -1},
		"the pod comes later":                        {[]corev1.Toleration{one}, []verdict.Taint{taint("one", 10)}, 20, 0, nil, 140},
		"the process starts in the countdown":        {[]corev1.Toleration{one}, []verdict.Taint{taint("one", 10)}, 0, 50, nil, 170},
		"the process starts later":                   {nil, []verdict.Taint{taint("one", 10)}, 0, 50, nil, 50},
		"two together":                               {[]corev1.Toleration{one, two}, []verdict.Taint{taint("one", 10), taint("two", 10)}, 0, 0, nil, 14},
		"a second one, tolerated for less":           {[]corev1.Toleration{one, two}, []verdict.Taint{taint("one", 10), taint("two", 20)}, 0, 0, nil, 130},
		"a second one, tolerated for no time":        {[]corev1.Toleration{one, tolerates("two", 0)}, []verdict.Taint{taint("one", 10), taint("two", 20)}, 0, 0, nil, 130},
		"both are there when the process starts":     {[]corev1.Toleration{one, two}, []verdict.Taint{taint("one", 10), taint("two", 20)}, 0, 50, nil, 54},
		"a second one, not tolerated":                {[]corev1.Toleration{one}, []verdict.Taint{taint("one", 10), taint("two", 20)}, 0, 0, nil, 20},
		"a second one, tolerated indefinitely":       {[]corev1.Toleration{one, forever}, []verdict.Taint{taint("one", 10), taint("two", 20)}, 0, 0, nil, 130},
		"the shorter one is removed":                 {[]corev1.Toleration{tolerates("one", 300), tolerates("two", 100)}, []verdict.Taint{taint("two", 10), taint("one", 10)}, 0, 0, []verdict.Taint{taint("one", 10)}, 110},
		"the node is untainted in the countdown":     {[]corev1.Toleration{one}, []verdict.Taint{taint("one", 10)}, 0, 0, []verdict.Taint{}, -1},
		"the node is untainted after it":             {nil, []verdict.Taint{taint("one", 10)}, 0, 0, []verdict.Taint{}, 10},
		"only one that is tolerated indefinitely":    {[]corev1.Toleration{one, forever}, []verdict.Taint{taint("one", 10), taint("two", 10)}, 0, 0, []verdict.Taint{taint("two", 10)}, -1},
		"585 years, which overflow":                  {[]corev1.Toleration{tolerates("one", 18446744074)}, []verdict.Taint{taint("one", 10)}, 0, 0, nil, 10.290448384},
		"292 years and more, which become negative":  {[]corev1.Toleration{tolerates("one", 9223372037)}, []verdict.Taint{taint("one", 10)}, 0, 0, nil, -1},
		"the largest number of seconds":              {[]corev1.Toleration{tolerates("one", math.MaxInt64)}, []verdict.Taint{taint("one", 10)}, 0, 0, nil, -1},
		"no taint":                                   {nil, nil, 0, 0, nil, -1},
		"a value that it had before does not matter": {[]corev1.Toleration{one}, []verdict.Taint{{Taint: taint("one", 0).Taint, Since: at(10), Before: []verdict.Past{{Value: "v", Since: at(5)}}}}, 0, 0, nil, 130},
	} {
		t.Run(name, func(t *testing.T) {
			timers := builtin.Timers{}
			pod := verdict.Pod{Tolerations: test.tolerations, Bound: at(test.bound)}
			timer := timers.Replay(pod, test.taints, at(test.starts))
			if test.then != nil {
				timer = timers.Look(timer, pod, test.then, at(60))
			}
			if timer.Leaves != (test.due >= 0) || timer.Leaves && !timer.Due.Equal(at(test.due)) {
				t.Errorf("it leaves: %t, at %v, want %v s", timer.Leaves, timer.Due.Sub(noon), test.due)
			}
		})
	}
}

func TestAPodIsSparedSinceItStaysAfterATryAndUntilItIsDueAgain(t *testing.T) {
	var tries builtin.Tries
	for _, step := range []struct {
		at, due float64 // -1: the pod may stay
		looks   bool
		began   float64 // since when it is being tried, if that is new; -1: it is not
		spared  float64 // since when; -1: it is not
	}{
		{0, 10, true, -1, -1},
		{5, -1, true, -1, -1}, // the timer is cancelled
		{6, 30, true, -1, -1},
		{12, 30, false, -1, -1},
		{31, 30, false, 30, -1},
		{33, 30, false, -1, -1}, // it is not tried twice without a look
		{40, -1, true, -1, 40},
		{45, -1, false, -1, 40},
		{50, 50, true, 50, -1},
		{60, -1, true, -1, 60},
	} {
		v := verdict.Verdict{}
		if step.due >= 0 {
			v.Leaves, v.Due = true, at(step.due)
		}
		instantOf := func(seconds float64) time.Time {
			if seconds < 0 {
				return time.Time{}
			}
			return at(seconds)
		}
		if began := tries.See(v, step.looks, false, at(step.at)); !began.Equal(instantOf(step.began)) || !tries.Spared.Equal(instantOf(step.spared)) {
			t.Errorf("after %v s: tried since %v, spared since %v; want %+v", step.at, began.Sub(noon), tries.Spared.Sub(noon), step)
		}
	}
}

// What coexistence records begins no later than what it stands for.
func TestTriesBeginNoLaterThanTheControllersTimersFire(t *testing.T) {
	const histories, length = 2000, 60
	random := rand.New(rand.NewPCG(45, 1))
	keys := []string{"one", "two", "three"}
	fired := 0
	for range histories {
		var tries builtin.Tries
		var timer verdict.Verdict
		var taints []verdict.Taint
		pod := verdict.Pod{Bound: noon}
		for second := range length {
			now := at(float64(second))
			looks := second == 0
			if random.IntN(8) == 0 {
				key := keys[random.IntN(len(keys))]
				before := len(taints)
				taints = slices.DeleteFunc(taints, func(is verdict.Taint) bool { return is.Key == key })
				if len(taints) == before {
					taints = append(taints, taint(key, float64(second)))
				}
				looks = true
			}
			if random.IntN(16) == 0 {
				pod.Tolerations = nil
				for _, key := range keys {
					pod.Tolerations = append(pod.Tolerations, tolerates(key, random.Int64N(30)-1))
				}
				looks = true
			}
			if looks {
				timer = builtin.Timers{}.Look(timer, pod, taints, now)
			}
			tries.See(verdict.Rule{}.Decide(pod, taints), looks, false, now)
			if timer.DueAt(now) {
				fired++
				if !tries.Tried {
					t.Fatalf("the timer fired after %d s, and no try has begun: %v, %v", second, pod.Tolerations, taints)
				}
				tries, timer, taints = builtin.Tries{}, verdict.Verdict{}, nil // another pod
			}
		}
	}
	if fired < histories {
		t.Errorf("only %d timers fired", fired)
	}
}

// README's first row: on a real API server, the first of 1,000 pods was deleted after 51 to 59 s, and the last after
// 149 s.
func TestAThousandPodsAreDeletedAsLateAsWasMeasured(t *testing.T) {
	const measuredFirst, measuredLast = 59 * time.Second, 149 * time.Second
	deletes := builtin.Deletes(repeated(noon, 1000))
	within := func(what string, got, want time.Duration) {
		t.Helper()
		if (got - want).Abs() > want/10 {
			t.Errorf("the %s pod is deleted after %v, measured were %v", what, got, want)
		}
	}
	within("first", deletes[0].Sub(noon), measuredFirst)
	within("last", deletes[999].Sub(noon), measuredLast)
}

func TestEvictionsWaitForEachOthersCalls(t *testing.T) {
	const few = 30 / 3 // the burst, and the calls of an eviction
	for name, test := range map[string]struct {
		begin []time.Time
		want  []float64
	}{
		"the burst is enough for ten pods":         {repeated(noon, few), make([]float64, few)},
		"the eleventh makes all wait":              {repeated(noon, few+1), []float64{0, 0, 0, 0, 0, 0, 0, 0, 0.05, 0.1, 0.15}},
		"the burst fills again":                    {append(repeated(noon, few), at(2)), append(make([]float64, few), 2)},
		"and is empty before":                      {append(repeated(noon, few), at(1), at(1), at(1), at(1), at(1), at(1), at(1)), append(make([]float64, few), 1, 1, 1, 1, 1, 1, 1.05)},
		"a pod whose timer fires later waits, too": {append(repeated(noon, 200), at(2)), nil},
	} {
		deletes := builtin.Deletes(test.begin)
		for i, want := range test.want {
			if got := deletes[i].Sub(noon).Seconds(); got != want {
				t.Errorf("%s: pod %d is deleted after %v s, want %v s", name, i, got, want)
			}
		}
		if last := deletes[len(deletes)-1].Sub(noon); test.want == nil && last < 28*time.Second {
			t.Errorf("%s: the last is deleted after %v", name, last)
		}
	}
}

func repeated(at time.Time, times int) []time.Time {
	all := make([]time.Time, times)
	for i := range all {
		all[i] = at
	}
	return all
}
