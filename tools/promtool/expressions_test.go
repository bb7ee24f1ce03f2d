// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package promtool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// documented is a row of a table of docs/metrics.md, which is written from the code.
var documented = regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\{([a-z,]+)\\})?` \\| (counter|gauge|histogram) \\|")

// ofTarget are the labels that Prometheus adds.
var ofTarget = []string{"job", "instance"}

// metrics returns the labels of each metric, as a scrape has them.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{}
	for _, found := range documented.FindAllStringSubmatch(read(t, "docs/metrics.md"), -1) {
		name, kind := found[1], found[3]
		labels := append(strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' }), ofTarget...)
		if kind != "histogram" {
			known[name] = labels
			continue
		}
		known[name+"_bucket"] = append(labels, "le")
		known[name+"_sum"], known[name+"_count"] = labels, labels
	}
	if len(known) == 0 {
		t.Fatal("docs/metrics.md has no metrics")
	}
	return known
}

// check returns what is wrong with an expression: its syntax, or a metric or a label that does not exist.
func check(expression string, known map[string][]string) error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return err
	}
	for _, selector := range parser.ExtractSelectors(parsed) {
		if err := checkSelector(selector, known); err != nil {
			return err
		}
	}
	return checkGroupings(parsed, known)
}

func checkSelector(selector []*labels.Matcher, known map[string][]string) error {
	name := ""
	for _, matcher := range selector {
		if matcher.Name == model.MetricNameLabel {
			name = matcher.Value
		}
	}
	has, found := known[name]
	if !found {
		return fmt.Errorf("there is no metric %q", name)
	}
	for _, matcher := range selector {
		if matcher.Name != model.MetricNameLabel && !slices.Contains(has, matcher.Name) {
			return fmt.Errorf("%s has no label %q", name, matcher.Name)
		}
	}
	return nil
}

// checkGroupings looks for labels that an aggregation keeps and nothing below has.
func checkGroupings(expression parser.Expr, known map[string][]string) error {
	var wrong error
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		aggregation, ok := node.(*parser.AggregateExpr)
		if !ok || aggregation.Without {
			return nil
		}
		for _, label := range aggregation.Grouping {
			if !slices.ContainsFunc(parser.ExtractSelectors(aggregation.Expr), func(selector []*labels.Matcher) bool {
				return checkSelector(append(selector, &labels.Matcher{Name: label}), known) == nil
			}) {
				wrong = fmt.Errorf("%s: nothing has the label %q", aggregation, label)
			}
		}
		return nil
	})
	return wrong
}

func TestEachExpressionOfTheRulesIsAboutExistingMetrics(t *testing.T) {
	known := metrics(t)
	for _, rule := range rules(t) {
		if err := check(rule.Expr, known); err != nil {
			t.Errorf("%s%s: %v", rule.Alert, rule.Record, err)
		}
		if rule.Record != "" {
			known[rule.Record] = nil // it has the labels of its expression
		}
	}
}

// dashboard is what this package reads of a dashboard of Grafana.
type dashboard struct {
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	Datasource  struct{ Type, UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var all dashboard
	must(t, json.Unmarshal([]byte(read(t, "charts/taintkeeper/files/dashboard.json")), &all))
	if len(all.Panels) == 0 {
		t.Fatal("the dashboard has no panels")
	}
	return all
}

func TestEachExpressionOfTheDashboardIsAboutExistingMetrics(t *testing.T) {
	known := metrics(t)
	for _, panel := range readDashboard(t).Panels {
		if len(panel.Targets) == 0 && panel.Type != "row" {
			t.Errorf("panel %q shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			// Grafana replaces its variable with a duration.
			if err := check(strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"), known); err != nil {
				t.Errorf("panel %q: %v", panel.Title, err)
			}
		}
	}
}

// A standby does not derive the states of zones yet, so it reports the rate of healthy zones.
func TestTheRateOfAZoneIsThatOfTheLeader(t *testing.T) {
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			if strings.Contains(target.Expr, "taintkeeper_zone_taint_rate") &&
				!strings.Contains(target.Expr, "and on (job, instance) taintkeeper_leading == 1") {
				t.Errorf("panel %q shows the rate of standbys, too: %s", panel.Title, target.Expr)
			}
		}
	}
}

func TestEachPanelOfTheDashboardHasAPlaceOfItsOwnAndSaysWhatItShows(t *testing.T) {
	const columns = 24
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, panel := range readDashboard(t).Panels {
		if panel.ID == 0 || ids[panel.ID] {
			t.Errorf("panel %q has the id %d", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		at := panel.GridPos
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other, found := taken[[2]int{x, y}]; found || x >= columns {
					t.Fatalf("panel %q lies over %q, or beyond the edge", panel.Title, other)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
		if panel.Type == "row" {
			continue
		}
		if panel.Description == "" || panel.Datasource.Type != "prometheus" || panel.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q says %q and asks %v", panel.Title, panel.Description, panel.Datasource)
		}
	}
}

func TestWhatIsWrongInAnExpressionIsFound(t *testing.T) {
	known := map[string][]string{"there": {"label"}}
	for expression, finds := range map[string]bool{
		"sum by (label) (there)": false,
		"sum(there":              true,
		"not_there":              true,
		"there{other=\"a\"}":     true,
		"sum by (other) (there)": true,
	} {
		if err := check(expression, known); (err != nil) != finds {
			t.Errorf("%s: %v", expression, err)
		}
	}
}
