// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

const another = types.UID("uid-of-another")

// aVersion is a version of a pod that no timeline has.
func aVersion(number, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: another, ResourceVersion: number, CreationTimestamp: metav1.NewTime(sec(0))},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	for _, changed := range change {
		changed(pod)
	}
	return pod
}

// ends makes a version one that terminates, for the given seconds.
func ends(grace int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: sec(20)}, &grace
	}
}

func TestTheAuditLogSaysWhoWroteWhatAndWhen(t *testing.T) {
	w := newWorld(nil)
	w.pod, w.now = aVersion("5", ""), 90
	podNotes{w.observer}.Changed(watch.Added, aVersion("5", ""))
	podNotes{w.observer}.Changed(watch.Modified, aVersion("6", theNode))
	w.audit(1, 1.1, "create", "pods", "pod", "admin", 201, aVersion("5", ""))
	w.audit(2, 2.1, "create", "pods/binding", "pod", "scheduler", 201, metav1.Status{})
	w.audit(3, 3.1, "update", "pods", "pod", "admin", 200, aVersion("8", theNode, func(pod *corev1.Pod) { pod.Spec.Tolerations = tolerationsOf([]string{"off"}) }))
	w.audit(4, 4.1, "update", "pods", "pod", "admin", 409, metav1.Status{})
	w.audit(5, 5.1, "delete", "pods", "pod", "admin", 404, metav1.Status{})
	states := w.history(t).pods[another].states
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
	if want := oracle.At(sec(1)); states[1].bound != want {
		t.Errorf("bound %s, want %s: the second of its creation, at its end", clock(states[1].bound), clock(want))
	}
	if len(states[2].tolerations) != 1 {
		t.Errorf("tolerations %v, want the one that only the audit log has", states[2].tolerations)
	}
}

// TestWhoseDeleteEndedAPod: the first that was accepted, even if the pod was gone at once, or another DELETE was
// answered with the version before.
func TestWhoseDeleteEndedAPod(t *testing.T) {
	type answer struct {
		user    string
		version *corev1.Pod
	}
	const replica, builtIn = keeperUser, auditlog.BuiltInAsItself
	for name, test := range map[string]struct {
		watched []*corev1.Pod
		gone    bool // for a list of the watch
		deletes []answer
		want    string
	}{
		"nobody's":                 {want: "nobody's"},
		"a replica's, and at once": {[]*corev1.Pod{aVersion("7", theNode, ends(0))}, true, []answer{{replica, aVersion("7", theNode, ends(0))}, {"kwok", aVersion("7", theNode, ends(0))}}, replica},
		"the built-in's, and at once": {
			[]*corev1.Pod{aVersion("7", theNode, ends(0))}, true, []answer{{builtIn, aVersion("7", theNode, ends(0))}, {replica, aVersion("7", theNode, ends(0))}}, builtIn,
		},
		"another one's, with a grace period": {
			[]*corev1.Pod{aVersion("7", theNode, ends(30))}, false, []answer{{"admin", aVersion("7", theNode, ends(30))}, {replica, aVersion("7", theNode, ends(30))}}, "admin",
		},
		"a replica's, and the watch missed it": {nil, true, []answer{{replica, aVersion("7", theNode, ends(0))}}, replica},
		"one that the audit log does not know": {nil, true, nil, ""},
		"the first, and the second shows the version before": {
			nil, false, []answer{{"admin", aVersion("6", theNode, ends(30))}, {replica, aVersion("5", theNode, ends(30))}}, "admin",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(nil)
			w.pod, w.now = aVersion("5", theNode), 90
			podNotes{w.observer}.Changed(watch.Added, aVersion("5", theNode))
			for _, version := range test.watched {
				podNotes{w.observer}.Changed(watch.Modified, version)
			}
			if test.gone {
				podNotes{w.observer}.Listed(nil)
			}
			for i, d := range test.deletes {
				w.audit(20+float64(i), 20.1+float64(i), "delete", "pods", "pod", d.user, 200, d.version)
			}
			pod := w.history(t).pods[another]
			state, left := pod.left()
			if got := map[bool]string{true: state.writer, false: "nobody's"}[left]; got != test.want || pod.byKeeper() != (test.want == replica) || pod.byBuiltIn() != (test.want == builtIn) {
				t.Fatalf("it was %q, want %q: %v", got, test.want, pod.states)
			}
			if state.writer != "" && state.from != (oracle.Between(sec(20), sec(20.1))) {
				t.Errorf("it ended at %s, want when the first DELETE was carried out", clock(state.from))
			}
			if pod.states[0].terminating {
				t.Error("it terminated from the beginning")
			}
		})
	}
}

