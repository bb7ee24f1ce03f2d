// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

func aPod(version string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: thePod, ResourceVersion: version, CreationTimestamp: metav1.NewTime(sec(0))},
	}
	change(pod)
	return pod
}

func bound(pod *corev1.Pod) { pod.Spec.NodeName = theNode }

func terminates(pod *corev1.Pod) {
	bound(pod)
	pod.DeletionTimestamp = &metav1.Time{Time: sec(20)}
}

// newTestObserver returns an observer for which it is always 90 s after the beginning.
func newTestObserver() *observer {
	o := newObserver(nil, newLedger())
	o.now = func() time.Time { return sec(90) }
	return o
}

// auditLine is a line of the audit log about the pod.
func auditLine(verb, subresource, user string, code int, from, to float64, request, response string) string {
	const form = `{"verb":%q,"user":{"username":%q},"objectRef":{"resource":"pods","subresource":%q,"namespace":"default","name":"pod"},` +
		`"responseStatus":{"code":%d},"requestObject":%s,"responseObject":%s,"requestReceivedTimestamp":%q,"stageTimestamp":%q}` + "\n"
	return fmt.Sprintf(form, verb, user, subresource, code, request, response, sec(from).Format(time.RFC3339Nano), sec(to).Format(time.RFC3339Nano))
}

func podJSON(version, spec, metadata string) string {
	return fmt.Sprintf(`{"kind":"Pod","metadata":{"namespace":"default","name":"pod","uid":%q,"resourceVersion":%q,"creationTimestamp":%q%s},"spec":{%s}}`,
		thePod, version, sec(0).Format(time.RFC3339), metadata, spec)
}

func historyOf(t *testing.T, o *observer, lines ...string) *history {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(joined(lines)), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := o.readAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	return o.history(known, sec(100), sec(100))
}

func joined(lines []string) string {
	all := ""
	for _, line := range lines {
		all += line
	}
	return all + `{"half": "a li` // the last line is being written
}

func TestTheAuditLogSaysWhoWroteWhatAndWhen(t *testing.T) {
	o := newTestObserver()
	o.notePod(watch.Added, aPod("5", func(*corev1.Pod) {}))
	o.notePod(watch.Modified, aPod("6", bound))
	h := historyOf(t, o,
		auditLine("create", "", "admin", 201, 1, 1.1, "{}", podJSON("5", "", "")),
		auditLine("create", "binding", "scheduler", 201, 2, 2.1, fmt.Sprintf(`{"metadata":{"uid":%q}}`, thePod), `{}`),
		auditLine("update", "", "admin", 200, 3, 3.1, "{}", podJSON("8", `"nodeName":"node","tolerations":[{"operator":"Exists"}]`, "")),
		auditLine("update", "", "admin", 409, 4, 4.1, "{}", `{"kind":"Status"}`),
		auditLine("delete", "", "admin", 404, 5, 5.1, "{}", `{"kind":"Status"}`),
	)
	states := h.pods[thePod].states
	if len(states) != 3 {
		t.Fatalf("%v, want three states", states)
	}
	for i, want := range []struct {
		number uint64
		writer string
		from   span
	}{{5, "admin", oracle.Between(sec(1), sec(1.1))}, {6, "scheduler", oracle.Between(sec(2), sec(2.1))}, {8, "admin", oracle.Between(sec(3), sec(3.1))}} {
		got := states[i]
		if got.number != want.number || got.writer != want.writer || got.from != want.from {
			t.Errorf("state %d is version %d by %s of %s, want %v", i, got.number, got.writer, clock(got.from), want)
		}
	}
	if want := (oracle.Between(sec(1), sec(1))); states[1].bound != want {
		t.Errorf("bound %s, want %s: the second of its creation, at its end", clock(states[1].bound), clock(want))
	}
	if len(states[2].tolerations) != 1 {
		t.Errorf("tolerations %v, want the one that only the audit log has", states[2].tolerations)
	}
}

