// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const told = `Will run 13 of 7579 specs
------------------------------
[SynchronizedBeforeSuite] PASSED [0.031 seconds]
------------------------------
[sig-node] NoExecuteTaintManager Single Pod evicts pods from tainted nodes [Serial] [sig-node, Serial]
taints.go:177
  STEP: Starting pod...
• [1.260 seconds]
------------------------------
[sig-node] NoExecuteTaintManager Single Pod removing taint cancels eviction [Conformance] [Disruptive] [Serial] [sig-node, Serial]
• [FAILED] [65.047 seconds]
[sig-node] NoExecuteTaintManager Single Pod [It] removing taint cancels eviction [Conformance] [Disruptive] [Serial]
[sig-cli] Kubectl client Kubectl taint should update the taint on a node [Serial] [sig-cli, Serial]
• [PANICKED!] [2.000 seconds]
`

func TestProgressIsReportedWhenASpecHasEnded(t *testing.T) {
	want := []string{
		"1 of 13 passed after 1.260 s: NoExecuteTaintManager Single Pod evicts pods from tainted nodes",
		"2 of 13 failed after 65.047 s: NoExecuteTaintManager Single Pod removing taint cancels eviction [Conformance]",
		"3 of 13 panicked after 2.000 s: Kubectl client Kubectl taint should update the taint on a node",
	}
	for what, size := range map[string]int{"at once": len(told), "in pieces": 7} {
		var lines []string
		n := &narrator{log: new(strings.Builder), tell: func(line string) { lines = append(lines, line) }}
		for piece := range slices.Chunk([]byte(told), size) {
			if _, err := n.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(lines, want) {
			t.Errorf("%s: got %q\nwant %q", what, lines, want)
		}
	}
}

func TestTheLogHoldsTheWholeOutput(t *testing.T) {
	var log strings.Builder
	n := &narrator{log: &log, tell: func(string) {}}
	if _, err := n.Write([]byte(told + "without an end")); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); got != told+"without an end" {
		t.Errorf("the log is %q", got)
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestALogThatCannotBeWrittenIsAnError(t *testing.T) {
	n := &narrator{log: full{}, tell: func(string) {}}
	if _, err := n.Write([]byte(told)); err == nil {
		t.Error("got no error")
	}
}
