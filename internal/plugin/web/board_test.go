// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// after is an instant some time after midnight, in milliseconds, as in rows.
func after(d time.Duration) int64 { return midnight.Add(d).UnixMilli() }

func expect[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAPageShowsNodesWithTheirPodsThatMustLeave(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		s.pod("slow", 600)
		s.pod("web", 300, func(pod *corev1.Pod) {
			pod.Spec.Priority = new(int32(7))
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "web", Controller: new(true)}}
		})
		s.open()
		node := row[nodeRow](s, tableNodes, "n")
		expect(t, "the pods, soonest first", []string{node.Pods[0].Name, node.Pods[1].Name}, []string{"web", "slow"})
		web := node.Pods[0]
		expect(t, "the pod", web, cliv1alpha1.PendingPod{
			Namespace: "a", Name: "web", UID: "web", Node: "n", Due: web.Due, Taint: "k:NoExecute", Toleration: web.Toleration,
			Owner: &cliv1alpha1.Owner{Kind: "StatefulSet", Name: "web"}, Priority: 7,
		})
		expect(t, "when it is due", web.Due.UnixMilli(), after(5*time.Minute))
		node.Pods, node.LastWrite = nil, nil
		expect(t, "the node", node, nodeRow{Name: "n", Zone: "/z", Ready: "True", Taints: []taintRow{{"k:NoExecute", after(0)}}})
		expect(t, "the zone", s.zone("/z"), zoneRow{Name: "/z", Nodes: 1, State: "Normal"})

		s.node("n")
		s.pass(time.Second)
		expect(t, "the node after the untaint", row[nodeRow](s, tableNodes, "n"), nodeRow{Name: "n", Zone: "/z", Ready: "True"})
		expect(t, "evictions", len(s.head().Evictions), 0)
	})
}

func TestAPageSaysWhichPodsPoliciesHold(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		s.pod("held", 60, func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "db"} })
		s.pod("web", 300)
		s.open()
		_, shown := s.shown[tableSources][kindPolicies]
		expect(t, "a source without policies", shown, false)

		db := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: v1alpha1.EvictionPolicySpec{
			Action: v1alpha1.ActionHold, Deadline: &metav1.Duration{Duration: time.Hour},
			PodSelector: &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "db"}},
		}}
		s.policies(&state.Cluster{Policies: []*v1alpha1.EvictionPolicy{db}}, nil)
		s.pass(time.Second)
		held := s.pending()["held"].Answer
		expect(t, "who holds the pod", held.HeldBy(), "db: Held")
		expect(t, "until when", held.LeavesAt.UnixMilli(), after(time.Minute+time.Hour))
		expect(t, "who holds the other pod", s.pending()["web"].Answer, nil)

		s.policies(&state.Cluster{}, errors.New("down"))
		s.pass(time.Second)
		expect(t, "the source", row[sourceRow](s, tableSources, kindPolicies).State, stateBroken)
		expect(t, "who held the pod", s.pending()["held"].Answer.HeldBy(), "db: Held")
		s.policies(&state.Cluster{Unknown: []state.Unknown{{Says: "You may not list them."}}}, nil)
		s.pass(time.Second)
		expect(t, "the source", row[sourceRow](s, tableSources, kindPolicies), sourceRow{
			ID: kindPolicies, State: stateDenied, Read: true, Problem: "You may not list them. Ask for the ClusterRole taintkeeper-viewer[.NAMESPACE], which grants this access.",
		})
		expect(t, "who holds the pod without policies", s.pending()["held"].Answer, nil)
	})
}

// leaving and status count the same pods in the same way: what is not due yet is not held, and what is held is not due.
func TestTheBoardCountsPodsAsTheCommandsDo(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		db := func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "db"} }
		s.pod("held", 60, db)
		s.pod("held-later", 600, db)
		s.pod("due", 60)
		s.pod("later", 300)
		s.open()
		s.policies(&state.Cluster{Policies: []*v1alpha1.EvictionPolicy{{
			ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec: v1alpha1.EvictionPolicySpec{
				Action: v1alpha1.ActionHold, PodSelector: &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "db"}},
			},
		}}}, nil)
		at := func(d time.Duration) *metav1.MicroTime { return new(metav1.NewMicroTime(midnight.Add(d).Local())) }
		for _, when := range []struct {
			pass time.Duration
			want cliv1alpha1.PodsToGo
		}{
			{time.Second, cliv1alpha1.PodsToGo{Later: 4, Next: at(time.Minute)}},
			{time.Minute, cliv1alpha1.PodsToGo{Later: 2, Next: at(5 * time.Minute), Due: 1, Held: 1}},
			{time.Minute, cliv1alpha1.PodsToGo{Later: 2, Next: at(5 * time.Minute), Due: 1, Overdue: 1, Oldest: at(time.Minute), Held: 1}},
			{10 * time.Minute, cliv1alpha1.PodsToGo{Due: 2, Overdue: 2, Oldest: at(time.Minute), Held: 2}},
		} {
			s.pass(when.pass)
			expect(t, "the pods after "+when.pass.String(), s.head().ToGo, when.want)
		}
	})
}

