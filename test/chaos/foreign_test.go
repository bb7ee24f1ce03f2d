// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// renews makes the given instants the only ones at which the eviction clock was renewed.
func (w *world) renews(instants ...float64) {
	var writes []auditlog.Event
	for _, instant := range instants {
		writes = append(writes, auditlog.Event{
			Verb: "patch", Resource: "serviceaccounts", Name: auditlog.EvictionClockName, Code: 200, Received: sec(instant), Answered: sec(instant),
			Response: json.RawMessage(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, auditlog.EvictionClockAnnotation, sec(instant).Format(time.RFC3339))),
		})
	}
	clock, err := auditlog.EvictionClockOf(writes)
	if err != nil {
		panic(err)
	}
	w.clock = clock
}

// byBuiltIn adds a call by the built-in about the pod. The API server accepts it.
func (w *world) byBuiltIn(kind callKind, when float64) {
	w.foreign = append(w.foreign, foreignCall{span: oracle.At(sec(when)), kind: kind, uid: thePod, name: theName})
}

// leavesByBuiltIn adds a complete eviction by the built-in: it marks the pod at 10.05 s, and its DELETE waits its turn
// for a while.
func (w *world) leavesByBuiltIn(deleted float64) {
	w.byBuiltIn(patchPod, 10.05)
	w.byBuiltIn(deletePod, deleted)
	w.gone(deleted, auditlog.BuiltInAsServiceAccount)
}

// isDeletedByBuiltIn adds a DELETE by the built-in that no mark of its own precedes.
func (w *world) isDeletedByBuiltIn(when float64) {
	w.byBuiltIn(deletePod, when)
	w.gone(when, auditlog.BuiltInAsServiceAccount)
}

func TestWhatTheBuiltInMayEvict(t *testing.T) {
	for name, test := range map[string]struct {
		history func(*world)
		want    []charge
	}{
		"a pod, when the eviction clock is stale": {
			history: func(w *world) { w.renews(-25); w.leavesByBuiltIn(10.06) },
		},
		"no pod while it is fresh: neither a mark nor a DELETE": {
			history: func(w *world) { w.renews(-70, -45, -20, 5); w.leavesByBuiltIn(10.06) },
			want:    []charge{foreign, foreign},
		},
		"a pod that it marked just before the eviction clock was renewed": {
			history: func(w *world) { w.renews(10.1); w.leavesByBuiltIn(14) },
		},
		"no pod that it did not mark, when the eviction clock had been fresh for long": {
			history: func(w *world) {
				w.renews(-70, -45, -20, 5)
				w.byBuiltIn(deletePod, 10.05)
				w.gone(10.06, auditlog.BuiltInAsItself)
			},
			want: []charge{foreign},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			test.history(w)
			w.tainted(10, noExecute("off"))
			var got []charge
			for _, f := range w.judge() {
				got = append(got, f.charge)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("found %v, want %v", w.judge(), test.want)
			}
		})
	}
}

// spares makes the pod due at 10 s and lets it stay from 12 s on.
func (w *world) spares() {
	w.tainted(10, noExecute("off"))
	w.tainted(12)
}

func TestWhatTheBuiltInMayDeleteOfItsBacklog(t *testing.T) {
	for name, test := range map[string]struct {
		history func(*world)
		wrong   int
	}{
		"no pod that stays, once a replica has recorded that it was due": {
			history: func(w *world) {
				w.spares()
				w.calls(clockCall, 14)
				w.isDeletedByBuiltIn(70)
			},
			wrong: 1,
		},
		"a pod that stays since the last record": {
			history: func(w *world) {
				w.spares()
				w.calls(clockCall, 11)
				w.isDeletedByBuiltIn(70)
			},
		},
		"a pod that stays, if the replica that recorded it has not seen that it was due": {
			history: func(w *world) {
				w.spares()
				w.reignsFrom(13)
				w.calls(clockCall, 15)
				w.isDeletedByBuiltIn(70)
			},
		},
		"a pod that it marked while it was due": {
			history: func(w *world) {
				w.spares()
				w.calls(clockCall, 14)
				w.byBuiltIn(patchPod, 11)
				w.isDeletedByBuiltIn(30)
			},
		},
		"no pod whose name no due pod ever had": {
			history: func(w *world) { w.isDeletedByBuiltIn(70) },
			wrong:   1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			test.history(w)
			if found := w.judgeStays(); len(found) != test.wrong {
				t.Errorf("found %v, want %d", found, test.wrong)
			}
		})
	}
}