func TestAWriteThatTheAuditLogDoesNotHaveLiesBetweenTheVersionBeforeAndItsSight(t *testing.T) {
	w := newWorld(nil)
	w.node.Spec.Taints, w.node.ResourceVersion, w.now = taintsOf([]string{"off"}), "9", 9
	nodeNotes{w.observer}.Changed(watch.Modified, w.node)
	states := w.history(t).nodes[theNode]
	if len(states) != 2 || states[1].from != (oracle.Between(sec(-30), sec(9))) {
		t.Fatalf("%+v, want the taint to have come between -30 s and 9 s", states)
	}
	if due, leaves := (podState{bound: oracle.At(sec(0))}).due(states[1].taints); !leaves || due != (oracle.Between(sec(0), sec(9))) {
		t.Errorf("due %s", clock(due))
	}
}

// A mark that was refused is none, and one that comes again changes nothing.
func TestTheAuditLogSaysWhatTheBuiltInDoes(t *testing.T) {
	w := newWorld(nil)
	w.pod = aVersion("5", theNode)
	marked := aVersion("8", theNode, func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Message: "Taint manager: deleting"}}
	})
	const builtIn, refused, accepted = auditlog.BuiltInAsServiceAccount, 403, 200
	w.audit(1, 1.1, "patch", "pods/status", "pod", builtIn, refused, metav1.Status{})
	w.audit(2, 2.1, "patch", "pods/status", "pod", builtIn, accepted, marked)
	w.audit(2.5, 2.6, "patch", "pods/status", "pod", builtIn, accepted, marked)
	w.audit(3, 3.1, "patch", "pods/status", "pod", keeperUser, accepted, marked)
	w.audit(4, 4.1, "delete", "pods", "pod", builtIn, accepted, aVersion("8", theNode, ends(0)))
	want := []foreignCall{
		{oracle.Between(sec(2), sec(2.1)), patchPod, another, theName}, {oracle.Between(sec(4), sec(4.1)), deletePod, another, theName},
	}
	if got := w.history(t).foreign; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheReportTellsWhatHappenedAndTheStoryOfWhatIsWrong(t *testing.T) {
	for timeline, lines := range map[string][]string{
		"10 taints off; 10.05 a evicts": {
			"       4  leader killed", "       3  500", "       5  not-ready and unreachable swapped", "       8  in all, in 3 calls", "       1  existed", "       1  evicted",
			"       0  deleted by others first", "       0  stayed to the end",
			"     1 evicted, half within 55ms, 9 in 10 within 55ms, 99 in 100 within 55ms, all within 55ms  not touched by a fault",
			"       0  later than the faults explain", "  lost    0", "  late    0", "  early   0", "  wrong   0", "  twice   0", "  foreign 0",
		},
		"10 taints off; 14 a evicts": {
			"       1  later than the faults explain", "not explained: pod default/pod left node node 4.005s after it was due; the faults explain 0s of it", "  early   0",
		},
		"1 tolerates off=5; 10 taints off=now; 11 outage until 12; 12 a clock 60 until 13; 14 a evicts": {
			"early: default/pod: PATCH pod status by run 1 of a was sent", "times in seconds from 12:00:13.990000", "[off Exists  5 s]", "off=now:NoExecute", "outage: begins",
			"outage: ends", "the clock of a is wrong by 1m0s", "the clock of a is corrected", "GET node node", "PATCH pod status",
			"DELETE pod default/pod uid uid-of-t, the API server answered 200, the replica received 200 after 6ms", "terminating or gone", "  early   2",
		},
	} {
		h := play(t, timeline)
		h.injected = map[faultKind]int{internalError: 3, swapped: 5, "leader killed": 4}
		var out strings.Builder
		if clean := h.report(&out); clean != slices.Contains(lines, "  early   0") {
			t.Errorf("%s: clean is %t", timeline, clean)
		}
		rest, story := out.String(), slices.Contains(lines, "outage: begins")
		for _, line := range lines {
			_, after, found := strings.Cut(rest, line)
			if !found {
				t.Errorf("%s: %q is missing in\n%s", timeline, line, rest)
			}
			if found && story { // whose lines are in order
				rest = after
			}
		}
	}
}