func TestTheBoardShowsPodsThatWereEvictedAndStillExist(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		s.pod("p", 10)
		s.pod("deleted", 10)
		s.open()
		s.pod("p", 10, marked("Taintkeeper: deleting due to NoExecute taint"), leaving)
		s.pod("deleted", 10, leaving) // by something else
		s.node("n")
		s.pass(20 * time.Second)
		expect(t, "while its containers stop", len(row[nodeRow](s, tableNodes, "n").Stuck), 0)
		s.pass(11 * time.Second)
		stuck := row[nodeRow](s, tableNodes, "n").Stuck
		expect(t, "pods", len(stuck), 1)
		expect(t, "the pod", stuck[0].Name+" waits for "+stuck[0].Waits, "p waits for its finalizers")
		s.deletePod("p")
		s.pass(time.Second)
		expect(t, "after it is gone", len(row[nodeRow](s, tableNodes, "n").Stuck), 0)
	})
}

func TestTheBoardSaysWhoLastWroteTheTaintsOfANode(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		s.node("m")
		s.open()
		const writer = "unknown" // the fake API server does not know it
		if wrote := row[nodeRow](s, tableNodes, "n").LastWrite; wrote == nil || wrote.By != writer || !wrote.At.Time.Equal(midnight) {
			t.Errorf("the last write is %v", wrote)
		}
		expect(t, "the last write of a node without taints", row[nodeRow](s, tableNodes, "m").LastWrite, nil)
	})
}

func TestAPageSaysThatTaintkeeperDoesNotEvict(t *testing.T) {
	play(t, func(s *scene) {
		s.open()
		idle := func() string { return s.head().Idle }
		s.policies(&state.Cluster{Evictor: state.Evictor{Idle: "It does not run."}}, nil)
		s.pass(time.Second)
		expect(t, "what it says", idle(), "It does not run.")
		s.policies(&state.Cluster{}, errors.New("down"))
		s.pass(time.Second)
		expect(t, "what it says when that is not known", idle(), "It does not run.")
		s.policies(&state.Cluster{}, nil)
		s.pass(time.Second)
		expect(t, "what it says while Taintkeeper evicts", idle(), "")
	})
}

func TestAnEvictionIsListedWithWhoseItIsAndHowLateItWas(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		for _, name := range []string{"ours", "built-in", "other", "late", "untainted"} {
			s.pod(name, 10)
		}
		s.open()
		s.pass(9*time.Second + 100*time.Millisecond)
		s.pod("ours", 10, marked("Taintkeeper: deleting due to NoExecute taint"), leaving)
		s.pod("built-in", 10, marked("Taint manager: deleting due to NoExecute taint"), leaving)
		s.pod("other", 10, leaving)
		s.pass(5 * time.Second)
		s.pod("late", 10, marked("Taint manager: deleting due to NoExecute taint"), leaving)
		s.pass(time.Second)
		s.node("n")
		s.pass(time.Second) // nodes and pods arrive on separate watches
		s.pod("untainted", 10, marked("Taint manager: deleting due to NoExecute taint"), leaving)
		s.pass(time.Second)

		expect(t, "ours", s.eviction("ours"), evictionRow{
			Namespace: "a", Name: "ours", UID: "ours", Node: "n", By: "Taintkeeper", Taint: "k:NoExecute",
			At: after(10 * time.Second), Due: after(10 * time.Second), Late: new(int64(0)),
		})
		expect(t, "who evicted the second", s.eviction("built-in").By, "built-in")
		expect(t, "by how much the late one was late", s.eviction("late").Late, new(int64(5)))
		expect(t, "of the one whose node had lost its taint", s.eviction("untainted").Unknown, "its node no longer had the taint when the board saw the deletion")
		expect(t, "evictions", s.head().Evicted, 4)

		s.pod("ours", 10, marked("Taintkeeper: deleting due to NoExecute taint"), leaving)
		s.deletePod("ours")
		s.pass(time.Second)
		expect(t, "evictions after the pod has gone", s.head().Evicted, 4)
	})
}