func TestWhichClientEndedAPod(t *testing.T) {
	tests := map[string]struct {
		watched func(*observer)
		lines   []string
		keeper  bool
		left    bool
	}{
		"nobody": {watched: func(*observer) {}},
		"a replica, at once": {
			watched: func(o *observer) {
				o.notePod(watch.Modified, aPod("7", terminates))
				o.notePod(watch.Deleted, aPod("8", terminates))
			},
			lines: []string{
				auditLine("delete", "", keeperUser, 200, 20, 20.1, "{}", podJSON("7", `"nodeName":"node"`, `,"deletionGracePeriodSeconds":0`)),
				auditLine("delete", "", "kwok", 200, 20.2, 20.3, "{}", podJSON("7", `"nodeName":"node"`, `,"deletionGracePeriodSeconds":0`)),
			},
			keeper: true, left: true,
		},
		"another one, after a grace period": {
			watched: func(o *observer) { o.notePod(watch.Modified, aPod("7", terminates)) },
			lines: []string{
				auditLine("delete", "", "admin", 200, 20, 20.1, "{}", podJSON("7", `"nodeName":"node"`, `,"deletionGracePeriodSeconds":30,"deletionTimestamp":"2026-11-21T12:00:50Z"`)),
				auditLine("delete", "", keeperUser, 200, 21, 21.1, "{}", podJSON("7", `"nodeName":"node"`, `,"deletionGracePeriodSeconds":30,"deletionTimestamp":"2026-11-21T12:00:50Z"`)),
			},
			left: true,
		},
		"a replica, and the watch missed it": {
			watched: func(o *observer) { o.listed(nil) },
			lines: []string{
				auditLine("delete", "", keeperUser, 200, 20, 20.1, "{}", podJSON("7", `"nodeName":"node"`, `,"deletionGracePeriodSeconds":0`)),
			},
			keeper: true, left: true,
		},
		"somebody whom the audit log does not know": {watched: func(o *observer) { o.listed(nil) }, left: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := newTestObserver()
			o.notePod(watch.Added, aPod("5", bound))
			test.watched(o)
			pod := historyOf(t, o, test.lines...).pods[thePod]
			state, left := pod.left()
			if left != test.left || pod.byKeeper() != test.keeper {
				t.Fatalf("left %t by %q, want %t, by a replica %t", left, state.writer, test.left, test.keeper)
			}
			if state.writer != "" && state.from != (oracle.Between(sec(20), sec(20.1))) {
				t.Errorf("it ended at %s, want when the first DELETE was carried out", clock(state.from))
			}
		})
	}
}

func TestAWriteThatTheAuditLogDoesNotHaveLiesBetweenTheVersionBeforeAndItsSight(t *testing.T) {
	o := newTestObserver()
	known := o.node(theNode)
	known.at(3).facts, known.at(3).written, known.at(3).writer = nil, oracle.Between(sec(1), sec(1.1)), "admin"
	known.at(5).facts, known.at(5).seen = []corev1.Taint{noExecute("off")}, sec(9)
	states := o.history(audited{}, sec(100), sec(100)).nodes[theNode]
	if len(states) != 2 || states[1].from != (oracle.Between(sec(1), sec(9))) {
		t.Fatalf("%+v, want the taint to have come between 1 s and 9 s", states)
	}
	if due, leaves := (podState{bound: oracle.At(sec(0))}).due(states[1].taints); !leaves || due != (oracle.Between(sec(1), sec(9))) {
		t.Errorf("due %s", clock(due))
	}
}

// Of two concurrent DELETEs, the second finds the pod terminating, and is answered with the version from which it
// began.
func TestTheAnswerToASecondDeleteDoesNotMakeAnEarlierVersionTerminate(t *testing.T) {
	o := newTestObserver()
	const ending = `,"deletionTimestamp":"2026-03-01T00:00:20Z","deletionGracePeriodSeconds":30`
	h := historyOf(t, o,
		auditLine("create", "", "admin", 201, 1, 1.1, "{}", podJSON("5", `"nodeName":"node"`, "")),
		auditLine("delete", "", "admin", 200, 20, 20.2, "{}", podJSON("6", `"nodeName":"node"`, ending)),
		auditLine("delete", "", keeperUser, 200, 20.1, 20.3, "{}", podJSON("5", `"nodeName":"node"`, ending)),
	)
	states := h.pods[thePod].states
	if len(states) != 2 || states[0].terminating || !states[1].terminating || states[1].number != 6 {
		t.Errorf("%v, want version 5 to be there, and version 6 to terminate", states)
	}
}
