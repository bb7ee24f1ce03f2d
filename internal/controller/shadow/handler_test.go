// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

// ask requests the report from a handler.
func ask(t *testing.T, handler http.Handler, method, url, accept string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func TestTheReportIsJSONOnRequestAndAPageForPeople(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	play(t, func(w *world) {
		w.run()
		for _, test := range []struct{ url, accept, want string }{
			{"/shadow", "", "text/html; charset=utf-8"},
			{"/shadow", browser, "text/html; charset=utf-8"},
			{"/shadow", "application/json", "application/json"},
			{"/shadow?format=json", browser, "application/json"},
			{"/shadow?format=html", "application/json", "text/html; charset=utf-8"},
		} {
			answer := ask(t, w.comparison.Handler(), http.MethodGet, test.url, test.accept)
			if got := answer.Header().Get("Content-Type"); answer.Code != http.StatusOK || got != test.want {
				t.Errorf("%s with Accept %q: %d %s, want %s", test.url, test.accept, answer.Code, got, test.want)
			}
		}
		if answer := ask(t, w.comparison.Handler(), http.MethodPost, "/shadow", ""); answer.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST is answered %d", answer.Code)
		}
	})
}

func TestTheReportSaysWhatHappenedInBothForms(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("p", 20)
		w.run()
		w.Until(10 * sec)
		if early := ask(t, w.comparison.Handler(), http.MethodGet, "/shadow?format=json", "").Body.String(); !strings.Contains(early, `"differences": []`) {
			t.Errorf("without a difference the list is not empty:\n%s", early)
		}
		w.taint("k:NoExecute")
		w.Until(71 * sec)
		w.evict("p")
		w.Until(80 * sec)

		report := reportOf(t, w.comparison)
		if report.Kind != "ShadowReport" || report.APIVersion != "taintkeeper.dev/v1alpha1" || report.Since == nil {
			t.Errorf("it is a %s of %s since %v", report.Kind, report.APIVersion, report.Since)
		}
		if len(report.Differences) != 1 || report.Differences[0].Seconds == nil || *report.Differences[0].Seconds != 41 {
			t.Fatalf("differences %+v, want one of 41 s", report.Differences)
		}
		const sentence = "evicted 41 s late: the built-in restarted its countdown of 20 s at 00:00:51, probably because the process restarted; it should have begun at 00:00:10"
		if got := report.Differences[0].Sentence; got != sentence {
			t.Errorf("it says %q, want %q", got, sentence)
		}
		page := ask(t, w.comparison.Handler(), http.MethodGet, "/shadow", "").Body.String()
		if !strings.Contains(page, sentence) || !strings.Contains(page, "default/p") || strings.Contains(page, "<script") {
			t.Errorf("the page does not show the difference, or not without a script:\n%s", page)
		}
		checkMarkup(t, page)
	})
}

func reportOf(t *testing.T, comparison *Comparison) Report {
	t.Helper()
	var report Report
	answer := ask(t, comparison.Handler(), http.MethodGet, "/shadow?format=json", "")
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// checkMarkup checks that every element is closed.
func checkMarkup(t *testing.T, page string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(page))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, []string{"meta", "link"}, xml.HTMLEntity
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the page cannot be read: %v", err)
		}
	}
}

func TestWhatAPodIsCalledCannotBecomePartOfThePage(t *testing.T) {
	var page strings.Builder
	err := writePage(&page, Report{Differences: []Difference{{Pod: "<script>alert(1)</script>", Outcome: Late}}})
	if err != nil || strings.Contains(page.String(), "<script") {
		t.Errorf("%v\n%s", err, page.String())
	}
}

func TestTheReportKeepsTheLastThousandDifferencesOnePerPod(t *testing.T) {
	r := newReport()
	for i := range 1500 {
		r.add(Difference{UID: types.UID(fmt.Sprint(i)), Outcome: Never})
	}
	r.add(Difference{UID: "700", Outcome: Late})
	var report Report
	r.fill(&report)
	if got := len(report.Differences); got != mostDifferences {
		t.Errorf("%d differences are kept", got)
	}
	newest, oldest := report.Differences[0], report.Differences[len(report.Differences)-1]
	if newest.UID != "700" || newest.Outcome != Late || oldest.UID != "500" {
		t.Errorf("from %+v to %+v", newest, oldest)
	}
}

func TestTheMetricsAreWellFormed(t *testing.T) {
	play(t, func(w *world) {
		w.addNode()
		w.addPod("p", 0)
		w.addPod("q", 3600)
		w.run()
		w.Until(10 * sec)
		w.taint("k:NoExecute")
		w.Until(20 * sec)
		if problems, err := testutil.GatherAndLint(w.Registry); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
		const gauges = `
# HELP taintkeeper_shadow_overdue_pods Pods that must leave their node because of its taints and that the built-in has not evicted yet.
# TYPE taintkeeper_shadow_overdue_pods gauge
taintkeeper_shadow_overdue_pods 1
# HELP taintkeeper_shadow_pending_pods Pods that must leave later because of taints.
# TYPE taintkeeper_shadow_pending_pods gauge
taintkeeper_shadow_pending_pods 1
`
		if err := testutil.GatherAndCompare(w.Registry, strings.NewReader(gauges), "taintkeeper_shadow_overdue_pods", "taintkeeper_shadow_pending_pods"); err != nil {
			t.Error(err)
		}
		w.evict("p")
		w.Until(time.Minute)
		if got := testutil.CollectAndCount(w.comparison.promises.report.metrics.difference); got != 1 {
			t.Errorf("%d histograms", got)
		}
	})
}
