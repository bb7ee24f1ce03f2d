// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"time"

	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// report is the part of a ShadowReport that is printed. docs/shadow-mode.md describes all of it.
type report struct {
	Kind        string         `json:"kind"`
	Since       time.Time      `json:"since"`
	Time        time.Time      `json:"time"`
	Pods        map[string]int `json:"pods"`
	Overdue     int            `json:"overdue"`
	Pending     int            `json:"pending"`
	Differences []difference   `json:"differences"`
}

type difference struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Node      string    `json:"node"`
	Time      time.Time `json:"time"`
	Sentence  string    `json:"sentence"`
}

// outcomes are the possible outcomes for a pod, with their meanings, in the order in which they are printed.
var outcomes = []struct{ name, means string }{
	{"on_time", "evicted within 2 s of their due time"},
	{"early", "evicted before they were due"},
	{"late", "evicted after they were due"},
	{"never", "due, but not evicted"},
	{"should_have_stayed", "evicted although they could have stayed"},
	{"twice", "evicted a second time"},
	{"unjudged", "not judged: the countdown began before shadow mode, the node is gone, or a watch was interrupted"},
}

// mostDifferences is how many differences are printed, newest first.
const mostDifferences = 10

func (r *report) print(o *output.Printer) {
	if r.Since.IsZero() {
		o.Line("Shadow mode has not begun to compare the built-in's evictions with what taints and tolerations require.")
		return
	}
	o.Line("For %s, shadow mode has compared the built-in's evictions with what taints and tolerations require.", output.Span(r.Since, r.Time))
	o.Line("")
	for _, outcome := range outcomes {
		o.Line("%6d  %s", r.Pods[outcome.name], outcome.means)
	}
	o.Line("%6d  due and still there", r.Overdue)
	o.Line("%6d  due later", r.Pending)
	if len(r.Differences) == 0 {
		return
	}
	o.Line("")
	o.Line("Differences, newest first:")
	for i := range r.Differences[:min(len(r.Differences), mostDifferences)] {
		d := &r.Differences[i]
		o.Line("%s  %s/%s on %s", output.Absolute(d.Time), d.Namespace, d.Pod, d.Node)
		o.Line("    %s", d.Sentence)
	}
	if more := len(r.Differences) - mostDifferences; more > 0 {
		o.Line("%s in the file.", sentence.Counted(more, "more difference"))
	}
}
