// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestFromWhenATaintCounts(t *testing.T) {
	off, sick, silent := noExecute("off"), noExecute(corev1.TaintNodeNotReady), noExecute(corev1.TaintNodeUnreachable)
	valued := corev1.Taint{Key: "off", Value: "now", Effect: corev1.TaintEffectNoExecute}
	type written struct {
		at     float64
		taint  corev1.Taint
		keeper bool
	}
	tests := map[string]struct {
		versions []written
		want     float64
	}{
		"without timeAdded from its first sight":                       {[]written{{at: 10.3, taint: off}}, 10.3},
		"with one from the end of that second":                         {[]written{{at: 10.3, taint: added(off, 4)}}, 5},
		"or from the first sight within the second":                    {[]written{{at: 10.3, taint: added(off, 10)}}, 10.3},
		"with one in the future from its first sight":                  {[]written{{at: 10.3, taint: added(off, 60)}}, 10.3},
		"that stays, with one in the future, from its first sight":     {[]written{{at: 10.3, taint: added(off, 60)}, {at: 20, taint: added(off, 60)}}, 10.3},
		"that was given one by a replica as before":                    {[]written{{at: 10.9, taint: off}, {at: 11.2, taint: added(off, 10), keeper: true}}, 10.9},
		"that was given a wrong one by a replica as before":            {[]written{{at: 10.9, taint: off}, {at: 11.2, taint: added(off, 3), keeper: true}}, 10.9},
		"that was given one by a replica that saw it late as before":   {[]written{{at: 10.9, taint: off}, {at: 13.2, taint: added(off, 12), keeper: true}}, 10.9},
		"that was given one by such a replica as before, also later":   {[]written{{at: 10.9, taint: off}, {at: 13.2, taint: added(off, 12), keeper: true}, {at: 14, taint: added(off, 12)}}, 10.9},
		"that was given one by others from then":                       {[]written{{at: 10.9, taint: off}, {at: 11.2, taint: added(off, 3)}}, 4},
		"that loses its timeAdded as before":                           {[]written{{at: 10.3, taint: added(off, 4)}, {at: 20, taint: off}}, 5},
		"that gets another value anew":                                 {[]written{{at: 10.3, taint: off}, {at: 20, taint: valued}}, 20},
		"whose timeAdded is moved past its first sight as before":      {[]written{{at: 10.3, taint: added(off, 4)}, {at: 20.5, taint: added(off, 15)}}, 5},
		"whose timeAdded is moved into the future as before":           {[]written{{at: 10.3, taint: added(off, 4)}, {at: 20.5, taint: added(off, 70)}}, 5},
		"whose timeAdded is moved back from there":                     {[]written{{at: 10.3, taint: added(off, 10)}, {at: 20.5, taint: added(off, 2)}}, 3},
		"whose timeAdded is written again and again as before":         {[]written{{at: 10.3, taint: added(off, 10)}, {at: 12, taint: added(off, 12)}, {at: 14, taint: added(off, 14)}}, 10.3},
		"whose timeAdded a replica writes back as before":              {[]written{{at: 10.3, taint: added(off, 4)}, {at: 20.5, taint: added(off, 15)}, {at: 21, taint: added(off, 4), keeper: true}}, 5},
		"that was not-ready and is unreachable as before":              {[]written{{at: 10.3, taint: added(sick, 10)}, {at: 30, taint: added(silent, 30)}}, 10.3},
		"that was unreachable and is not-ready as before":              {[]written{{at: 10.3, taint: added(silent, 10)}, {at: 30, taint: added(sick, 30)}}, 10.3},
		"that was not-ready and is another one anew":                   {[]written{{at: 10.3, taint: added(sick, 10)}, {at: 30.5, taint: added(off, 30)}}, 30.5},
		"that is not-ready again after a time without anew":            {[]written{{at: 10.3, taint: added(sick, 10)}, {at: 20, taint: off}, {at: 30.5, taint: added(silent, 30)}}, 30.5},
		"that was taken off and set again without timeAdded from then": {[]written{{at: 10.3, taint: off}, {at: 11, taint: noExecute("else")}, {at: 12.4, taint: off}}, 12.4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var taints []counting
			for _, v := range test.versions {
				taints = advance(taints, []corev1.Taint{v.taint}, at(sec(v.at)), v.keeper)
			}
			if got := taints[0].since; got != at(sec(test.want)) {
				t.Errorf("it counts from %s, want %s", clock(got), clock(at(sec(test.want))))
			}
		})
	}
}

func TestASwapOfNotReadyAndUnreachableIsOneCountdown(t *testing.T) {
	sick, silent := noExecute(corev1.TaintNodeNotReady), noExecute(corev1.TaintNodeUnreachable)
	taints := advance(nil, []corev1.Taint{added(sick, 10)}, at(sec(10.3)), false)
	for _, swapped := range []float64{14, 18, 22} { // as node-lifecycle does: first the one comes, then the other goes
		taints = advance(taints, []corev1.Taint{sick, added(silent, swapped)}, at(sec(swapped)), false)
		if len(taints) != 2 || taints[0].since != at(sec(10.3)) || taints[1].since != at(sec(10.3)) {
			t.Fatalf("with both at %v they are %s", swapped, taintsText(taints))
		}
		taints = advance(taints, []corev1.Taint{added(silent, swapped)}, at(sec(swapped+0.01)), false)
		sick, silent = silent, sick
	}
	if taints[0].since != at(sec(10.3)) {
		t.Errorf("after the swaps it is %s", taintsText(taints))
	}
	if again := anew(taints, sec(30), 0); again[0].since != (span{sec(23), sec(24)}) {
		t.Errorf("to who sees it first at 30 s it is %s", taintsText(again))
	}
}

