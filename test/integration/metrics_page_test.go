// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// documented is a row of a table of docs/metrics.md: a metric, its labels, its type and what it means.
var documented = regexp.MustCompile(
	"(?m)^\\| `([a-z_]+)(?:\\{([a-z,]+)\\})?` \\| (counter|gauge|histogram) \\| (.*) \\|$")

// ours matches the metrics of Taintkeeper, whether they have upstream's names or its own.
var ours = regexp.MustCompile(`^(taintkeeper|taint_eviction_controller|node_collector)_`)

// TestTheProgramServesTheMetricsOfThePage scrapes what is served. A vector without a series, such as that of retries,
// is not served.
func TestTheProgramServesTheMetricsOfThePage(t *testing.T) {
	s := newScene(t)
	s.node(t, "node")
	rows := documentedMetrics(t)
	for name, flags := range map[string][]string{
		"evictions and node health": {"--controllers=*", "--dry-run"},
		"a shadow":                  {"--shadow"},
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, userConfig, flags...)
			await.Eventually(t, "it leads", func(context.Context) error {
				if leading := gauge(t, p, "taintkeeper_leading"); leading != 1 {
					return fmt.Errorf("taintkeeper_leading is %v", leading)
				}
				return nil
			})
			seen := map[string]bool{}
			families, err := p.Gather()
			await.Must(t, err)
			for _, family := range families {
				seen[family.GetName()] = true
				if row, found := rows[family.GetName()]; found || ours.MatchString(family.GetName()) {
					checkRow(t, row, family)
				}
			}
			for name := range rows {
				if !ours.MatchString(name) && !seen[name] {
					t.Errorf("the page has %s, which is not served", name)
				}
			}
			checkByPromtool(t, p)
		})
	}
}

// documentedMetrics returns the rows of the page by the metric's name: labels, type and meaning.
func documentedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	await.Must(t, err)
	rows := map[string][]string{}
	for _, row := range documented.FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = row[2:]
	}
	return rows
}

// checkRow compares a metric with what the page says: its labels, its type and, if it is ours, what it means.
func checkRow(t *testing.T, row []string, family *dto.MetricFamily) {
	t.Helper()
	if row == nil {
		t.Errorf("%s is not on the page", family.GetName())
		return
	}
	labels, kind, meaning := row[0], row[1], row[2]
	if got := strings.ToLower(family.GetType().String()); got != kind {
		t.Errorf("%s is a %s, and the page says %s", family.GetName(), got, kind)
	}
	if ours.MatchString(family.GetName()) && family.GetHelp() != meaning {
		t.Errorf("%s has the help %q, and the page says %q", family.GetName(), family.GetHelp(), meaning)
	}
	known := map[string]bool{}
	for label := range strings.SplitSeq(labels, ",") {
		known[label] = true
	}
	for _, metric := range family.GetMetric() {
		for _, label := range metric.GetLabel() {
			if !known[label.GetName()] {
				t.Errorf("%s has the label %s, and the page says %q", family.GetName(), label.GetName(), labels)
			}
		}
	}
}

// checkByPromtool has promtool check names, types and help texts of all that is served.
func checkByPromtool(t *testing.T, p *process) {
	t.Helper()
	text, err := get(t.Context(), "http://"+p.metrics+"/metrics")
	await.Must(t, err)
	command := exec.CommandContext(t.Context(), "../../bin/promtool", "check", "metrics")
	command.Stdin = strings.NewReader(text)
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics (make bin/promtool builds it): %v\n%s", err, output)
	}
}
