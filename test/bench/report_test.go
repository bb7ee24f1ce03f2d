// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// line is a line of the audit log, of an answer so many milliseconds after one o'clock.
func line(user, verb, object string, code, ms int) string {
	resource, name, _ := strings.Cut(object, " ")
	resource, sub, _ := strings.Cut(resource, "/")
	at := time.Date(2026, time.November, 21, 1, 0, 0, ms*int(time.Millisecond), time.UTC).Format(metav1.RFC3339Micro)
	return fmt.Sprintf(`{"kind":"Event","verb":%q,"user":{"username":%q},"objectRef":{"resource":%q,"subresource":%q,"name":%q},`+
		`"responseStatus":{"code":%d},"stageTimestamp":%q}`+"\n", verb, user, resource, sub, name, code, at)
}

const someone = "system:serviceaccount:kube-system:x"

var stormLines = []string{
	line(someone, "patch", "nodes node-002", 200, -50),
	line(adminUser, "patch", "nodes node-001", 200, 0),
	line(adminUser, "patch", "nodes node-000", 200, 100),
	line(someone, "create", "pods a", 201, 200),
	line(someone, "patch", "pods/status a", 200, 250),
	line(someone, "delete", "pods a", 500, 300),
	line(someone, "delete", "pods a", 200, 500),
	line(someone, "delete", "pods a", 200, 9000),
	line(someone, "watch", "pods", 200, 500),
	line(someone, "create", "events e", 201, 600),
}

