// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/taintkeeper/taintkeeper/internal/sentence"
)

// chapter is how the results of a section are introduced.
type chapter struct {
	section section
	title   string
	about   string
}

var chapters = []chapter{
	{fixes, "What Taintkeeper fixes", "[These tests](../test/README.md#tests-of-each-defect) prove each fix, under the same number. " +
		"In the source of Kubernetes 1.38.0-beta.0, only\nthe histogram (5) is fixed."},
	{keeps, "What a replacement must not break", "Upstream keeps most of these promises by design: it counts with its own timers, writes nothing " +
		"to nodes\nand has a goroutine per eviction."},
	{nodes, "What came with Kubernetes 1.37", "Defects of its node-lifecycle controller. Two more need a watch that lags, so they " +
		"run in virtual time, in `test/parity/histories`\n(`TestWhileItsLeasesAreBehindUpstreamForgetsTheDisruptionAndSaysNothing`)."},
}

// printResults prints the results for a terminal.
func printResults(out io.Writer, r report) {
	var text strings.Builder
	for _, c := range chapters {
		results := r.of(c.section)
		if len(results) == 0 {
			continue
		}
		fmt.Fprintf(&text, "%s\n\n", c.title)
		for _, result := range results {
			fmt.Fprintf(&text, "%2d  %s\n    %s\n    upstream: %s\n    ours: %s\n",
				result.number, result.scenario, result.should, result.upstream, result.ours)
		}
		fmt.Fprintf(&text, "%s\n\n", summary(results))
	}
	_, _ = io.WriteString(out, text.String()) // the exit code has the result, too
}

// summary counts how often each contestant was right.
func summary(results []result) string {
	upstream, our, absent := 0, 0, false
	for _, result := range results {
		absent = absent || result.upstream.absent
		if result.upstream.isRight() {
			upstream++
		}
		if result.ours.isRight() {
			our++
		}
	}
	all := sentence.Counted(len(results), "scenario")
	if absent {
		return fmt.Sprintf("Of %s, Taintkeeper passes %d.", all, our)
	}
	return fmt.Sprintf("Of %s, upstream passes %d and Taintkeeper %d.", all, upstream, our)
}

// document returns the results as Markdown.
func document(r report, machine string) string {
	var text strings.Builder
	fmt.Fprintf(&text, documentHead, r.version, machine, r.took.Round(10*time.Second).String())
	for _, c := range chapters {
		if results := r.of(c.section); len(results) > 0 {
			c.write(&text, results)
		}
	}
	text.WriteString(measured)
	for _, result := range r.results {
		fmt.Fprintf(&text, "%d. %s%s\n", result.number, result.how, references(result.row))
	}
	return text.String()
}

func (c chapter) write(text *strings.Builder, results []result) {
	fmt.Fprintf(text, "\n## %s\n\n%s\n\n%s\n\n%s", c.title, c.about, summary(results), tableHead)
	for _, result := range results {
		fmt.Fprintf(text, "| %d | %s | %s | %s | %s |\n", result.number, cell(result.scenario), cell(result.should),
			verdictCell(result.upstream), verdictCell(result.ours))
	}
}

const documentHead = `# Defects side by side

Defects of kube-controller-manager's taint-eviction-controller that Taintkeeper fixes, and promises that both must keep.
A program runs each scenario against both, in separate clusters of Kubernetes %s, and writes this file:

    make defects ARGS=-write=docs/defects.md

The figures are from one run on a machine with %s; all scenarios together took %s.
An eviction is wrong if it is early or more than 4 seconds late; the machine can cause smaller delays.
`

const measured = `
## How each is measured

By the program's own watch and the audit log; metrics, logs and events count only in scenarios about them. There are no
kubelets, so a deleted pod keeps terminating. A pod that stays is watched for at least 10 s. kube-controller-manager
runs with its defaults, except for the feature gate TaintTolerationComparisonOperators (on) and the node-lifecycle
controller, whose grace periods are a day and which checks nodes every second. In 1, 2, 7 and 12, both controllers have
upstream's default limits of 20 calls per second and bursts of 30. In 23 and 24, both have a grace period of 20 s and
upstream checks every 5 s, its default, so right means 20 to 29 s after the Lease's last renewal.

`

const tableHead = `| # | scenario | what should happen | upstream | ours |
| --: | --- | --- | --- | --- |
`

// verdictCell writes an outcome; what is wrong stands out.
func verdictCell(o outcome) string {
	text := cell(o.String())
	if rest, wrong := strings.CutPrefix(text, "wrong:"); wrong {
		return "**wrong**:" + rest
	}
	return text
}

// cell makes a text fit for a cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}

// references links what upstream's tracker has about a defect.
func references(r row) string {
	var links []string
	for _, number := range r.issues {
		links = append(links, fmt.Sprintf("[#%d](https://github.com/kubernetes/kubernetes/issues/%[1]d)", number))
	}
	for _, number := range r.pulls {
		links = append(links, fmt.Sprintf("[#%d](https://github.com/kubernetes/kubernetes/pull/%[1]d)", number))
	}
	if len(links) == 0 {
		return ""
	}
	return " Upstream: " + strings.Join(slices.Compact(links), ", ") + "."
}
