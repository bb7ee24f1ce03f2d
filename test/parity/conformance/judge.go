// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// result is a run that was played and judged.
type result struct {
	run
	took time.Duration
	rows []row
	// complaints are unexpected results that belong to none of the requested specs.
	complaints []string
	// Each of these is empty when there is none.
	junit string // file
	log   string // file with the output of the specs
	state string // folder of the cluster
}

// row is a spec in a run.
type row struct {
	spec
	outcome   outcome // its status is empty when the spec did not run
	complaint string  // empty when it ended as it had to
}

// judge compares what ran with what should have. It compares names, so that a spec that did not run is a complaint, and
// an extra one cannot replace it.
func judge(r run, ran []outcome) (rows []row, complaints []string) {
	for _, s := range specs {
		rows = append(rows, judgeSpec(r, s, ran))
	}
	for _, o := range ran {
		switch {
		case !o.spec && o.status != statusPassed:
			complaints = append(complaints, fmt.Sprintf("%s of the suite %s: %s", o.name, o.status, o.message))
		case o.spec && !listed(o.name):
			complaints = append(complaints, fmt.Sprintf("%s ran and is not in the list of specs: add it", o.name))
		}
	}
	return rows, complaints
}

func listed(name string) bool {
	return slices.ContainsFunc(specs, func(s spec) bool { return s.name() == name })
}

func judgeSpec(r run, s spec, ran []outcome) row {
	i := slices.IndexFunc(ran, func(o outcome) bool { return o.spec && o.name == s.name() })
	if i < 0 {
		return row{spec: s, complaint: "did not run"}
	}
	return row{spec: s, outcome: ran[i], complaint: complain(r, s, ran[i])}
}

func complain(r run, s spec, o outcome) string {
	passed := o.status == statusPassed
	switch {
	case s.passesIn(r) && passed:
		return ""
	case s.passesIn(r):
		return fmt.Sprintf("%s, but had to pass:\n%s", o.status, o.message)
	case passed:
		return "passed, but had to fail, because nothing evicts in this run"
	case !strings.Contains(o.message, s.unevicted):
		return fmt.Sprintf("%s, but not because no pod was evicted, in which case it would say %q:\n%s", o.status, s.unevicted, o.message)
	}
	return ""
}

// asExpected reports whether all results of a run were as expected.
func (r result) asExpected() bool {
	return len(r.complaints) == 0 && !slices.ContainsFunc(r.rows, func(one row) bool { return one.complaint != "" })
}

func asExpected(results []result) bool {
	return !slices.ContainsFunc(results, func(r result) bool { return !r.asExpected() })
}

// count counts the rows for which all conditions hold.
func (r result) count(conditions ...func(row) bool) int {
	n := 0
	for _, one := range r.rows {
		if !slices.ContainsFunc(conditions, func(holds func(row) bool) bool { return !holds(one) }) {
			n++
		}
	}
	return n
}
