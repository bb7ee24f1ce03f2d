// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	bindingLine = `{"stage":"ResponseComplete","verb":"create","user":{"username":"scheduler"},"objectRef":{"resource":"pods","namespace":"n","name":"p","subresource":"binding"},` +
		`"responseStatus":{"code":201},"requestObject":{"metadata":{"uid":"1"}},"responseObject":{"kind":"Status"},"requestReceivedTimestamp":"2026-01-01T00:00:01.000001Z","stageTimestamp":"2026-01-01T00:00:01.000002Z"}` + "\n"
	refusedLine = `{"stage":"ResponseComplete","verb":"delete","user":{"username":"us"},"objectRef":{"resource":"pods","namespace":"n","name":"p"},` +
		`"responseStatus":{"code":409},"requestObject":{"metadata":{"uid":"no"},"preconditions":{"uid":"2"}},"requestReceivedTimestamp":"2026-01-01T00:00:02Z","stageTimestamp":"2026-01-01T00:00:03Z"}` + "\n"
)

func TestAnAuditEventSaysWhoCalledForWhatAndWhatTheAnswerWas(t *testing.T) {
	got, err := Lines(bindingLine + refusedLine).Events()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	want := []Event{{
		Stage: "ResponseComplete", Verb: "create", User: "scheduler", Resource: "pods/binding", Namespace: "n", Name: "p", Code: 201,
		Received: at.Add(time.Second + time.Microsecond), Answered: at.Add(time.Second + 2*time.Microsecond),
		UID: "1", Response: json.RawMessage(`{"kind":"Status"}`),
	}, {
		Stage: "ResponseComplete", Verb: "delete", User: "us", Resource: "pods", Namespace: "n", Name: "p", Code: 409,
		Received: at.Add(2 * time.Second), Answered: at.Add(3 * time.Second), UID: "2",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !got[0].Accepted() || got[1].Accepted() {
		t.Error("201 is accepted, 409 is not")
	}
}

func TestAnAuditEventSaysWhichConditionWasSet(t *testing.T) {
	const line = `{"verb":"patch","objectRef":{"resource":"pods","subresource":"status"},` +
		`"requestObject":{"metadata":{"uid":"3"},"status":{"conditions":[{"type":"Ready","status":"False"}]}}}` + "\n"
	got, err := Lines(line).Events()
	if err != nil || len(got) != 1 || got[0].Condition != "Ready" || got[0].UID != "3" {
		t.Errorf("got %+v, %v; want a patch of the condition Ready of UID 3", got, err)
	}
}

func TestAnAuditLogThatGrowsIsReadOnByWholeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, position := New(path), int64(0)
	if _, err := log.Events(); err == nil {
		t.Error("there is no log yet")
	}
	for _, step := range []struct {
		name, log, lines string
		all, refused     int
	}{
		{"a log without a line", "", "", 0, 0},
		{"half of the first line", bindingLine[:40], "", 0, 0},
		{"one line and half of the next", bindingLine + refusedLine[:40], bindingLine, 1, 0},
		{"the rest of it", bindingLine + refusedLine, refusedLine, 2, 1},
		{"nothing since", bindingLine + refusedLine, "", 2, 1},
	} {
		if err := os.WriteFile(path, []byte(step.log), 0o600); err != nil {
			t.Fatal(err)
		}
		lines, err := Read(path, position)
		if err != nil || string(lines) != step.lines {
			t.Errorf("%s: %q, %v; want %q", step.name, lines, err, step.lines)
		}
		position += int64(len(lines))
		if all, err := log.Events(); err != nil || len(all) != step.all {
			t.Errorf("%s: %v, %v; want %d", step.name, all, err, step.all)
		}
		if got := log.All(t, Refused); len(got) != step.refused {
			t.Errorf("%s: %v; want %d that were refused", step.name, got, step.refused)
		}
	}
	if _, err := Lines(bindingLine + "what?\n").Events(); err == nil || !strings.Contains(err.Error(), "what?") {
		t.Errorf("%v, want an error that shows the line", err)
	}
}
