// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

func TestEveryRowIsPlayedOnceAndSaysWhatItIsAbout(t *testing.T) {
	var played []int
	for _, a := range program() {
		played = append(played, a.rows...)
	}
	slices.Sort(played)
	var numbers []int
	for i, r := range rows() {
		numbers = append(numbers, i+1)
		if wanted := []section{fixes, keeps, nodes}[min(i/16, 1)+i/22]; r.section != wanted {
			t.Errorf("row %d is in section %d, want %d", r.number, r.section, wanted)
		}
		if r.number != i+1 || r.scenario == "" || r.should == "" || r.how == "" || len(r.stories) == 0 {
			t.Errorf("row %d lacks something: %+v", i+1, r)
		}
	}
	if !slices.Equal(played, numbers) {
		t.Errorf("the program plays %v of the rows %v", played, numbers)
	}
}

var (
	good   = outcome{Finding: Finding{Seen: "left after 20.0 s", Right: true}}
	bad    = outcome{Finding: Finding{Seen: "still there after 60.0 s"}}
	broken = outcome{err: errors.New("refused")}
	absent = outcome{absent: true}
)

// TestOursDecidesWhetherTheProgramSucceeds and the document is written only if both have played all scenarios.
func TestOursDecidesWhetherTheProgramSucceeds(t *testing.T) {
	for name, test := range map[string]struct {
		upstream, ours outcome
		fails          string
		incomplete     bool
		summary        string
	}{
		"ours is right, upstream wrong": {bad, good, "", false, "upstream passes 0 and Taintkeeper 1."},
		"both are right":                {good, good, "", false, "upstream passes 1 and Taintkeeper 1."},
		"upstream could not be run":     {broken, good, "", true, "upstream passes 0 and Taintkeeper 1."},
		"ours is wrong":                 {good, bad, "ours wrong: still there after 60.0 s", false, "upstream passes 1 and Taintkeeper 0."},
		"ours could not be run":         {bad, broken, "ours could not be run: refused", true, "upstream passes 0 and Taintkeeper 0."},
		"upstream runs next to ours":    {absent, good, "", false, "Of 1 scenario, Taintkeeper passes 1."},
	} {
		t.Run(name, func(t *testing.T) {
			r := report{results: []result{{row: rows()[9], upstream: test.upstream, ours: test.ours}}}
			if err := r.wrong(); (err != nil) != (test.fails != "") || err != nil && !strings.HasSuffix(err.Error(), test.fails) {
				t.Errorf("it fails with %v, want %q", err, test.fails)
			}
			if err := writeDocument(options{file: t.TempDir() + "/defects.md"}, r); (err != nil) != test.incomplete {
				t.Errorf("the document: %v", err)
			}
			var printed strings.Builder
			printResults(&printed, r)
			if !strings.Contains(printed.String(), test.summary) || !strings.Contains(printed.String(), "upstream: "+test.upstream.String()+"\n") {
				t.Errorf("it prints\n%s", &printed)
			}
		})
	}
}

func TestOnlyExistingScenariosCanBeChosen(t *testing.T) {
	var o options
	last := len(rows())
	if !o.chosen(1) || !o.chosen(last) {
		t.Error("without a choice, not all are played")
	}
	if err := o.only.Set("3,16"); err != nil || !o.chosen(3) || !o.chosen(16) || o.chosen(1) {
		t.Errorf("chosen: %s, %v", &o.only, err)
	}
	for _, nonsense := range []string{"0", fmt.Sprint(last + 1), "x", "1,,2"} {
		if err := o.only.Set(nonsense); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("choose from 1 to %d", last)) {
			t.Errorf("%q: %v", nonsense, err)
		}
	}
}
