// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// With -short, sweeps disturb one in so many calls and events.
const oneIn = 3

// story is what happens to nodes "n" and "m", which have pods "now" (tolerates nothing), "soon" (for 10 s tolerates
// "k", not-ready and unreachable; for 5 s "k2") and "never" (never leaves) each, and which pods leave when. Whatever is
// disturbed meanwhile, these leave, once, and none early.
type story struct {
	what    string
	happens []step
	leave   map[string]time.Duration
}

type step struct {
	at time.Duration
	do act
}

// isSick gives node "m" exactly the taints with these keys.
func isSick(names ...string) act {
	return func(w *world) {
		var list []corev1.Taint
		for _, name := range names {
			list = append(list, noExecute(name))
		}
		w.SetTaints("m", list...)
	}
}

func toleratesFor(pod string, seconds int64) act { return changed(pod, tolerationSeconds(seconds)) }

func comes(pod string, change ...func(*corev1.Pod)) act {
	return func(w *world) { w.addPod(pod, change...) }
}

// isReplaced deletes a pod, and creates another with the same name.
func isReplaced(pod string, change ...func(*corev1.Pod)) act {
	return func(w *world) {
		w.Must(nil, w.API.Delete(podResource, "default", pod))
		w.addPod(pod, append(change, func(pod *corev1.Pod) { pod.UID = "another" })...)
	}
}

type leave = map[string]time.Duration

const notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable

var stories = []story{
	{"a taint", []step{{sec, tainted("n", "k:NoExecute")}}, leave{"n-now": sec, "n-soon": 11 * sec}},
	{"a taint that is taken off", []step{{sec, tainted("n", "k:NoExecute")}, {5 * sec, tainted("n", "k-")}}, leave{"n-now": sec}},
	{
		"a taint that is taken off and set again",
		[]step{{sec, tainted("n", "k:NoExecute")}, {5 * sec, tainted("n", "k-")}, {8 * sec, tainted("n", "k:NoExecute")}},
		leave{"n-now": sec, "n-soon": 18 * sec},
	},
	{
		"a second taint that nothing tolerates", []step{{sec, tainted("n", "k:NoExecute")}, {6 * sec, tainted("n", "other:NoExecute")}},
		leave{"n-now": sec, "n-soon": 6 * sec},
	},
	{
		"a second taint that is tolerated for less", []step{{sec, tainted("n", "k:NoExecute")}, {4 * sec, tainted("n", "k2:NoExecute")}},
		leave{"n-now": sec, "n-soon": 9 * sec},
	},
	{
		"a second taint that is tolerated for less and is taken off",
		[]step{{sec, tainted("n", "k:NoExecute")}, {4 * sec, tainted("n", "k2:NoExecute")}, {7 * sec, tainted("n", "k2-")}},
		leave{"n-now": sec, "n-soon": 11 * sec},
	},
	{
		"two nodes", []step{{sec, tainted("n", "k:NoExecute")}, {4 * sec, tainted("m", "k:NoExecute")}},
		leave{"n-now": sec, "n-soon": 11 * sec, "m-now": 4 * sec, "m-soon": 14 * sec},
	},
	{
		"another value", []step{{sec, tainted("n", "k=a:NoExecute")}, {4 * sec, tainted("n", "k=b:NoExecute")}},
		leave{"n-now": sec, "n-soon": 11 * sec},
	},
	{
		"another effect", []step{{sec, tainted("n", "k:NoSchedule")}, {4 * sec, tainted("n", "k:NoSchedule-", "k:NoExecute")}},
		leave{"n-now": 4 * sec, "n-soon": 14 * sec},
	},
	{
		"a pod that tolerates less", []step{{sec, tainted("n", "k:NoExecute")}, {4 * sec, toleratesFor("n-soon", 6)}},
		leave{"n-now": sec, "n-soon": 7 * sec},
	},
	{
		"a pod that tolerates it for less time than has passed", []step{{sec, tainted("n", "k:NoExecute")}, {6 * sec, toleratesFor("n-soon", 2)}},
		leave{"n-now": sec, "n-soon": 6 * sec},
	},
	{
		"a pod that tolerates more", []step{{sec, tainted("n", "k:NoExecute")}, {4 * sec, toleratesFor("n-soon", 20)}},
		leave{"n-now": sec, "n-soon": 21 * sec},
	},
	{
		"a pod that comes later", []step{{sec, tainted("n", "k:NoExecute")}, {4 * sec, comes("n-late", tolerating("k", 3))}},
		leave{"n-now": sec, "n-soon": 11 * sec, "n-late": 7 * sec},
	},
	{
		"a pod that has finished", []step{{sec, comes("n-done", finished)}, {4 * sec, tainted("n", "k:NoExecute")}},
		leave{"n-now": 4 * sec, "n-soon": 14 * sec, "n-done": 4 * sec},
	},
	{
		"another pod of the same name", []step{{sec, tainted("n", "k:NoExecute")}, {5 * sec, isReplaced("n-soon", tolerating("k", 10))}},
		leave{"n-now": sec, "n-soon": 15 * sec},
	},
	{
		"another pod of the same name on another node", []step{{sec, tainted("n", "k:NoExecute")}, {5 * sec, isReplaced("n-soon", onNode("m"))}},
		leave{"n-now": sec},
	},
	{
		"not ready that becomes unreachable",
		[]step{{sec, isSick(notReady)}, {5 * sec, func(w *world) { w.swap("m", notReady, unreachable) }}},
		leave{"m-now": sec, "m-soon": 11 * sec},
	},
	{
		"not ready that becomes unreachable in one write", []step{{sec, isSick(notReady)}, {5 * sec, isSick(unreachable)}},
		leave{"m-now": sec, "m-soon": 11 * sec},
	},
	{
		"not ready, then ready, then unreachable",
		[]step{{sec, isSick(notReady)}, {5 * sec, isSick()}, {8 * sec, isSick(unreachable)}},
		leave{"m-now": sec, "m-soon": 18 * sec},
	},
	{
		"a node that is registered again",
		[]step{{sec, tainted("n", "k:NoExecute")}, {5 * sec, func(w *world) { w.DeleteNode("n"); w.addNode("n") }}},
		leave{"n-now": sec},
	},
}

