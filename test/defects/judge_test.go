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
)

func check(t *testing.T, got finding, want finding) {
	t.Helper()
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestADepartureIsRightWhenItIsOnTime(t *testing.T) {
	const due, watched = 20 * time.Second, time.Minute
	tests := map[string]struct {
		departure departure
		want      finding
	}{
		"at the deadline":              {departure{due: due, left: true, after: due}, finding{"left after 20.0 s", true}},
		"as late as a busy machine is": {departure{due: due, left: true, after: due + patience}, finding{"left after 24.0 s", true}},
		"later than that":              {departure{due: due, left: true, after: 34100 * time.Millisecond}, finding{"left after 34.1 s, 14.1 s late", false}},
		"before what was promised":     {departure{due: due, left: true, after: 5 * time.Second}, finding{"left after 5.0 s, 15.0 s early", false}},
		"by a moment too early":        {departure{due: due, left: true, after: due - time.Millisecond}, finding{"left after 20.0 s, 1 ms early", false}},
		"not at all":                   {departure{due: due, watched: watched}, finding{"still there after 60.0 s", false}},
		"due at once, at once":         {departure{left: true, after: 34 * time.Millisecond}, finding{"left after 34 ms", true}},
		"never due, and it stays":      {departure{due: never, watched: watched}, finding{"still there after 60.0 s", true}},
		"never due, and it leaves":     {departure{due: never, left: true, after: 300 * time.Millisecond}, finding{"left after 300 ms", false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { check(t, test.departure.finding(), test.want) })
	}
}

func TestOneThingThatIsWrongMakesAFindingWrong(t *testing.T) {
	check(t, finding{right: true}.and("a", true).and("b", true), finding{"a; b", true})
	check(t, finding{right: true}.and("a", false).and("b", true), finding{"a; b", false})
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// deletesAt returns accepted deletes so long after began.
func deletesAt(after ...time.Duration) []call {
	var calls []call
	for _, d := range after {
		calls = append(calls, call{Verb: "delete", Resource: "pods", Code: 200, Answered: began.Add(d)})
	}
	return calls
}

func TestDeletesAfterAnUntaintAreWrongUnlessTheyWereUnderWay(t *testing.T) {
	untainted := began.Add(2 * time.Second)
	check(t, judgeUntaint(nil, untainted), finding{"0 of 200 deleted before the untaint, 0 after it", true})
	check(t, judgeUntaint(deletesAt(time.Second, 2500*time.Millisecond), untainted), finding{"1 of 200 deleted before the untaint, 1 after it", true})
	check(t, judgeUntaint(deletesAt(time.Second, 9*time.Second), untainted), finding{"1 of 200 deleted before the untaint, 1 after it", false})
}

func TestAStormIsRightWhenThePodsLeaveFromTheStartWithTwoCallsEach(t *testing.T) {
	storm := func(first time.Duration, otherCalls int) []call {
		var calls []call
		for range otherCalls {
			calls = append(calls, call{Verb: "patch", Resource: "pods/status"}, call{Verb: "create", Resource: "events"})
		}
		calls = append(calls, deletesAt(first)...)
		for range stormPods - 1 {
			calls = append(calls, deletesAt(15*time.Second)...)
		}
		return calls
	}
	tests := map[string]struct {
		calls []call
		want  finding
	}{
		"it is":                  {storm(40*time.Millisecond, stormPods), finding{"150 of 150 deleted, the first after 40 ms, the last after 15.0 s; 2.0 calls per pod", true}},
		"the first leaves late":  {storm(10*time.Second, stormPods), finding{"150 of 150 deleted, the first after 10.0 s, the last after 15.0 s; 2.0 calls per pod", false}},
		"the pods are read":      {storm(time.Second, 2*stormPods), finding{"150 of 150 deleted, the first after 1.0 s, the last after 15.0 s; 3.0 calls per pod", false}},
		"not all pods leave":     {deletesAt(time.Second), finding{"1 of 150 deleted, the first after 1.0 s, the last after 1.0 s; 1.0 calls per pod", false}},
		"no pod leaves":          {nil, finding{"nothing deleted", false}},
		"a refused delete is no": {[]call{{Verb: "delete", Resource: "pods", Code: 409}}, finding{"nothing deleted", false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { check(t, judgeStorm(test.calls, began), test.want) })
	}
}

func TestEventsAreRightWhenTheyNameThePodAndNoneCancelsWhatIsGone(t *testing.T) {
	removed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "removed", UID: "1"}}
	evicted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "evicted", UID: "2"}}
	event := func(name string, uid types.UID, message string) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Name: name, UID: uid}, Message: message}
	}
	tests := map[string]struct {
		events []corev1.Event
		want   finding
	}{
		"they are": {
			[]corev1.Event{event("evicted", "2", "Marking for deletion Pod a/evicted")},
			finding{"'Cancelling deletion' of the pod that somebody else deleted: never; 'Marking for deletion' with the pod's UID: 1 of 1", true},
		},
		"no UID": {
			[]corev1.Event{event("evicted", "", "Marking for deletion Pod a/evicted")},
			finding{"'Cancelling deletion' of the pod that somebody else deleted: never; 'Marking for deletion' with the pod's UID: 0 of 1", false},
		},
		"a cancel of what is gone": {
			[]corev1.Event{event("evicted", "2", "Marking for deletion Pod a/evicted"), event("removed", "1", "Cancelling deletion of Pod a/removed")},
			finding{"'Cancelling deletion' of the pod that somebody else deleted: once; 'Marking for deletion' with the pod's UID: 1 of 1", false},
		},
		"none at all": {
			nil,
			finding{"'Cancelling deletion' of the pod that somebody else deleted: never; no 'Marking for deletion' of the evicted pod", false},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { check(t, judgeEvents(test.events, removed, evicted), test.want) })
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
		want               finding
	}{
		"it is":                      {"5", "5", "0.5", finding{"0 of 5 samples above 240 s, their sum 0.5 s", true}},
		"all above the last bucket":  {"0", "5", "2.5e+18", finding{"5 of 5 samples above 240 s, their sum 2.5e+18 s", false}},
		"negative":                   {"5", "5", "-8e+18", finding{"0 of 5 samples above 240 s, their sum -8e+18 s", false}},
		"more than the buckets hold": {"5", "5", "9e+9", finding{"0 of 5 samples above 240 s, their sum 9e+09 s", false}},
		"empty":                      {"0", "0", "0", finding{"0 of 0 samples above 240 s, their sum 0 s", false}},
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
	check(t, judgeVisibility(scraped(t, gauge+results), flags), finding{"a gauge of pending evictions; a result on a metric; a dry run", true})
	check(t, judgeVisibility(scraped(t, idle+results), flags), finding{"no gauge of pending evictions; a result on a metric; a dry run", false})
	check(t, judgeVisibility(scraped(t, gauge+plain), flags), finding{"a gauge of pending evictions; no result on a metric; a dry run", false})
	check(t, judgeVisibility(scraped(t, gauge+results), "Flags:\n  --other"), finding{"a gauge of pending evictions; a result on a metric; no dry run", false})
}