func TestAPodThatGoesWithoutAGracePeriodWasEvictedWhenItWasSeenToGo(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		s.pod("p", 10)
		s.open()
		s.pass(12 * time.Second)
		s.pod("p", 10, marked("Taintkeeper: deleting due to NoExecute taint"))
		s.deletePod("p")
		s.pass(time.Second)
		eviction := s.eviction("p")
		expect(t, "when", eviction.At, after(13*time.Second))
		expect(t, "lateness", eviction.Late, new(int64(3)))
	})
}

func TestAnEvictionThatWasUnderWayIsNotJudged(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		s.pod("p", 10, marked("Taintkeeper: deleting due to NoExecute taint"), leaving)
		s.open()
		eviction := s.eviction("p")
		expect(t, "lateness", eviction.Late, nil)
		expect(t, "why", eviction.Unknown, "it was already leaving when the board first saw it")
	})
}

func TestThePageListsTheNewestOfManyEvictions(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		s.open()
		for i := range mostEvictions + 50 {
			name := fmt.Sprintf("p-%d", i)
			s.pod(name, 0, marked("Taintkeeper: deleting due to NoExecute taint"), leaving)
			if i%25 == 0 {
				s.pass(time.Second)
			}
		}
		s.pass(time.Second)
		expect(t, "listed", len(s.head().Evictions), mostEvictions)
		expect(t, "the newest", s.head().Evictions[0].Name, fmt.Sprintf("p-%d", mostEvictions+49))
		expect(t, "all", s.head().Evicted, mostEvictions+50)
	})
}

func TestZonesSayWhyTheyHold(t *testing.T) {
	for _, zone := range []struct {
		size, notReady int
		everyZone      bool
		state          readiness.State
		sentences      string
	}{
		{size: 3, notReady: 0, state: "Normal"},
		{size: 3, notReady: 2, state: "Normal", sentences: "2 of 3 nodes not ready: one node is tainted NoExecute every 10 s"},
		{size: 10, notReady: 5, state: "Normal", sentences: "5 of 10 nodes not ready: one node is tainted NoExecute every 10 s"},
		{size: 10, notReady: 6, state: "PartialDisruption", sentences: "6 of 10 nodes not ready: with the default flags, no node is tainted NoExecute in a partially disrupted zone of 50 nodes or fewer"},
		{size: 100, notReady: 60, state: "PartialDisruption", sentences: "60 of 100 nodes not ready: one node is tainted NoExecute every 100 s"},
		{size: 1, notReady: 1, state: "FullDisruption", sentences: "1 of 1 node not ready: one node is tainted NoExecute every 10 s"},
		{
			size: 2, notReady: 2, everyZone: true, state: "FullDisruption",
			sentences: "2 of 2 nodes not ready, as in every zone: the control plane is the more likely cause, and no node is tainted NoExecute",
		},
	} {
		what := fmt.Sprintf("%d of %d", zone.notReady, zone.size)
		state := defaultPolicy.State(zone.size, zone.notReady)
		expect(t, what, state, zone.state)
		expect(t, what, whyHeld(&zoneRow{Nodes: zone.size, NotReady: zone.notReady, State: state}, zone.everyZone), zone.sentences)
	}
}

func TestAZoneIsCountedFromItsNodes(t *testing.T) {
	play(t, func(s *scene) {
		excluded := func(node *corev1.Node) { node.Labels[readiness.ExcludedFromDisruption] = "" }
		s.node("a-1", in("a"), unready(corev1.ConditionFalse))
		s.node("a-2", in("a"), unready(corev1.ConditionUnknown), tainted("node.kubernetes.io/unreachable"))
		s.node("a-3", in("a"), unready(corev1.ConditionFalse))
		s.node("a-4", in("a"), excluded)
		s.node("b-1", in("b"))
		s.node("c-1", func(node *corev1.Node) { node.Labels = nil }, unready(corev1.ConditionFalse))
		s.open()
		expect(t, "zone a", s.zone("/a"), zoneRow{
			Name: "/a", Nodes: 3, NotReady: 3, State: "FullDisruption", Why: "3 of 3 nodes not ready: one node is tainted NoExecute every 10 s",
		})
		expect(t, "zone b", s.zone("/b").State, readiness.Normal)
		expect(t, "the nodes without a zone", s.zone("(none)").NotReady, 1)

		s.node("b-1", in("b"), unready(corev1.ConditionUnknown))
		s.pass(time.Second)
		if why := s.zone("/b").Why; !strings.Contains(why, "in every zone") {
			t.Errorf("with every zone disrupted, zone b says %q", why)
		}
	})
}