func TestWhatIsSeenLateIsDatedByAClockThatIsBehindUpToTheSight(t *testing.T) {
	taints := advance(nil, []corev1.Taint{added(noExecute("off"), 10)}, at(sec(10.3)), false)
	for behind, want := range map[time.Duration]span{
		0:               {sec(11), sec(12)},
		5 * time.Second: {sec(11), sec(17)},
		time.Hour:       {sec(11), sec(30)},
	} {
		if again := anew(taints, sec(30), behind); again[0].since != want {
			t.Errorf("seen at 30 s with a clock %v behind it is %s", behind, taintsText(again))
		}
	}
}

func TestADeadlineOfAnEarlierValueStaysWhileTheNextIsToleratedForAWhile(t *testing.T) {
	const never = -1
	valued := func(value string) corev1.Taint {
		return corev1.Taint{Key: "off", Value: value, Effect: corev1.TaintEffectNoExecute}
	}
	tolerates := func(value string, seconds int64) corev1.Toleration {
		return corev1.Toleration{Key: "off", Value: value, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	lasting := tolerates("b", math.MaxInt64)
	always := tolerates("b", 0)
	always.TolerationSeconds = nil
	tests := map[string]struct {
		tolerations []corev1.Toleration
		values      []string
		want        float64
	}{
		"by any value the same": {tolerations: []corev1.Toleration{tolerating("off", 5)}, values: []string{"a", "b", "a"}, want: 15},
		"by the shorter one":    {tolerations: []corev1.Toleration{tolerates("a", 9), tolerates("b", 1)}, values: []string{"a", "b"}, want: 13},
		"not past one that is tolerated for ever": {
			tolerations: []corev1.Toleration{tolerates("a", 5), always}, values: []string{"a", "b", "a"}, want: 19,
		},
		"not into one that is tolerated for ever":   {tolerations: []corev1.Toleration{tolerates("a", 5), always}, values: []string{"a", "b"}, want: never},
		"into one that is tolerated for a lifetime": {tolerations: []corev1.Toleration{tolerates("a", 5), lasting}, values: []string{"a", "b"}, want: 15},
		"not past one that is not tolerated":        {tolerations: []corev1.Toleration{tolerates("a", 1)}, values: []string{"a", "b"}, want: 12},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var taints []counting
			for i, value := range test.values {
				taints = advance(taints, []corev1.Taint{valued(value)}, at(sec(float64(10+2*i))), false)
			}
			due, leaves := dueOf(test.tolerations, at(sec(0)), taints)
			if leaves != (test.want != never) || leaves && due != at(sec(test.want)) {
				t.Errorf("leaves %t, due %s, want %v", leaves, clock(due), test.want)
			}
		})
	}
}

func TestWhenAPodIsDue(t *testing.T) {
	const never = -1
	both := []corev1.Taint{noExecute("off"), noExecute("soon")}
	tests := map[string]struct {
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		bound       float64
		want        float64
	}{
		"no taint":                        {want: never},
		"a taint of another effect":       {taints: []corev1.Taint{{Key: "off", Effect: corev1.TaintEffectNoSchedule}}, want: never},
		"no toleration":                   {taints: both, want: 10},
		"no toleration, bound later":      {taints: both, bound: 12, want: 12},
		"seconds count from the binding":  {taints: both[:1], bound: 12, tolerations: []corev1.Toleration{tolerating("off", 5)}, want: 17},
		"seconds count from the taint":    {taints: both[:1], bound: 2, tolerations: []corev1.Toleration{tolerating("off", 5)}, want: 15},
		"the earliest counts":             {taints: both, tolerations: []corev1.Toleration{tolerating("off", 5), tolerating("soon", 2)}, want: 12},
		"the first that matches counts":   {taints: both[:1], tolerations: []corev1.Toleration{tolerating("off", 5), tolerating("off", 1), forEver("off")}, want: 15},
		"for ever":                        {taints: both[:1], tolerations: []corev1.Toleration{forEver("off")}, want: never},
		"for ever of one, not of another": {taints: both, tolerations: []corev1.Toleration{forEver("off"), tolerating("soon", 9)}, want: 19},
		"less than no seconds":            {taints: both[:1], tolerations: []corev1.Toleration{tolerating("off", -5)}, want: 10},
		"seconds that overflow":           {taints: both[:1], tolerations: []corev1.Toleration{tolerating("off", math.MaxInt64)}, want: never},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			due, leaves := dueOf(test.tolerations, at(sec(test.bound)), advance(nil, test.taints, at(sec(10)), false))
			if leaves != (test.want != never) || leaves && due != at(sec(test.want)) {
				t.Errorf("leaves %t, due %s, want %v", leaves, clock(due), test.want)
			}
		})
	}
}
