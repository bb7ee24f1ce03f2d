// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
)

// The report of shadow mode.
const (
	// ShadowConfigMap is the name of the ConfigMap with the report, in the namespace of Taintkeeper.
	ShadowConfigMap = "taintkeeper-shadow"
	// ShadowReportKey is the key of the report, which is a [ShadowReport] in JSON.
	ShadowReportKey = "report.json"
	// shadowSummaryKey is the key of the same as text for people, with the newest differences.
	shadowSummaryKey = "summary"
	// ShadowReportEvery is how often the report is written if nothing changes.
	ShadowReportEvery = time.Minute
	// shadowReportOld is the age at which a report is no longer written.
	shadowReportOld = 5 * ShadowReportEvery

	shadowReportKind = "ShadowReport"
)

// ShadowReport is what shadow mode has found since it began. Its JSON is documented in docs/plugin.md.
//
// +kubebuilder:object:generate=false
type ShadowReport struct {
	metav1.TypeMeta `json:",inline"`

	// Since is when the comparison began. Nothing before that is judged.
	Since metav1.Time `json:"since,omitzero"`
	// Time is when the report was made.
	Time metav1.Time `json:"time"`
	// Pods counts the pods that were judged, by outcome.
	Pods map[ShadowOutcome]int `json:"pods"`
	// Overdue is how many pods are due and still exist.
	Overdue int `json:"overdue"`
	// Pending is how many pods must leave later.
	Pending int `json:"pending"`
	// Differences are the newest, newest first.
	Differences []ShadowDifference `json:"differences"`
}

// ShadowDifference is a pod with which the built-in did something other than what the rule says.
//
// +kubebuilder:object:generate=false
type ShadowDifference struct {
	Outcome   ShadowOutcome `json:"outcome"`
	Namespace string        `json:"namespace"`
	Pod       string        `json:"pod"`
	UID       types.UID     `json:"uid"`
	Node      string        `json:"node"`
	// Time is when the difference was found, or when the report about the pod was last corrected.
	Time metav1.Time `json:"time"`
	// Due is when the pod had to leave, if it had to.
	Due *metav1.MicroTime `json:"due,omitempty"`
	// Evicted is when the built-in deleted it, if it has.
	Evicted *metav1.MicroTime `json:"evicted,omitempty"`
	// Seconds is how long after Due the eviction was; negative if it was before.
	Seconds *float64 `json:"seconds,omitempty"`
	// Sentence says what happened and why.
	Sentence string `json:"sentence"`
}

// Data returns the data of the ConfigMap with the report.
func (r *ShadowReport) Data() (map[string]string, error) {
	const newest = 10
	r.TypeMeta = metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: shadowReportKind}
	text, err := json.MarshalIndent(r, "", "  ")
	return map[string]string{ShadowReportKey: string(text), shadowSummaryKey: strings.Join(r.Lines(newest), "\n")}, err
}

// Lines returns the report as text for people, with the newest differences, at most so many.
func (r *ShadowReport) Lines(most int) []string {
	lines := []string{"For " + duration.HumanDuration(r.Time.Sub(r.Since.Time)) +
		", shadow mode has compared the built-in controller's evictions with what taints and tolerations require.", ""}
	count := func(pods int, meaning string) { lines = append(lines, fmt.Sprintf("%6d  %s", pods, meaning)) }
	for _, known := range ShadowOutcomes {
		count(r.Pods[known.Outcome], known.Meaning)
	}
	count(r.Overdue, "due and still there")
	count(r.Pending, "due later")
	if len(r.Differences) > 0 {
		lines = append(lines, "", "Differences, newest first:")
	}
	for _, d := range r.Differences[:min(len(r.Differences), most)] {
		at := d.Time.UTC().Format(time.RFC3339)
		lines = append(lines, fmt.Sprintf("%s  %s/%s on %s", at, d.Namespace, d.Pod, d.Node), "    "+d.Sentence)
	}
	return lines
}

// ParseShadowReport returns the report in a ConfigMap.
func ParseShadowReport(from *corev1.ConfigMap) (*ShadowReport, error) {
	report := &ShadowReport{}
	err := json.Unmarshal([]byte(from.Data[ShadowReportKey]), report)
	if err == nil && report.Kind != shadowReportKind {
		err = fmt.Errorf("its kind is %q", report.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s has no report of shadow mode: %w", from.Namespace, from.Name, err)
	}
	return report, nil
}

// IsOld reports whether nothing writes the report any more.
func (r *ShadowReport) IsOld(now time.Time) bool { return now.Sub(r.Time.Time) > shadowReportOld }

// ShadowOutcome is what happened to a pod that had to leave, or that the built-in evicted.
type ShadowOutcome string

// Outcomes. ShadowOutcomes has their meanings.
const (
	ShadowOnTime ShadowOutcome = "on_time"
	ShadowEarly  ShadowOutcome = "early"
	ShadowLate   ShadowOutcome = "late"
	// ShadowNever is a pod that is still there long after it was due, or that was overdue and then ended in another way or
	// no longer had to leave.
	ShadowNever  ShadowOutcome = "never"
	ShadowStayed ShadowOutcome = "should_have_stayed"
	// ShadowTwice is a pod that was evicted again: it was already terminating, or its predecessor of the same name had to
	// leave.
	ShadowTwice ShadowOutcome = "twice"
	// ShadowUnjudged is an eviction for which it is not known whether it was on time.
	ShadowUnjudged ShadowOutcome = "unjudged"
)

// ShadowOutcomes are all outcomes, with their meanings for people. An outcome that is a difference from the rule has
// the reason of an event.
var ShadowOutcomes = []struct {
	Outcome     ShadowOutcome
	EventReason string
	Meaning     string
}{
	{ShadowOnTime, "", "evicted within 2 s of their due time"},
	{ShadowEarly, EventBuiltInEarly, "evicted before they were due"},
	{ShadowLate, EventBuiltInLate, "evicted after they were due"},
	{ShadowNever, EventBuiltInNever, "due, but not evicted"},
	{ShadowStayed, EventBuiltInUnfounded, "evicted although they could have stayed"},
	{ShadowTwice, EventBuiltInTwice, "evicted a second time"},
	{ShadowUnjudged, "", "not judged: the countdown began before shadow mode, the node is gone, or a watch was interrupted"},
}

// EventReason returns the reason of the event on the node; empty if the outcome is no difference from the rule.
func (o ShadowOutcome) EventReason() string {
	for _, known := range ShadowOutcomes {
		if known.Outcome == o {
			return known.EventReason
		}
	}
	return ""
}