func TestAStormCountsFromTheFirstTaintToTheFirstAcceptedDeleteOfEachPod(t *testing.T) {
	calls, err := auditlog.Lines(strings.Join(stormLines, "")).Events()
	if err != nil {
		t.Fatal(err)
	}
	want := figures{
		{stormTotal, 0.5}, {stormFirst, 500}, {"median delete, ms", 500}, {callsPerPod, 6. / stormPods}, // without the event
		{"create events", 1}, {"create pods", 1}, {"delete pods", 3}, {"patch nodes", 1}, {"patch pods/status", 1},
	}
	if diff := cmp.Diff(want, stormFigures(calls)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOnlyWhatFollowsTheMarkIsRead(t *testing.T) {
	log := audit{filepath.Join(t.TempDir(), "audit.log")}
	write := func(lines ...string) {
		if err := os.WriteFile(log.path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(stormLines[1])
	mark, err := log.mark()
	if err != nil {
		t.Fatal(err)
	}
	write(stormLines[1], stormLines[5], stormLines[6])
	calls, err := log.awaitDeletes(t.Context(), mark, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 2 || calls[0].Verb != "delete" {
		t.Errorf("calls: %+v, want the two deletes", calls)
	}
}

func TestLatenessCountsFromDue(t *testing.T) {
	start := time.Date(2026, time.November, 21, 1, 0, 0, 0, time.UTC)
	pod := latenessPodList()[0] // it tolerates the taint for a second
	pod.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
	for _, test := range []struct {
		name                 string
		deletedMS            int
		lateness, deletedToo float64
	}{
		{"deleted a little after it was due", 1005, 5, 0},
		{"deleted before it was due", 900, -100, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls, err := auditlog.Lines(line(adminUser, "patch", "nodes node-000", 200, 0) +
				line(someone, "delete", "pods "+pod.Name, 200, test.deletedMS)).Events()
			if err != nil {
				t.Fatal(err)
			}
			want := figures{{latenessP99, test.lateness}, {"max, ms", test.lateness}, {"deleted too early", test.deletedToo}}
			if diff := cmp.Diff(want, latenessFigures([]*corev1.Pod{pod}, calls)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLatenessPodsFillTheMinuteOnEveryNode(t *testing.T) {
	seen := map[string]map[int64]bool{}
	for _, pod := range latenessPodList() {
		if seen[pod.Spec.NodeName] == nil {
			seen[pod.Spec.NodeName] = map[int64]bool{}
		}
		seen[pod.Spec.NodeName][*pod.Spec.Tolerations[0].TolerationSeconds] = true
	}
	if len(seen) != stormNodes {
		t.Errorf("%d nodes, want %d", len(seen), stormNodes)
	}
	for node, instants := range seen {
		if len(instants) != latenessSeconds {
			t.Errorf("%s: %d different tolerationSeconds, want %d", node, len(instants), latenessSeconds)
		}
	}
}

func TestTheReport(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("bin", 0o755); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	b := &bench{report: newReport(), out: &printed}
	for _, total := range []float64{10, 30, 12} {
		b.note(stormWarm, nameFloor, figures{{stormTotal, total}})
		b.note(stormWarm, nameOurs, figures{{stormTotal, 15}, {callsPerPod, 2}, {ownCPU, 1}})
	}
	b.report.table(stormWarm).print(&printed)
	if err := b.report.conclude(&printed); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"taintkeeper, storm warm: total, s: 15; calls per pod, without events: 2", // as it is measured
		"total, s 12 (10, 30, 12) 15 (15, 15, 15)",
		"as a multiple of that of floor at most 1.1 1.25 (1.50, 0.50, 1.25) missed", // 15/10, 15/30 and 15/12
		"calls per pod, without events at most 2.1 2 (2, 2, 2) reached",
		"CPU time, s at most 0.6 1 (1, 1, 1) missed",
	} {
		if !strings.Contains(strings.Join(strings.Fields(printed.String()), " "), want) {
			t.Errorf("%q is not in\n%s", want, printed.String())
		}
	}
	for _, unmeasured := range []string{tableLateness, stormFresh, stormSlow, nameUnlimited} {
		if strings.Contains(printed.String(), unmeasured) {
			t.Errorf("%s was not measured, but is compared:\n%s", unmeasured, printed.String())
		}
	}
	if content, err := os.ReadFile("bin/bench.json"); err != nil || !strings.Contains(string(content), `"measured": 1.25`) {
		t.Errorf("%v, %s", err, content)
	}
}

func TestARoundThatTheOtherDidNotHaveIsNotCompared(t *testing.T) {
	if diff := cmp.Diff([]float64{1.5, 1}, ratios([]float64{3, 5, 7}, []float64{2, 5})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for name, test := range map[string]struct {
		values      []float64
		share, want float64
	}{
		"nothing was measured":                   {nil, 0.5, 0},
		"one value is every quantile":            {[]float64{7}, 0.99, 7},
		"the smallest is the quantile of none":   {[]float64{3, 1, 2}, 0, 1},
		"the greatest is the quantile of all":    {[]float64{3, 1, 2}, 1, 3},
		"the median of three is the middle one":  {[]float64{3, 1, 2}, 0.5, 2},
		"of an even number it is the lower one":  {[]float64{4, 1, 3, 2}, 0.5, 2},
		"99 of 100 do not exceed the p99":        {hundred, 0.99, 99},
		"the p99.9 of a hundred is the greatest": {hundred, 0.999, 100},
	} {
		t.Run(name, func(t *testing.T) {
			if got := quantile(test.values, test.share); got != test.want {
				t.Errorf("got %g, want %g", got, test.want)
			}
		})
	}
}

func TestWhatManyMachinesCannotPlayIsPlayedOnRequest(t *testing.T) {
	played := func(o options) (all []string) {
		for _, s := range scenes() {
			if o.plays(s) {
				all = append(all, s.name)
			}
		}
		return all
	}
	if got := strings.Join(played(options{}), " "); got != "storm slow lateness heartbeats policies changes rest scale" {
		t.Errorf("by default it plays %s", got)
	}
	if got := strings.Join(played(options{only: names{"million", "storm"}}), " "); got != "storm million" {
		t.Errorf("with -only=million,storm it plays %s", got)
	}
}

func TestCPUTimeOfTheServer(t *testing.T) {
	got, err := parseServerCPU("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.5\n")
	if err != nil || got != 12.5 {
		t.Errorf("got %g, %v; want 12.5", got, err)
	}
	if _, err := parseServerCPU("go_goroutines 7\n"); err == nil {
		t.Error("a missing metric returns no error")
	}
}
