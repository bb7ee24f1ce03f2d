// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheReportOfShadowModeIsReadBackUntilItIsOld(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC).Local()
	report := &ShadowReport{
		Since: metav1.NewTime(noon.Add(-time.Hour)), Time: metav1.NewTime(noon), Pods: map[ShadowOutcome]int{ShadowLate: 2},
		Differences: []ShadowDifference{
			{Outcome: ShadowLate, Namespace: "a", Pod: "b", Node: "n", Time: metav1.NewTime(noon), Seconds: new(41.0), Sentence: "evicted 41 s late: why"},
			{Outcome: ShadowLate, Namespace: "a", Pod: "c", Node: "n", Time: metav1.NewTime(noon), Sentence: "evicted late"},
		},
	}
	data, err := report.Data()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseShadowReport(&corev1.ConfigMap{Data: data})
	if diff := cmp.Diff(report, got); err != nil || diff != "" {
		t.Errorf("%v; want -, got +:\n%s", err, diff)
	}
	if got.IsOld(noon.Add(5*time.Minute)) || !got.IsOld(noon.Add(6*time.Minute)) {
		t.Error("it is old after five minutes")
	}
	const first = "2026-03-01T12:00:00Z  a/b on n\n    evicted 41 s late: why"
	if text := strings.Join(got.Lines(1), "\n"); !strings.Contains(text, "     2  evicted after they were due\n") || !strings.HasSuffix(text, first) {
		t.Errorf("its first lines are\n%s", text)
	}
	for _, other := range []string{"", "{}", "no JSON"} {
		if _, err := ParseShadowReport(&corev1.ConfigMap{Data: map[string]string{ShadowReportKey: other}}); err == nil {
			t.Errorf("%q is read as a report", other)
		}
	}
}
