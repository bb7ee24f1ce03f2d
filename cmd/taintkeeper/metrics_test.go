// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// write makes TestThePageOfMetricsIsCurrent write the page, for make generate.
var write = flag.Bool("write", false, "write the tables of docs/metrics.md")

const (
	root        = "../.."
	metricsPage = "docs/metrics.md"
)

// described is a metric as the code describes it.
type described struct {
	name, help, kind string
	labels           []string
}

// collected is a registry that remembers what was registered.
type collected struct {
	*prometheus.Registry

	metrics map[string]described
}

// Register implements prometheus.Registerer.
func (c collected) Register(collector prometheus.Collector) error {
	if err := c.Registry.Register(collector); err != nil {
		return err
	}
	descs := make(chan *prometheus.Desc)
	go func() { collector.Describe(descs); close(descs) }()
	for desc := range descs {
		metric, err := describe(desc, collector)
		if err != nil {
			return err
		}
		c.metrics[metric.name] = metric
	}
	return nil
}

// ofDesc parses a description, because client_golang offers nothing but its text. ofValue finds the values of labels.
var (
	ofDesc  = regexp.MustCompile(`^Desc\{fqName: (".*"), help: (".*"), unit: "", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	ofValue = regexp.MustCompile(`="[^"]*"`)
)

func describe(desc *prometheus.Desc, collector prometheus.Collector) (described, error) {
	parts := ofDesc.FindStringSubmatch(desc.String())
	if parts == nil {
		return described{}, fmt.Errorf("cannot parse %s", desc)
	}
	name, err := strconv.Unquote(parts[1])
	if err != nil {
		return described{}, err
	}
	help, err := strconv.Unquote(parts[2])
	if err != nil {
		return described{}, err
	}
	labels := strings.FieldsFunc(ofValue.ReplaceAllString(parts[3], "")+","+parts[4], func(r rune) bool { return r == ',' })
	return described{name: name, help: help, kind: kindOf(name, collector), labels: labels}, nil
}

