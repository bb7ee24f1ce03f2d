// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
)

// written is a ledger whose log has these lines.
func written(t *testing.T, lines ...any) ledger {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	var log []byte
	for _, line := range lines {
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		log = append(append(log, text...), '\n')
	}
	if err := os.WriteFile(path, log, 0o600); err != nil {
		t.Fatal(err)
	}
	return ledger{auditlog.New(path)}
}

// line is one of the audit log, about a call that took a tenth of a second.
func line(verb, resource, subresource string, code int, received float64) map[string]any {
	return map[string]any{
		"verb":                     verb,
		"objectRef":                map[string]any{"resource": resource, "subresource": subresource},
		"responseStatus":           map[string]any{"code": code},
		"requestReceivedTimestamp": after(received),
		"stageTimestamp":           after(received + 0.1),
	}
}

func binding(uid types.UID, code int, received float64) map[string]any {
	l := line("create", "pods", "binding", code, received)
	l["requestObject"] = map[string]any{"metadata": map[string]any{"uid": uid}}
	return l
}

func deletion(uid types.UID, code int, received float64) map[string]any {
	l := line("delete", "pods", "", code, received)
	l["requestObject"] = map[string]any{"preconditions": map[string]any{"uid": uid}}
	return l
}

func patched(node corev1.Node, received float64) map[string]any {
	l := line("patch", "nodes", "", 200, received)
	l["responseObject"] = node
	return l
}

func TestAPodIsBoundFromTheCallOnAndHasLeftWithTheAnswer(t *testing.T) {
	log := written(t,
		binding("a", 409, 0.5), binding("a", 201, 1), deletion("a", 409, 2), deletion("a", 200, 3), deletion("a", 200, 4),
		binding("b", 201, 1), deletion("", 200, 2),
	)
	var seen []sighting
	for _, uid := range []types.UID{"a", "b", "c"} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: west1}}
		pod.UID = uid
		seen = append(seen, sighting{}.see(pod, after(1.2)).gone(pod, after(3.2)))
	}
	seen, err := log.correct(seen)
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]time.Time
	for _, s := range seen {
		got = append(got, [2]time.Time{s.bound, s.left})
	}
	want := [][2]time.Time{{after(1), after(3.1)}, {after(1), after(3.2)}, {after(1.2), after(3.2)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChangesOfNodesAreReadOnceAndFromAnInstantOn(t *testing.T) {
	log := written(t,
		patched(seenNode(west1, corev1.ConditionTrue), -1), binding("a", 201, 1),
		patched(seenNode(north1, corev1.ConditionTrue), 2), line("get", "nodes", "", 200, 2.5), patched(seenNode(north2, corev1.ConditionTrue, sentAway), 3),
	)
	all, err := log.changes(start, 0)
	if err != nil || len(all) != 2 || all[0].node.Name != north1 {
		t.Fatalf("changes %v: %v", all, err)
	}
	rest, err := log.changes(start, 1)
	if err != nil || len(rest) != 1 {
		t.Fatalf("changes %v: %v", rest, err)
	}
	got, want := rest[0], between{after: after(3), before: after(3.1)}
	if got.node.Name != north2 || len(got.node.Spec.Taints) != 1 || !got.at.after.Equal(want.after) || !got.at.before.Equal(want.before) {
		t.Errorf("node %s with taints %v at %v, want %v", got.node.Name, got.node.Spec.Taints, got.at, want)
	}
}
