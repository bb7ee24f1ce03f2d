// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package promtool tests what promtool cannot about the monitoring of Taintkeeper: that rules and dashboard ask for
// metrics that exist, and that each alert has its runbook.
package promtool

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	rulesFile = "charts/taintkeeper/files/rules.yaml"
	runbooks  = "docs/runbooks.md"
	testFile  = "testdata/rules_test.yaml"
	runbookAt = "https://github.com/taintkeeper/taintkeeper/blob/main/" + runbooks + "#"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	must(t, err)
	return string(text)
}

// rules returns all rules.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	file := filepath.Join(root, rulesFile)
	parser := parser.NewParser(parser.Options{})
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser, slog.Default())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// alerts returns the rules that alert, by name.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	byName := map[string]rulefmt.Rule{}
	for _, rule := range rules(t) {
		if rule.Alert != "" {
			byName[rule.Alert] = rule
		}
	}
	if len(byName) == 0 {
		t.Fatalf("%s has no alerts", rulesFile)
	}
	return byName
}

// TestWhatThePrometheusOperatorReadsIsOfItsTypes replaces the schemas of its CustomResourceDefinitions, which are
// generated from these types.
func TestWhatThePrometheusOperatorReadsIsOfItsTypes(t *testing.T) {
	for file, into := range map[string]any{
		rulesFile:                               &monitoringv1.PrometheusRuleSpec{},
		"test/chart/golden/servicemonitor.yaml": &monitoringv1.ServiceMonitor{},
	} {
		must(t, yaml.UnmarshalStrict([]byte(read(t, file)), into))
	}
	if err := yaml.UnmarshalStrict([]byte("spec: {endpoint: []}"), &monitoringv1.ServiceMonitor{}); err == nil {
		t.Error("a slip of the pen is not found")
	}
}

// tests is what this package reads of a file of promtool's tests.
type tests struct {
	Tests []struct {
		Alerts []struct {
			Name   string `json:"alertname"`
			Expect []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	}
}

func TestEachAlertIsSeenToFireAndSeenNotTo(t *testing.T) {
	text, err := os.ReadFile(testFile)
	must(t, err)
	var all tests
	must(t, yaml.Unmarshal(text, &all))
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, test := range all.Tests {
		for _, alert := range test.Alerts {
			if len(alert.Expect) > 0 {
				fires[alert.Name] = true
			} else {
				rests[alert.Name] = true
			}
		}
	}
	want := slices.Sorted(maps.Keys(alerts(t)))
	for what, seen := range map[string]map[string]bool{"fire": fires, "be quiet": rests} {
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
			t.Errorf("seen to %s: %v, want %v", what, got, want)
		}
	}
}

// The sections of the page of runbooks, and the rows of its table.
var (
	section = regexp.MustCompile(`(?m)^## (Taintkeeper\w+)$`)
	row     = regexp.MustCompile(`(?m)^\| \[(Taintkeeper\w+)\]\(#(\w+)\) \| (\w+) \|`)
)

func TestEachAlertHasARunbookAndEachRunbookAnAlert(t *testing.T) {
	page, alerts := read(t, runbooks), alerts(t)
	var sections []string
	for _, found := range section.FindAllStringSubmatch(page, -1) {
		sections = append(sections, found[1])
	}
	if want := slices.Sorted(maps.Keys(alerts)); !slices.Equal(slices.Sorted(slices.Values(sections)), want) {
		t.Errorf("there are runbooks for %v, want %v", sections, want)
	}
	var rows []string
	for _, found := range row.FindAllStringSubmatch(page, -1) {
		name, anchor, severity := found[1], found[2], found[3]
		rows = append(rows, name)
		if got := alerts[name].Labels["severity"]; got != severity || anchor != strings.ToLower(name) {
			t.Errorf("the table says %s of %s and links to %s; the rule says %s", severity, name, anchor, got)
		}
	}
	if !slices.Equal(rows, sections) {
		t.Errorf("the table has %v, the sections are %v", rows, sections)
	}
	for _, text := range strings.Split(page, "\n## Taintkeeper")[1:] {
		for _, part := range []string{"**What it means.**", "**What to look at.**", "**What to do.**"} {
			if strings.Count(text, part) != 1 {
				name, _, _ := strings.Cut(text, "\n")
				t.Errorf("the runbook of Taintkeeper%s does not say %s exactly once", name, part)
			}
		}
	}
}

func TestEachAlertSaysHowBadItIsAndWhatItIs(t *testing.T) {
	for name, alert := range alerts(t) {
		if severity := alert.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: the severity is %q", name, severity)
		}
		for _, annotation := range []string{"summary", "description"} {
			if text := alert.Annotations[annotation]; !strings.HasSuffix(text, ".") {
				t.Errorf("%s: the %s is not a sentence: %q", name, annotation, text)
			}
		}
		if got, want := alert.Annotations["runbook_url"], runbookAt+strings.ToLower(name); got != want {
			t.Errorf("%s: the runbook is at %s, want %s", name, got, want)
		}
	}
}
