// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"slices"
	"testing"
)

func countSpecs(holds func(spec) bool) int {
	n := 0
	for _, s := range specs {
		if holds(s) {
			n++
		}
	}
	return n
}

func runNamed(t *testing.T, name string) run {
	t.Helper()
	chosen, err := chooseRuns(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0]
}

func TestThereAreSevenSpecsOfEvictionAndSixOthers(t *testing.T) {
	if got := countSpecs(spec.aboutEviction); got != 7 || len(specs) != 13 {
		t.Errorf("got %d specs of eviction among %d, want 7 among 13", got, len(specs))
	}
}

func TestFiveSpecsMustFailIfNothingEvictsAndNoneOtherwise(t *testing.T) {
	for name, want := range map[string]int{"built-in": 0, "nobody": 5, "taintkeeper": 0, "taintkeeper-coexist": 0, "taintkeeper-all": 0} {
		r := runNamed(t, name)
		if got := countSpecs(func(s spec) bool { return !s.passesIn(r) }); got != want {
			t.Errorf("%s: %d specs must fail, want %d", name, got, want)
		}
	}
}

// selected applies the focus as ginkgo does: any of the expressions is enough, anywhere in the name.
func selected(name string) bool {
	return slices.ContainsFunc(focus(), func(expression string) bool {
		return regexp.MustCompile(expression).MatchString("Kubernetes e2e suite " + name)
	})
}

func TestTheFocusSelectsEverySpec(t *testing.T) {
	for _, s := range specs {
		if !selected(s.name()) {
			t.Errorf("%s is not selected", s.name())
		}
	}
}

func TestTheFocusSelectsNoNeighborOfASpec(t *testing.T) {
	for _, name := range []string{
		"[sig-node] RuntimeClass should run a Pod requesting a RuntimeClass with scheduling without taints",
		"[sig-scheduling] SchedulerPredicates validates that NodeSelector is respected if matching [Conformance] [Serial]",
		"[sig-cli] Kubectl client Kubectl taint should update the taint on a node twice [Serial]",
	} {
		if selected(name) {
			t.Errorf("%s is selected", name)
		}
	}
}

func TestTheFocusSelectsASpecOfEvictionThatIsNotListedYet(t *testing.T) {
	if !selected("[sig-node] NoExecuteTaintManager Single Pod evicts something new [Serial]") {
		t.Error("a new spec of the subject is not selected, so nobody would notice it")
	}
}

func TestNamesAreShownWithoutTagsButForConformance(t *testing.T) {
	const name = "[sig-cloud-provider] A B [Serial] does c [Disruptive] [Conformance]"
	if got, want := untagged(name), "A B does c [Conformance]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