func nodeEventOf(name, reason, message string, at time.Duration) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n"}, Reason: reason, Message: message,
		LastTimestamp: metav1.NewTime(midnight.Add(at)), Source: corev1.EventSource{Component: "taintkeeper"},
	}
}

func TestWhatShadowModeFoundIsReadWhileItRuns(t *testing.T) {
	play(t, func(s *scene) {
		write := func(report v1alpha1.ShadowReport) {
			data, err := report.Data()
			if err != nil {
				t.Fatal(err)
			}
			s.put(configMaps, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: v1alpha1.ShadowConfigMap, UID: "report"}, Data: data,
			}, "home")
			s.pass(time.Second)
		}
		shown := func(want []differenceRow, none string) {
			t.Helper()
			head := row[headRow](s, tableHead, "")
			expect(t, "differences", head.Differences, want)
			expect(t, "without differences", head.NoDifference, none)
		}
		s.open()
		shown(nil, "There is no report of shadow mode.")
		report := v1alpha1.ShadowReport{Time: metav1.NewTime(midnight)}
		write(report)
		shown(nil, "Shadow mode has found no difference.")
		report.Differences = []v1alpha1.ShadowDifference{{
			Outcome: v1alpha1.ShadowStayed, Namespace: "a", Pod: "p", UID: "u", Node: "n",
			Time: metav1.NewTime(midnight.Add(time.Second)), Sentence: "evicted: \x1b[2Jwhy",
		}}
		write(report)
		shown([]differenceRow{{
			UID: "u", Node: "n", At: after(time.Second), Kind: "should have stayed", Sentence: "Pod a/p: evicted: \x1b[2Jwhy.",
		}}, "Shadow mode has found no difference.")
		s.pass(10 * time.Minute)
		shown(nil, "The report of shadow mode is from 10m ago, and nothing has written it since. kubectl taintkeeper status --report prints it.")
	})
}

func TestANodeSaysWhyItWaitsForItsTaintUntilItHasIt(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", unready(corev1.ConditionFalse))
		s.put(events, nodeEventOf("old", v1alpha1.EventNodeTaintHeld, "held back: before", time.Second), "default")
		s.put(events, nodeEventOf("new", v1alpha1.EventNodeTaintHeld, "held back: now", time.Minute), "default")
		s.open()
		expect(t, "why", row[nodeRow](s, tableNodes, "n").Held, "held back: now")
		s.node("n", unready(corev1.ConditionFalse), tainted("node.kubernetes.io/not-ready"))
		s.pass(time.Second)
		expect(t, "why, with the taint", row[nodeRow](s, tableNodes, "n").Held, "")
	})
}

func TestThePageSaysWhatMayNotBeListedAndShowsTheRest(t *testing.T) {
	play(t, func(s *scene) {
		var denied, absent atomic.Bool
		denied.Store(true)
		absent.Store(true)
		s.clients.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
			return denied.Load(), nil, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no right"))
		})
		s.rules.PrependReactor("list", "nodetaintrules", func(clienttesting.Action) (bool, runtime.Object, error) {
			return absent.Load(), nil, apierrors.NewNotFound(rules.GroupResource(), "")
		})
		s.node("n", tainted("k"))
		s.pod("p", 300)
		s.open()
		expect(t, "events", row[sourceRow](s, tableSources, kindEvents), sourceRow{
			ID: "events", State: "denied", Problem: "You may not list events: reasons why nodes wait for their taints are missing. Ask for the ClusterRole taintkeeper-viewer[.NAMESPACE], which grants this access.",
		})
		expect(t, "rules", row[sourceRow](s, tableSources, kindRules).State, "absent")
		expect(t, "nodes", row[sourceRow](s, tableSources, follow.Nodes), sourceRow{ID: "nodes", State: "current", Read: true})
		expect(t, "pods that must leave", len(s.pending()), 1)

		denied.Store(false)
		absent.Store(false)
		s.pass(2 * time.Minute)
		for _, kind := range []string{kindEvents, kindRules} {
			expect(t, kind+" later", row[sourceRow](s, tableSources, kind), sourceRow{ID: kind, State: "current", Read: true})
		}
	})
}

func TestThePageSaysThatTheUserMayListButNotWatch(t *testing.T) {
	play(t, func(s *scene) {
		s.clients.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right"))
		})
		s.node("n", tainted("k"))
		s.pod("p", 300)
		s.open()
		s.pass(time.Minute)
		expect(t, "pods", row[sourceRow](s, tableSources, follow.Pods).Problem, "You may not watch pods: pods that must leave and evictions are missing. Ask for the ClusterRole taintkeeper-viewer[.NAMESPACE], which grants this access.")
	})
}