// kindOf returns the type of a metric. For metrics collected at scrape time, it derives the type from the name.
// TestTheProgramServesTheMetricsOfThePage checks that they are served as that type.
func kindOf(name string, collector prometheus.Collector) string {
	switch collector.(type) {
	case prometheus.Histogram, *prometheus.HistogramVec:
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

// row is the metric's row of a table.
func (d described) row() string {
	name := d.name
	if len(d.labels) > 0 {
		name += "{" + strings.Join(d.labels, ",") + "}"
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", name, d.kind, strings.ReplaceAll(d.help, "|", `\|`))
}

// registered returns the metrics that a process with flags registers.
func registered(t *testing.T, args ...string) map[string]described {
	t.Helper()
	into := collected{prometheus.NewRegistry(), map[string]described{}}
	if _, err := fakeClients(t, fake.NewClientset()).parts(logr.Discard(), into, parse(t, args...)); err != nil {
		t.Fatal(err)
	}
	return into.metrics
}

// sections are the tables of the page. Each has only metrics that no earlier table has.
var sections = []struct {
	name string
	args []string
}{
	{"eviction", []string{"--controllers=eviction"}},
	{"coexistence", []string{"--controllers=eviction", "--coexist"}},
	{"node health", []string{"--controllers=node-health"}},
	{"rules", []string{"--controllers=node-taint-rule"}},
	{"shadow", []string{"--shadow"}},
}

// tables returns the tables, and all metrics, both by name.
func tables(t *testing.T) (map[string]string, map[string]described) {
	t.Helper()
	everywhere := registered(t)
	for _, section := range sections {
		others := registered(t, section.args...)
		maps.DeleteFunc(everywhere, func(name string, _ described) bool { _, found := others[name]; return !found })
	}
	all := map[string]described{}
	tables := map[string]string{"every process": tableOf(all, everywhere)}
	for _, section := range sections {
		tables[section.name] = tableOf(all, registered(t, section.args...))
	}
	return tables, all
}

// tableOf writes a table of the metrics that are not known yet, and adds them to the known ones.
func tableOf(known, metrics map[string]described) string {
	text := "| metric | type | meaning |\n| --- | --- | --- |\n"
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if _, found := known[name]; !found {
			known[name] = metrics[name]
			text += metrics[name].row()
		}
	}
	return text
}

func TestThePageOfMetricsIsCurrent(t *testing.T) {
	got := readPage(t, metricsPage)
	want := got
	tables, _ := tables(t)
	for name, table := range tables {
		begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->\n"
		before, rest, begins := strings.Cut(want, begin)
		_, after, ends := strings.Cut(rest, end)
		if !begins || !ends {
			t.Fatalf("%s has no place for a table, between the lines %s and %s", metricsPage, begin, end)
		}
		want = before + begin + table + end + after
	}
	if *write {
		if err := os.WriteFile(filepath.Join(root, metricsPage), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != got {
		t.Errorf("%s is not what the code says: run make generate", metricsPage)
	}
}

// Metrics that the page names although we do not have them, such as upstream's.
var absent = []string{"node_collector_update_all_nodes_health_duration_seconds"}

// named finds metrics in a text. A name that ends with an underscore stands for all names that begin with it.
var named = regexp.MustCompile(`\b(taintkeeper|node_collector|taint_eviction_controller)_[a-z_]+`)

func TestEveryMetricThatIsNamedExists(t *testing.T) {
	_, all := tables(t)
	var known []string
	for name, metric := range all {
		known = append(known, name)
		if metric.kind == "histogram" {
			known = append(known, name+"_bucket", name+"_sum", name+"_count")
		}
	}
	known = append(known, absent...)
	for _, file := range textsAboutMetrics(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := named.FindAllString(string(text), -1)
		if filepath.Base(filepath.Dir(file)) == "files" && len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			if !slices.ContainsFunc(known, func(one string) bool {
				return one == name || strings.HasSuffix(name, "_") && strings.HasPrefix(one, name)
			}) {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}

// textsAboutMetrics returns the files in which metrics are named.
func textsAboutMetrics(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{
		"README.md", "docs/*.md", "charts/taintkeeper/README.md", "charts/taintkeeper/templates/*.yaml",
		"charts/taintkeeper/files/rules.yaml", "charts/taintkeeper/files/dashboard.json",
	} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	return files
}

// valueOf returns the sum of a metric's series.
func valueOf(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name {
				sum += metric.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestAProcessSaysThatItLeadsForAsLongAsItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		standing, err := newStanding(registry, parse(t))
		if err != nil {
			t.Fatal(err)
		}
		if leading := valueOf(t, registry, "taintkeeper_leading"); leading != 0 {
			t.Errorf("a standby reports %v", leading)
		}
		stop := bubble.Run(t, "the process", standing.Run)
		if leading := valueOf(t, registry, "taintkeeper_leading"); leading != 1 {
			t.Errorf("a leader reports %v", leading)
		}
		stop()
		if leading := valueOf(t, registry, "taintkeeper_leading"); leading != 0 {
			t.Errorf("a process that has ended reports %v", leading)
		}
	})
}

func TestAProcessSaysThatItLeavesNodeHealthOut(t *testing.T) {
	for name, test := range map[string]struct {
		controllers string // of kube-controller-manager
		want        float64
	}{
		"alongside the built-in":             {"--controllers=*", 1},
		"where the built-in is switched off": {"--controllers=*,-node-lifecycle-controller", 0},
	} {
		t.Run(name, func(t *testing.T) {
			o, registry := parse(t, "--controllers=*"), prometheus.NewRegistry()
			rivals := rivalsAmong(t, managerPod("kube-controller-manager", test.controllers))
			if err := o.avoidRival(t.Context(), rivals, logr.Discard()); err != nil {
				t.Fatal(err)
			}
			if _, err := newStanding(registry, o); err != nil {
				t.Fatal(err)
			}
			if got := valueOf(t, registry, "taintkeeper_node_health_left_out"); got != test.want {
				t.Errorf("it reports %v, want %v", got, test.want)
			}
		})
	}
}
