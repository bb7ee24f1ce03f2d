// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of go test -json; see `go doc test2json`.
type event struct {
	Action string
	Test   string
	Output string
}

// tally counts the tests of one package. A test with subtests is counted by them, because scenarios are subtests.
type tally struct {
	started []string
	parents map[string]bool
	passed  map[string]bool
	leftOut map[string]bool
}

// readTally reads events to their end, and writes what the tests print to log.
func readTally(events io.Reader, log io.Writer) (tally, error) {
	t := tally{parents: map[string]bool{}, passed: map[string]bool{}, leftOut: map[string]bool{}}
	decoder := json.NewDecoder(events)
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		if _, err := io.WriteString(log, e.Output); err != nil {
			return t, err
		}
		t.count(e)
	}
}

func (t *tally) count(e event) {
	if e.Test == "" {
		return
	}
	switch e.Action {
	case "run":
		t.started = append(t.started, e.Test)
		for i, letter := range e.Test {
			if letter == '/' {
				t.parents[e.Test[:i]] = true
			}
		}
	case "pass":
		t.passed[e.Test] = true
	case "skip":
		t.leftOut[e.Test] = true
	}
}

// result returns how the tests of a suite ended. A test that was cut off by a panic has not passed. One that skipped
// itself, because the version lacks what it is about, is counted apart.
func (t *tally) result(suite string, ok bool) result {
	r := result{suite: suite, ok: ok}
	for _, test := range t.started {
		switch {
		case t.parents[test]: // if it fails by itself, ok is false
		case t.leftOut[test]:
			r.leftOut++
		case t.passed[test]:
			r.ran++
		default:
			r.ran++
			r.failed = append(r.failed, test)
		}
	}
	slices.Sort(r.failed)
	return r
}

// result is how the tests of a suite ended.
type result struct {
	suite string
	// ok is the overall verdict of go test: what tests share can fail even if no test does.
	ok      bool
	ran     int
	leftOut int
	failed  []string
}

// String returns the cell of the table.
func (r result) String() string {
	count := fmt.Sprintf("%d of %d", r.ran-len(r.failed), r.ran)
	if r.leftOut > 0 {
		count += fmt.Sprintf(", %d left out", r.leftOut)
	}
	switch {
	case len(r.failed) > 0:
		return count + ", **not** " + strings.Join(r.failed, ", ")
	case !r.ok:
		return count + ", **but the setup or teardown failed**"
	}
	return count
}

// right says whether every test passed, and there was one.
func (r result) right() bool { return r.ok && len(r.failed) == 0 && r.ran > 0 }
