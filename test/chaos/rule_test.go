// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestFromWhenATaintCounts(t *testing.T) {
	off := noExecute("off")
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
		"whose timeAdded is moved past its first sight anew":           {[]written{{at: 10.3, taint: added(off, 4)}, {at: 20.5, taint: added(off, 15)}}, 16},
		"whose timeAdded is moved into the future from the new sight":  {[]written{{at: 10.3, taint: added(off, 4)}, {at: 20.5, taint: added(off, 70)}}, 20.5},
		"whose timeAdded is moved back from there":                     {[]written{{at: 10.3, taint: added(off, 10)}, {at: 20.5, taint: added(off, 2)}}, 3},
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