func TestThePageSaysThatTheAPIServerDoesNotAnswer(t *testing.T) {
	play(t, func(s *scene) {
		var down atomic.Bool
		s.ping = func() error {
			if down.Load() {
				return errors.New("i/o timeout")
			}
			return nil
		}
		s.open()
		down.Store(true)
		s.pass(time.Minute)
		expect(t, "the API server", row[sourceRow](s, tableSources, kindServer), sourceRow{
			ID: "server", State: "broken", Read: true, Since: after(0), Problem: "The API server does not answer: i/o timeout.",
		})
		down.Store(false)
		s.pass(10 * time.Second)
		expect(t, "the API server later", row[sourceRow](s, tableSources, kindServer), sourceRow{ID: "server", State: "current", Read: true})
	})
}

func TestRulesAreSentAsTheyAre(t *testing.T) {
	play(t, func(s *scene) {
		spec := map[string]any{"condition": map[string]any{"type": "KernelDeadlock", "status": "True"}, "maxTainted": "10%"}
		s.put(rules, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NodeTaintRule", "metadata": map[string]any{"name": "deadlock", "uid": "u"},
			"spec": spec, "status": map[string]any{"selected": "many"},
		}}, "")
		s.open()
		expect(t, "the rule", row[map[string]any](s, tableRules, "u"), map[string]any{"name": "deadlock", "spec": spec, "status": map[string]any{"selected": "many"}})
		if err := s.rules.Tracker().Delete(rules, "", "deadlock"); err != nil {
			t.Fatal(err)
		}
		s.pass(time.Second)
		expect(t, "rules", len(s.shown[tableRules]), 0)
	})
}

func TestAPageIsSentWhatHasChangedAndNothingElse(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n", tainted("k"))
		s.node("m")
		s.pod("p", 300)
		s.open()
		if update := s.next(); update.Reset || update.Rows != nil {
			t.Errorf("without a change it is sent %+v", update)
		}
		s.node("m", func(node *corev1.Node) { node.Annotations = map[string]string{"beat": "1"} })
		bubble.Pass(time.Second)
		if update := s.next(); update.Rows != nil {
			t.Errorf("after a heartbeat it is sent %+v", update.Rows)
		}
		s.node("m", unready(corev1.ConditionFalse))
		bubble.Pass(time.Second)
		sent := s.next().Rows
		expect(t, "what is sent", slices.Sorted(maps.Keys(sent)), []string{"head/", "nodes/m"})

		first, _, _ := s.board.rows.since(0, time.Now())
		expect(t, "another page begins", first.Reset, true)
		if first.Rows["nodes/n"] == nil || first.Rows["nodes/m"] == nil {
			t.Errorf("another page is sent %v", slices.Sorted(maps.Keys(first.Rows)))
		}
	})
}

func TestAPageReceivesEverythingAfterARowIsGone(t *testing.T) {
	r := newRows()
	r.put("nodes/stays", 1)
	r.put("nodes/goes", 1)
	_, version, _ := r.since(0, midnight)
	r.remove("nodes/goes")
	all, version, _ := r.since(version, midnight)
	expect(t, "it is complete", all.Reset, true)
	expect(t, "rows", slices.Collect(maps.Keys(all.Rows)), []string{"nodes/stays"})
	again, _, _ := r.since(version, midnight)
	expect(t, "after that", again, update{Now: midnight.UnixMilli()})
}

func TestChangesAreGatheredIntoFourUpdatesASecond(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n")
		s.open()
		updates := 0
		_, version, news := s.board.rows.since(0, time.Now())
		end := time.Now().Add(10 * time.Second)
		for i := 0; time.Now().Before(end); i++ {
			s.node("n", tainted(fmt.Sprintf("k-%d", i)))
			bubble.Pass(50 * time.Millisecond)
			select {
			case <-news:
				updates++
				_, version, news = s.board.rows.since(version, time.Now())
			default:
			}
		}
		if updates < 35 || updates > 41 {
			t.Errorf("%d updates in 10 s of a change every 50 ms, want 4 a second", updates)
		}
	})
}

func TestAChangeAfterAQuietTimeIsSentAtOnce(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n")
		s.open()
		s.pass(10 * time.Second)
		_, _, news := s.board.rows.since(s.version, time.Now())
		s.node("n", tainted("k"))
		synctest.Wait()
		select {
		case <-news:
		default:
			t.Error("a page is not woken")
		}
	})
}
