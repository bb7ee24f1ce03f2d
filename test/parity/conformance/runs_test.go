// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

func namesOf(runs []run) []string {
	var names []string
	for _, r := range runs {
		names = append(names, r.name)
	}
	return names
}

func TestRunsAreChosenByNameAndPlayedInTheirOwnOrder(t *testing.T) {
	for flag, want := range map[string][]string{
		"":                     {"built-in", "nobody", "taintkeeper", "taintkeeper-coexist", "taintkeeper-all"},
		"taintkeeper":          {"taintkeeper"},
		"taintkeeper,built-in": {"built-in", "taintkeeper"},
		"nobody,nobody":        {"nobody"},
	} {
		chosen, err := chooseRuns(flag, nil)
		if got := namesOf(chosen); err != nil || !slices.Equal(got, want) {
			t.Errorf("-runs=%s: got %v and error %v, want %v", flag, got, err, want)
		}
	}
}

func TestAnUnknownRunIsRefusedWithTheExistingNames(t *testing.T) {
	for _, flag := range []string{"ours", "built-in,", "built-in, nobody"} {
		_, err := chooseRuns(flag, nil)
		if err == nil || !strings.Contains(err.Error(), "choose from built-in, nobody, taintkeeper, taintkeeper-coexist, taintkeeper-all") {
			t.Errorf("-runs=%s: got error %v, want one that names the runs", flag, err)
		}
	}
}

func TestArgumentsOtherThanFlagsAreRefused(t *testing.T) {
	if _, err := chooseRuns("", []string{"taintkeeper"}); err == nil {
		t.Error("got no error for an argument, which would otherwise be ignored")
	}
}

func TestEveryRunButNobodyEvicts(t *testing.T) {
	for _, r := range runs {
		if got, want := r.evicts(), r.name != "nobody"; got != want {
			t.Errorf("%s: evicts is %t, want %t", r.name, got, want)
		}
	}
}
