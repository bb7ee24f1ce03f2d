// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

const documentFile = "../../docs/defects.md"

var (
	about    = regexp.MustCompile(`Kubernetes (v[0-9.]+), and(?s:.*)machine with (.*); all scenarios together took (\S+)\.`)
	outcomes = regexp.MustCompile(`(?m)^\| (\d+) \| .* \| .* \| (.*) \| (.*) \|$`)
)

// TestTheDocumentHasTheWordsOfTheProgram writes docs/defects.md again from the results that are in it, so that words
// can change without another run of make defects.
func TestTheDocumentHasTheWordsOfTheProgram(t *testing.T) {
	text, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	found := about.FindStringSubmatch(string(text))
	if found == nil {
		t.Fatal("it does not say where it was measured")
	}
	took, err := time.ParseDuration(found[3])
	if err != nil {
		t.Fatal(err)
	}
	r := report{version: found[1], took: took}
	for _, line := range outcomes.FindAllStringSubmatch(string(text), -1) {
		number, err := strconv.Atoi(line[1])
		if err != nil {
			t.Fatal(err)
		}
		r.results = append(r.results, result{row: rows()[number-1], upstream: read(line[2]), ours: read(line[3])})
	}
	if document(r, found[2]) != string(text) {
		t.Error("docs/defects.md does not have the words of the program; make defects ARGS=-write=docs/defects.md brings it up to date")
	}
}

// read returns the outcome of a cell of the table.
func read(cell string) outcome {
	cell = strings.ReplaceAll(cell, `\|`, "|")
	if said, isWrong := strings.CutPrefix(cell, "**wrong**: "); isWrong {
		return outcome{Finding: scenario.Finding{Seen: said}}
	}
	return outcome{Finding: scenario.Finding{Seen: strings.TrimPrefix(cell, "right: "), Right: true}}
}