func TestAPodThatTookTheNameOfOneThatWasDueStaysToo(t *testing.T) {
	w := newWorld()
	w.tainted(10, noExecute("off"))
	w.calls(clockCall, 11.5)
	w.gone(12, keeperUser)
	const successor = types.UID("uid-of-the-successor")
	w.pods[successor] = &pod{uid: successor, name: theName, states: []podState{
		{podFacts: podFacts{node: "another"}, from: oracle.At(sec(13)), visible: sec(13), bound: oracle.At(sec(13))},
		{podFacts: podFacts{node: "another", terminating: true}, from: oracle.At(sec(70)), visible: sec(70), writer: auditlog.BuiltInAsItself},
	}}
	w.foreign = append(w.foreign, foreignCall{span: oracle.At(sec(70)), kind: deletePod, uid: successor, name: theName})
	if found := w.judgeStays(); len(found) != 1 || found[0].uid != successor {
		t.Errorf("found %v, but the successor should have stayed", found)
	}
}

func TestWhatAReplicaWritesWhenItIsStoppedIsAHandBack(t *testing.T) {
	w := newWorld()
	w.tolerates(1, forever("off"))
	w.tainted(10, added(noExecute("off"), 10))
	w.lives[0].stopped = sec(200)
	w.taintedBy(keeperUser, 201, added(noExecute("off"), 201))
	if found := w.judge(); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

func TestTheAuditLogSaysWhatTheBuiltInDoes(t *testing.T) {
	const refused, accepted = 403, 200
	pod := podJSON("8", `"nodeName":"node"`, "")
	gone := podJSON("8", `"nodeName":"node"`, `,"deletionGracePeriodSeconds":0`)
	o := newTestObserver()
	o.notePod(watch.Added, aPod("5", bound))
	o.listed(nil)
	marked := strings.TrimSuffix(pod, "}") + `,"status":{"conditions":[{"type":"DisruptionTarget","status":"True","message":"Taint manager: deleting"}]}}`
	h := historyOf(t, o,
		auditLine("patch", "status", auditlog.BuiltInAsServiceAccount, refused, 1, 1.1, "{}", `{"kind":"Status"}`),
		auditLine("patch", "status", auditlog.BuiltInAsServiceAccount, accepted, 2, 2.1, "{}", marked),
		auditLine("patch", "status", auditlog.BuiltInAsServiceAccount, accepted, 2.5, 2.6, "{}", marked),
		auditLine("patch", "status", keeperUser, accepted, 3, 3.1, "{}", pod),
		auditLine("delete", "", auditlog.BuiltInAsItself, accepted, 4, 4.1, "{}", gone),
		auditLine("delete", "", "kwok", accepted, 5, 5.1, "{}", gone),
	)
	want := []foreignCall{
		{oracle.Between(sec(2), sec(2.1)), patchPod, thePod, theName},
		{oracle.Between(sec(4), sec(4.1)), deletePod, thePod, theName},
	}
	if !slices.Equal(h.foreign, want) {
		t.Errorf("got %v, want %v", h.foreign, want)
	}
	if !h.pods[thePod].byBuiltIn() {
		t.Error("the pod does not count as evicted by the built-in, which deleted it first")
	}
}

func TestAPatchAgainstAMarkOfTheBuiltInIsNotAnEviction(t *testing.T) {
	for status, want := range map[string]callKind{"True": patchPod, "False": keepPod} {
		body := fmt.Sprintf(`{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"DisruptionTarget","status":%q}]}}`, status)
		c, err := readCall(httptest.NewRequest("PATCH", "/api/v1/namespaces/ns/pods/p/status", strings.NewReader(body)), time.Now())
		if err != nil || c.kind != want || c.uid != "u" {
			t.Errorf("%s: %+v, %v; want %s", status, c, err, want)
		}
	}
}