func TestGoroutinesMayNotFollowThePods(t *testing.T) {
	const mebibyte = 1 << 20
	before := weight{goroutines: 80, bytes: 36 * mebibyte}
	check(t, judgeCrowd(before, weight{81, 37 * mebibyte}, weight{98, 41 * mebibyte}),
		finding{"goroutines: 80 before, 81 with the pods pending, 98 with them due; memory: 36 MiB, 37 MiB, 41 MiB", true})
	if judgeCrowd(before, weight{81, 0}, weight{2080, 0}).right {
		t.Error("a goroutine per pod that is due is right")
	}
	if judgeCrowd(before, weight{2080, 0}, weight{81, 0}).right {
		t.Error("a goroutine per pod that is pending is right")
	}
}

func TestACancelIsRightWhenThePodStays(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "spared"}}
	said := []corev1.Event{
		{InvolvedObject: corev1.ObjectReference{Name: "spared"}, Message: "Marking for deletion Pod a/spared"},
		{InvolvedObject: corev1.ObjectReference{Name: "spared"}, Message: "Cancelling deletion of Pod a/spared"},
		{InvolvedObject: corev1.ObjectReference{Name: "other"}, Message: "Cancelling deletion of Pod a/other"},
	}
	stays := departure{due: never, watched: 10 * time.Second}
	leaves := departure{due: never, left: true, after: 4 * time.Second}
	check(t, judgeCancel(stays, said, pod), finding{"still there after 10.0 s; 'Cancelling deletion' said once", true})
	check(t, judgeCancel(leaves, said, pod), finding{"left after 4.0 s; 'Cancelling deletion' said once", false})
	check(t, judgeCancel(leaves, nil, pod), finding{"left after 4.0 s; 'Cancelling deletion' said never", false})
}

func TestARivalIsNotFoughtAndDelaysNothing(t *testing.T) {
	const due = 12 * time.Second
	inTime := departure{due: due, left: true, after: due}
	check(t, judgeRival(inTime, 0), finding{"left after 12.0 s; 0 writes of the node", true})
	check(t, judgeRival(inTime, 20), finding{"left after 12.0 s; 20 writes of the node", false})
	check(t, judgeRival(departure{due: due, watched: 20 * time.Second}, 1), finding{"still there after 20.0 s; 1 write of the node", false})
}

func TestOnlyWritesOfTheNodeItselfAreCounted(t *testing.T) {
	calls := []call{
		{Verb: "patch", Resource: "nodes", Name: "n"}, {Verb: "update", Resource: "nodes", Name: "n"},
		{Verb: "get", Resource: "nodes", Name: "n"}, {Verb: "patch", Resource: "nodes/status", Name: "n"}, {Verb: "patch", Resource: "nodes", Name: "m"},
	}
	if n := nodeWrites(calls, "n"); n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
}
