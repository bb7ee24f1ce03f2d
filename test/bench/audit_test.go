// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

const (
	taintLine  = `{"kind":"Event","verb":"patch","user":{"username":"admin"},"objectRef":{"resource":"nodes","name":"node-000"},"responseStatus":{"code":200},"stageTimestamp":"2026-11-21T01:00:00.000000Z"}` + "\n"
	secondLine = `{"kind":"Event","verb":"patch","user":{"username":"admin"},"objectRef":{"resource":"nodes","name":"node-001"},"responseStatus":{"code":200},"stageTimestamp":"2026-11-21T01:00:00.100000Z"}` + "\n"
	patchLine  = `{"kind":"Event","verb":"patch","user":{"username":"system:serviceaccount:kube-system:x"},"objectRef":{"resource":"pods","subresource":"status","name":"a"},"responseStatus":{"code":200},"stageTimestamp":"2026-11-21T01:00:00.250000Z"}` + "\n"
	failedLine = `{"kind":"Event","verb":"delete","user":{"username":"system:serviceaccount:kube-system:x"},"objectRef":{"resource":"pods","name":"a"},"responseStatus":{"code":500},"stageTimestamp":"2026-11-21T01:00:00.300000Z"}` + "\n"
	deleteLine = `{"kind":"Event","verb":"delete","user":{"username":"system:serviceaccount:kube-system:x"},"objectRef":{"resource":"pods","name":"a"},"responseStatus":{"code":200},"stageTimestamp":"2026-11-21T01:00:00.500000Z"}` + "\n"
	againLine  = `{"kind":"Event","verb":"delete","user":{"username":"system:serviceaccount:kube-system:x"},"objectRef":{"resource":"pods","name":"a"},"responseStatus":{"code":200},"stageTimestamp":"2026-11-21T01:00:09.000000Z"}` + "\n"
	watchLine  = `{"kind":"Event","verb":"watch","user":{"username":"system:serviceaccount:kube-system:x"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200},"stageTimestamp":"2026-11-21T01:00:00.500000Z"}` + "\n"
	eventLine  = `{"kind":"Event","verb":"create","user":{"username":"system:serviceaccount:kube-system:x"},"objectRef":{"resource":"events","name":"e"},"responseStatus":{"code":201},"stageTimestamp":"2026-11-21T01:00:00.600000Z"}` + "\n"
)

func TestStormIsReadFromTheAuditLog(t *testing.T) {
	calls := parsed(t, taintLine, secondLine, patchLine, failedLine, deleteLine, againLine, watchLine, eventLine)
	round := newStormRound(calls)
	want := stormRound{
		Total: 500 * time.Millisecond, First: 500 * time.Millisecond, Median: 500 * time.Millisecond, P99: 500 * time.Millisecond,
		Calls: map[string]int{"patch pods/status": 1, "delete pods": 3, "create events": 1},
	}
	if diff := cmp.Diff(want, round); diff != "" {
		t.Errorf("it counts from the first taint to the first accepted delete of each pod (-want +got):\n%s", diff)
	}
	if got, want := round.callsPerPod(), 4.0/stormPods; got != want {
		t.Errorf("%g calls per pod, want %g: events aside", got, want)
	}
}

func TestOnlyWhatFollowsTheMarkIsRead(t *testing.T) {
	log := audit{filepath.Join(t.TempDir(), "audit.log")}
	write(t, log.path, taintLine)
	mark, err := log.mark()
	if err != nil {
		t.Fatal(err)
	}
	write(t, log.path, taintLine, failedLine, deleteLine)
	calls, err := log.awaitDeletes(t.Context(), mark, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 2 || calls[0].Verb != "delete" {
		t.Errorf("calls: %+v, want the two deletes", calls)
	}
}

func parsed(t *testing.T, lines ...string) []call {
	t.Helper()
	calls, err := auditlog.Lines(strings.Join(lines, "")).Events()
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}
