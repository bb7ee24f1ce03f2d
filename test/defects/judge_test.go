// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

func right(seen string) Finding { return Finding{Seen: seen, Right: true} }

func wrong(seen string) Finding { return Finding{Seen: seen} }

func check(t *testing.T, got Finding, want Finding) {
	t.Helper()
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// deletesAt returns deletes that were accepted the given durations after began.
func deletesAt(after ...time.Duration) []auditlog.Event {
	var calls []auditlog.Event
	for _, d := range after {
		calls = append(calls, auditlog.Event{Verb: "delete", Resource: "pods", Code: 200, Answered: began.Add(d)})
	}
	return calls
}

// idle is a machine that does not stall.
func idle(_, _ time.Time) time.Duration { return 0 }

func TestAStormIsRightWhenThePodsLeaveFromTheStartWithTwoCallsEach(t *testing.T) {
	flood := func(first time.Duration, otherCalls int) []auditlog.Event {
		var calls []auditlog.Event
		for range otherCalls {
			calls = append(calls, auditlog.Event{Verb: "patch", Resource: "pods/status"})
		}
		calls = append(calls, deletesAt(first)...)
		for range stormPods - 1 {
			calls = append(calls, deletesAt(15*time.Second)...)
		}
		return calls
	}
	tests := map[string]struct {
		calls []auditlog.Event
		want  Finding
	}{
		"it is":                           {flood(40*time.Millisecond, stormPods), right("150 of 150 deleted, the first after 40 ms, the last after 15.0 s; 2.0 calls per pod")},
		"the first leaves late":           {flood(10*time.Second, stormPods), wrong("150 of 150 deleted, the first after 10.0 s, the last after 15.0 s; 2.0 calls per pod")},
		"the pods are read":               {flood(time.Second, 2*stormPods), wrong("150 of 150 deleted, the first after 1.0 s, the last after 15.0 s; 3.0 calls per pod")},
		"not all pods leave":              {deletesAt(time.Second), wrong("1 of 150 deleted, the first after 1.0 s, the last after 1.0 s; 1.0 calls per pod")},
		"no pod leaves":                   {nil, wrong("nothing deleted")},
		"a refused delete does not count": {[]auditlog.Event{{Verb: "delete", Resource: "pods", Code: 409}}, wrong("nothing deleted")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { check(t, judgeStorm(test.calls, began, idle), test.want) })
	}
}

func scraped(t *testing.T, text string) metrics {
	t.Helper()
	found, err := parseMetrics(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAHistogramIsRightWhenItsSamplesAndTheirSumAreSeconds(t *testing.T) {
	tests := map[string]struct {
		within, count, sum string
		want               Finding
	}{
		"it is":                      {"5", "5", "0.5", right("0 of 5 samples above 240 s, their sum 0.5 s")},
		"all above the last bucket":  {"0", "5", "2.5e+18", wrong("5 of 5 samples above 240 s, their sum 2.5e+18 s")},
		"negative":                   {"5", "5", "-8e+18", wrong("0 of 5 samples above 240 s, their sum -8e+18 s")},
		"more than the buckets hold": {"5", "5", "9e+9", wrong("0 of 5 samples above 240 s, their sum 9e+09 s")},
		"empty":                      {"0", "0", "0", wrong("0 of 0 samples above 240 s, their sum 0 s")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			histogram, err := scraped(t, "# TYPE h histogram\n"+
				`h_bucket{le="10"} 0`+"\n"+`h_bucket{le="240"} `+test.within+"\n"+`h_bucket{le="+Inf"} `+test.count+"\n"+
				"h_sum "+test.sum+"\nh_count "+test.count+"\n").histogram("h")
			if err != nil {
				t.Fatal(err)
			}
			check(t, judgeDuration(histogram), test.want)
		})
	}
}

func TestAMetricThatIsNotThereIsAnErrorOfTheScene(t *testing.T) {
	if _, err := scraped(t, "").histogram("h"); err == nil {
		t.Error("a histogram was found")
	}
	if _, err := scraped(t, "").gauge("g"); err == nil {
		t.Error("a gauge was found")
	}
}

func TestVisibilityWantsAGaugeAResultAndADryRun(t *testing.T) {
	const (
		gauge   = "# TYPE x_pending_evictions gauge\nx_pending_evictions 2\n"
		idle    = "# TYPE x_pending_evictions gauge\nx_pending_evictions 0\n"
		results = "# TYPE x_evictions_total counter\nx_evictions_total{result=\"gone\"} 0\n"
		plain   = "# TYPE x_evictions_total counter\nx_evictions_total{zone=\"a\"} 0\n"
		flags   = "Flags:\n      --dry-run   observe only\n"
	)
	check(t, judgeVisibility(scraped(t, gauge+results), flags), right("a gauge of pending evictions; a metric with the result; a dry run"))
	check(t, judgeVisibility(scraped(t, idle+results), flags), wrong("no gauge of pending evictions; a metric with the result; a dry run"))
	check(t, judgeVisibility(scraped(t, gauge+plain), flags), wrong("a gauge of pending evictions; no metric with the result; a dry run"))
	check(t, judgeVisibility(scraped(t, gauge+results), "Flags:\n  --other"), wrong("a gauge of pending evictions; a metric with the result; no dry run"))
}

func TestGoroutinesMayNotFollowThePods(t *testing.T) {
	const mebibyte = 1 << 20
	before := weight{goroutines: 80, bytes: 36 * mebibyte}
	check(t, judgeCrowd(before, weight{81, 37 * mebibyte}, weight{98, 41 * mebibyte}),
		right("goroutines: 80 before, 81 with the pods pending, 98 with the pods due; memory: 36 MiB, 37 MiB, 41 MiB"))
	if judgeCrowd(before, weight{81, 0}, weight{2080, 0}).Right {
		t.Error("a goroutine per pod that is due is right")
	}
	if judgeCrowd(before, weight{2080, 0}, weight{81, 0}).Right {
		t.Error("a goroutine per pod that is pending is right")
	}
}

func TestMarksAreRightWhenTheyNameThePod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2"}}
	mark := func(uid types.UID) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{UID: uid}}
	}
	check(t, judgeMarks([]corev1.Event{mark("2")}, pod), right("'Marking for deletion' with the pod's UID: 1 of 1"))
	check(t, judgeMarks([]corev1.Event{mark("")}, pod), wrong("'Marking for deletion' with the pod's UID: 0 of 1"))
	check(t, judgeMarks(nil, pod), wrong("no 'Marking for deletion' of the evicted pod"))
}

func TestSilentNodesMustBeFoundAllOnTimeAndNotEarly(t *testing.T) {
	const late = 4 * time.Second
	s := &silence{count: 2}
	for name, test := range map[string]struct {
		a, b time.Duration
		want bool
	}{
		"on time":         {21 * time.Second, 28 * time.Second, true},
		"one early":       {19 * time.Second, 21 * time.Second, false},
		"one late":        {21 * time.Second, 30 * time.Second, false},
		"one never found": {21 * time.Second, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[string]time.Duration{"a": test.a, "b": test.b}
			if test.b == 0 {
				delete(found, "b")
			}
			if got := s.judge(found, late, time.Minute); got.Right != test.want {
				t.Errorf("%v, want right: %t", got, test.want)
			}
		})
	}
}
