// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestEveryRowIsPlayedOnceAndSaysWhatItIsAbout(t *testing.T) {
	var played []int
	for _, a := range program() {
		played = append(played, a.rows...)
	}
	slices.Sort(played)
	for i, r := range rows() {
		if r.number != i+1 || i >= len(played) || played[i] != r.number {
			t.Errorf("row %d: number %d; the program plays %v", i+1, r.number, played)
		}
		if wanted := []section{fixes, keeps, nodes}[min(i/16, 1)+i/22]; r.section != wanted {
			t.Errorf("row %d is in section %d, want %d", r.number, r.section, wanted)
		}
		if r.scenario == "" || r.should == "" || r.how == "" || len(r.stories) == 0 {
			t.Errorf("row %d lacks something: %+v", r.number, r)
		}
	}
	if len(played) != len(rows()) {
		t.Errorf("the program plays %v, and there are %d rows", played, len(rows()))
	}
}

var (
	good   = outcome{Finding: right("left after 20.0 s")}
	bad    = outcome{Finding: wrong("still there after 60.0 s")}
	broken = outcome{err: errors.New("create pod x: refused")}
)

func sample(upstream, our outcome) report {
	return report{version: "v1.37.2", took: 143 * time.Second, results: []result{{
		row: row{
			number: 10, scenario: "The controller restarts", should: "The pod leaves | in time",
			how: "By a watch.", issues: []int{108268}, pulls: []int{141311},
		},
		upstream: upstream, ours: our,
	}}}
}

func TestOnlyOursDecidesWhetherTheProgramSucceeds(t *testing.T) {
	tests := map[string]struct {
		report report
		want   string
	}{
		"ours is right, upstream wrong":               {sample(bad, good), ""},
		"both are right":                              {sample(good, good), ""},
		"ours is right, upstream's scene is at fault": {sample(broken, good), ""},
		"ours is wrong":                               {sample(good, bad), "scenario 10, The controller restarts: ours wrong: still there after 60.0 s"},
		"ours could not be run":                       {sample(bad, broken), "scenario 10, The controller restarts: ours could not be run: create pod x: refused"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			said := ""
			if err := test.report.wrong(); err != nil {
				said = err.Error()
			}
			if said != test.want {
				t.Errorf("%q, want %q", said, test.want)
			}
		})
	}
}

func TestWhatCouldNotBePlayedIsNeitherRightNorWrong(t *testing.T) {
	if err := sample(bad, good).incomplete(); err != nil {
		t.Errorf("all was played, and it says %v", err)
	}
	if sample(broken, good).incomplete() == nil || sample(bad, broken).incomplete() == nil {
		t.Error("a scenario that could not be played is not missed")
	}
	if text := broken.String(); text != "could not be run: create pod x: refused" || broken.isRight() {
		t.Errorf("%q, right: %v", text, broken.isRight())
	}
}

func TestADocumentIsNotWrittenWithoutAllResults(t *testing.T) {
	file := t.TempDir() + "/defects.md"
	if err := writeDocument(options{file: file}, sample(broken, good)); err == nil {
		t.Error("it is written")
	}
	if err := writeDocument(options{file: file}, sample(bad, good)); err != nil {
		t.Error(err)
	}
}

func TestTheDocumentHoldsWhatWasMeasuredAndHow(t *testing.T) {
	text := document(sample(bad, good), "two shared virtual cores")
	for _, want := range []string{
		"# Defects side by side\n",
		"Kubernetes v1.37.2,",
		"    make defects ARGS=-write=docs/defects.md\n",
		"on a machine with two shared virtual cores; all scenarios together took 2m20s.",
		"\n## What Taintkeeper fixes\n",
		"\nOf 1 scenario, upstream passes 0 and Taintkeeper 1.\n\n| # | scenario | what should happen | upstream | ours |\n",
		`| 10 | The controller restarts | The pod leaves \| in time | **wrong**: still there after 60.0 s | right: left after 20.0 s |` + "\n",
		"\n10. By a watch. Upstream: [#108268](https://github.com/kubernetes/kubernetes/issues/108268), [#141311](https://github.com/kubernetes/kubernetes/pull/141311).\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if again := document(sample(bad, good), "two shared virtual cores"); again != text {
		t.Errorf("a second time it is\n%s", again)
	}
}

func TestWhatIsFixedAndWhatIsKeptIsCountedApart(t *testing.T) {
	r := sample(bad, good)
	kept := r.results[0]
	kept.section, kept.number, kept.upstream = keeps, 17, good
	r.results = append(r.results, kept)
	var printed strings.Builder
	printTable(&printed, r)
	for _, text := range []string{document(r, "two shared virtual cores"), printed.String()} {
		fixed, kept, found := strings.Cut(text, "What a replacement must not break")
		if !found || !strings.Contains(fixed, "Of 1 scenario, upstream passes 0 and Taintkeeper 1.") ||
			!strings.Contains(kept, "Of 1 scenario, upstream passes 1 and Taintkeeper 1.") {
			t.Errorf("the two are not told apart in\n%s", text)
		}
	}
}

func TestABuiltInThatRunsNextToOursIsNotJudged(t *testing.T) {
	var out strings.Builder
	printTable(&out, sample(outcome{absent: true}, good))
	text := out.String()
	if !strings.Contains(text, "not played ") || !strings.Contains(text, "Of 1 scenario, Taintkeeper passes 1.") {
		t.Errorf("it says otherwise:\n%s", text)
	}
}

func TestAScenarioThatUpstreamPassesIsShownSo(t *testing.T) {
	text := document(sample(good, good), "two shared virtual cores")
	if !strings.Contains(text, "| right: left after 20.0 s | right: left after 20.0 s |") {
		t.Errorf("it is not in\n%s", text)
	}
}

func TestThePrintedTableFitsItsColumns(t *testing.T) {
	var out strings.Builder
	printTable(&out, sample(bad, good))
	want := `What Taintkeeper fixes

#   scenario                    what should happen        upstream                          ours
----------------------------------------------------------------------------------------------------------------------------
10  The controller restarts     The pod leaves | in time  wrong: still there after 60.0 s   right: left after 20.0 s
----------------------------------------------------------------------------------------------------------------------------
Of 1 scenario, upstream passes 0 and Taintkeeper 1.
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestTextIsWrappedBetweenWords(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"short":              {"a b", []string{"a b"}},
		"exactly the width":  {"abcd efgh", []string{"abcd efgh"}},
		"longer":             {"abcd efgh i", []string{"abcd efgh", "i"}},
		"a word that is too": {"a bcdefghijkl m", []string{"a", "bcdefghijkl", "m"}},
		"nothing":            {"", []string{""}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := wrap(test.text, 9); !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
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
	if err := o.only.Set("3,16"); err != nil {
		t.Fatal(err)
	}
	if !o.chosen(3) || !o.chosen(16) || o.chosen(1) {
		t.Errorf("chosen: %s", &o.only)
	}
	for _, nonsense := range []string{"0", strconv.Itoa(last + 1), "x", "1,,2"} {
		if err := o.only.Set(nonsense); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("choose from 1 to %d", last)) {
			t.Errorf("%q: %v", nonsense, err)
		}
	}
}