func finished(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

// play plays a story with an Evictor that begins in the given way. Everything may be late by the given time.
func (s *story) play(t *testing.T, begins func(w *world), what func() string, late time.Duration) {
	t.Helper()
	play(t, func(_ *testing.T, w *world) {
		for _, node := range []string{"n", "m"} {
			w.addNode(node)
			w.addPod(node+"-now", onNode(node))
			w.addPod(node+"-soon", onNode(node), tolerating("k", 10), tolerating("k", 60), tolerating("k2", 5), tolerating(notReady, 10), tolerating(unreachable, 10))
			w.addPod(node+"-never", onNode(node), toleratingAll)
		}
		begins(w)
		for _, step := range s.happens {
			w.Until(step.at)
			step.do(w)
		}
		w.Until(2 * time.Minute)
		s.wantLeft(w, what(), late)
	})
}

// wantLeft wants the right pods to have been deleted, once, not early and not much late.
func (s *story) wantLeft(w *world, what string, late time.Duration) {
	w.T.Helper()
	got := map[string][]time.Duration{}
	for _, call := range w.Book.Calls() {
		if name, ok := strings.CutPrefix(call.What, "delete "); ok && strings.Contains(name, "-") { // no node
			got[name] = append(got[name], call.At)
		}
	}
	for name, want := range s.leave {
		if at := got[name]; len(at) != 1 || at[0] < want || at[0] > want+late {
			w.T.Errorf("%s, %s: %s was deleted at %v, want it once, at %s", s.what, what, name, at, want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		w.T.Errorf("%s, %s: these were deleted and must stay: %v", s.what, what, got)
	}
}

func TestPodsLeaveWhenTheyMust(t *testing.T) {
	for _, story := range stories {
		story.play(t, func(w *world) { w.run() }, func() string { return "undisturbed" }, 20*ms)
	}
}

// A countdown whose timeAdded was not written yet can begin again.
func TestWhenTheProcessIsKilledAtAnyCallTheSamePodsLeave(t *testing.T) {
	for _, story := range stories {
		bubble.KillAtEveryCall(t, oneIn, func(t *testing.T, k *bubble.Killed) {
			story.play(t, func(w *world) {
				k.Lives(w.World, func(bubble.Request) bool { return true }, func(client *bubble.Slow) func(context.Context) error {
					return w.evictor(func(c *Config) { c.Client, c.EventClient = client, w.Client })
				})
			}, k.String, 6*sec)
		})
	}
}

func TestWhateverHappensToTheWatchesAtAnyEventTheSamePodsLeave(t *testing.T) {
	for _, story := range stories {
		bubble.DisturbEveryEvent(t, oneIn, func(t *testing.T, d *bubble.Disturbed) {
			story.play(t, func(w *world) {
				w.run()
				d.In(w.World)
			}, d.String, d.Late)
		})
	}
}
