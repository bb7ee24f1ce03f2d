// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"testing"
)

func TestCalmWeatherLetsEverythingThroughAndAStormDoesEverything(t *testing.T) {
	w := newWeather(rand.New(rand.NewPCG(1, 1)))
	if got := w.planFor(&call{kind: deletePod}); got != (plan{}) {
		t.Errorf("in calm weather %+v happens", got)
	}
	if _, ok := w.next(); ok {
		t.Error("in calm weather watches are disturbed")
	}
	w.set(storm)
	drawn := map[faultKind]int{}
	const draws = 2000
	for range draws {
		drawn[w.planFor(&call{kind: deletePod}).fault]++
	}
	for _, fault := range append(faultsOf(deletePod), "") {
		if drawn[fault] == 0 {
			t.Errorf("%q never happens to %d calls in a storm", fault, draws)
		}
	}
	watches := map[faultKind]bool{}
	for range draws {
		next, _ := w.next()
		watches[next.fault] = true
	}
	for _, fault := range []faultKind{cutWatch, cutAll, stalledWatch, refusedWatch} {
		if !watches[fault] {
			t.Errorf("%q never happens to watches in a storm", fault)
		}
	}
}
