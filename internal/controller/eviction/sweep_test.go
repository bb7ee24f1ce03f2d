// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	rig "github.com/taintkeeper/taintkeeper/test/rig/world"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// scenes are what happens to nodes "n" and "m", which have pods "now" (tolerates nothing), "soon" (for 10 s) and "never"
// (indefinitely) each. Whatever is disturbed meanwhile, the same pods leave as undisturbed, once, and none early.
var scenes = map[string]func(w *world){
	"a taint": func(w *world) {
		w.Taint("n", "k:NoExecute")
	},
	"a taint that is taken off": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(5 * sec)
		w.Taint("n", "k-")
	},
	"a taint that is taken off and set again": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(5 * sec)
		w.Taint("n", "k-")
		w.Until(8 * sec)
		w.Taint("n", "k:NoExecute")
	},
	"a second taint that nothing tolerates": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(6 * sec)
		w.Taint("n", "other:NoExecute")
	},
	"a second taint that is taken off": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(3 * sec)
		w.Taint("n", "k2:NoExecute")
		w.Until(7 * sec)
		w.Taint("n", "k2-")
	},
	"two nodes": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.Taint("m", "k:NoExecute")
	},
	"another value": func(w *world) {
		w.Taint("n", "k=a:NoExecute")
		w.Until(4 * sec)
		w.Taint("n", "k=b:NoExecute")
	},
	"another effect": func(w *world) {
		w.Taint("n", "k:NoSchedule")
		w.Until(4 * sec)
		w.Taint("n", "k:NoSchedule-", "k:NoExecute")
	},
	"a pod that tolerates less": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.ChangePod("n-soon", tolerationSeconds(6))
	},
	"a pod that tolerates more": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.ChangePod("n-soon", tolerationSeconds(20))
	},
	"a pod that comes later": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.addPod("n-late", tolerating("k", 3))
	},
	"not ready that becomes unreachable": func(w *world) {
		w.SetTaints("m", noExecute(corev1.TaintNodeNotReady))
		w.Until(4 * sec)
		w.swap("m", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	},
	"a node that is registered again": func(w *world) {
		w.Taint("n", "k:NoExecute")
		w.Until(4 * sec)
		w.DeleteNode("n")
		w.addNode("n")
	},
}

// playScene plays a scene to an Evictor that begins in some way, and returns when each pod was deleted.
func playScene(t *testing.T, scene, begins func(w *world)) map[string]time.Duration {
	t.Helper()
	deleted := map[string]time.Duration{}
	play(t, func(t *testing.T, w *world) {
		for _, node := range []string{"n", "m"} {
			w.addNode(node)
			w.addPod(node+"-now", onNode(node))
			w.addPod(node+"-soon", onNode(node), tolerating("k", 10), tolerating("k2", 5), tolerating(corev1.TaintNodeNotReady, 10), tolerating(corev1.TaintNodeUnreachable, 10))
			w.addPod(node+"-never", onNode(node), func(pod *corev1.Pod) {
				pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			})
		}
		begins(w)
		w.Until(sec)
		scene(w)
		w.Until(2 * time.Minute)
		for _, call := range w.Book.Calls() {
			name, ok := strings.CutPrefix(call.What, "delete ")
			if !ok || !strings.Contains(name, "-") { // of a node
				continue
			}
			if _, twice := deleted[name]; twice {
				t.Errorf("%s is deleted twice", name)
			}
			deleted[name] = call.At
		}
	})
	return deleted
}

// wantSame wants that the same pods were deleted as undisturbed, not earlier and not much later.
func wantSame(t *testing.T, what string, got, undisturbed map[string]time.Duration, late time.Duration) {
	t.Helper()
	for name, want := range undisturbed {
		if at, ok := got[name]; !ok || at < want || at > want+late {
			t.Errorf("%s: %s was deleted at %s (%t), undisturbed at %s", what, name, at, ok, want)
		}
	}
	for name, at := range got {
		if _, ok := undisturbed[name]; !ok {
			t.Errorf("%s: %s was deleted at %s, undisturbed never", what, name, at)
		}
	}
}

func TestWhenTheProcessIsKilledAtAnyCallTheSamePodsLeave(t *testing.T) {
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			undisturbed := playScene(t, scene, func(w *world) { w.run() })
			rig.KillAtEveryCall(t, func(t *testing.T, k *rig.Killed) {
				got := playScene(t, scene, func(w *world) {
					k.Lives(w.World, func(bubble.Request) bool { return true }, func(client *bubble.Slow) func(context.Context) error {
						return w.evictor(func(c *Config) { c.Client, c.EventClient = client, w.Client })
					})
				})
				wantSame(t, k.String(), got, undisturbed, 6*sec) // a countdown begins again whose timeAdded was not written
			})
		})
	}
}

func TestWhateverHappensToTheWatchesAtAnyEventTheSamePodsLeave(t *testing.T) {
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			undisturbed := playScene(t, scene, func(w *world) { w.run() })
			rig.DisturbEveryEvent(t, func(t *testing.T, d *rig.Disturbed) {
				got := playScene(t, scene, func(w *world) {
					w.run()
					d.In(w.World)
				})
				wantSame(t, d.String(), got, undisturbed, d.Late)
			})
		})
	}
}

// trial is two nodes with a pod each, to which events happen in one order, and what the rule alone makes of them.
type trial struct {
	*world

	n, m   string
	order  []int
	taints map[string][]verdict.Taint // by node
	pods   map[string]verdict.Pod     // by node
	due    map[string]time.Time       // by node
	gone   map[string]time.Duration   // by node
}

// The events of which every order is played.
var reordered = []func(*trial){
	func(t *trial) { t.put(t.n, corev1.Taint{Key: "a"}) },
	func(t *trial) { t.put(t.n, corev1.Taint{Key: "a", Value: "v"}) },
	func(t *trial) { t.put(t.n, corev1.Taint{Key: "b"}) },
	func(t *trial) { t.SetTaints(t.n, t.but(t.n, "a")...) },
	func(t *trial) { t.put(t.m, corev1.Taint{Key: "a"}) },
	func(t *trial) { t.SetTaints(t.m, t.but(t.m, "a")...) },
	func(t *trial) { t.toleratesBForTwoSeconds() },
}

func newTrial(w *world, i int, order []int) *trial {
	t := &trial{
		world: w, n: fmt.Sprint("n", i), m: fmt.Sprint("m", i), order: order,
		taints: map[string][]verdict.Taint{}, pods: map[string]verdict.Pod{},
		due: map[string]time.Time{}, gone: map[string]time.Duration{},
	}
	for _, node := range []string{t.n, t.m} {
		t.addNode(node)
		t.addPod(node+"-p", onNode(node), tolerating("a", 4), tolerating("b", 6))
		t.pods[node] = verdict.Pod{Tolerations: w.Pod(node + "-p").Spec.Tolerations, Bound: time.Now()}
	}
	return t
}

// put sets a NoExecute taint on a node and replaces another of its key.
func (t *trial) put(node string, taint corev1.Taint) {
	taint.Effect = corev1.TaintEffectNoExecute
	t.SetTaints(node, append(t.but(node, taint.Key), taint)...)
}

func (t *trial) but(node, key string) []corev1.Taint {
	return slices.DeleteFunc(t.Node(node).Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

func (t *trial) toleratesBForTwoSeconds() {
	t.pods[t.n].Tolerations[1].TolerationSeconds = new(int64(2))
	if len(t.Did("delete "+t.n+"-p")) == 0 {
		t.ChangePod(t.n+"-p", func(pod *corev1.Pod) { pod.Spec.Tolerations[1].TolerationSeconds = new(int64(2)) })
	}
}

// see takes in what the API server has stored now, as the rule alone does.
func (t *trial) see() {
	now := time.Now()
	t.leave(now, time.Time{})
	for _, node := range []string{t.n, t.m} {
		t.taints[node] = verdict.Advance(t.taints[node], t.Node(node).Spec.Taints, verdict.SeenAt(now))
		delete(t.due, node)
		if v := (verdict.Rule{}).Decide(t.pods[node], t.taints[node]); v.Leaves {
			t.due[node] = v.Due
		}
	}
	t.leave(now, now)
}

// leave lets the pods leave that are due until an instant, and none before it was known.
func (t *trial) leave(until, known time.Time) {
	for node, due := range t.due {
		if _, gone := t.gone[node]; !gone && !due.After(until) {
			t.gone[node] = timeline.Later(due, known).Sub(t.Start)
		}
	}
}

func (t *trial) judge() {
	t.T.Helper()
	t.see()
	for _, node := range []string{t.n, t.m} {
		want, leaves := t.gone[node]
		at := t.Did("delete " + node + "-p")
		if leaves != (len(at) == 1) || leaves && (at[0]-want).Abs() > 20*ms {
			t.T.Errorf("order %v: the pod of node %s was deleted at %v, by the rule at %s (%t)", t.order, node[:1], at, want, leaves)
		}
	}
}

// Several orders are played in one world, each to nodes and pods of its own.
func TestWhateverTheOrderOfEventsPodsLeaveWhenTheRuleSays(t *testing.T) {
	const together = 24
	for orders := range slices.Chunk(orders(len(reordered)), together) {
		play(t, func(_ *testing.T, w *world) {
			var trials []*trial
			for i, order := range orders {
				trials = append(trials, newTrial(w, i, order))
			}
			w.run()
			for event := range reordered {
				w.Until(sec + time.Duration(event)*1300*ms)
				for _, t := range trials {
					reordered[t.order[event]](t)
					t.see()
				}
			}
			w.Until(time.Minute)
			for _, t := range trials {
				t.judge()
			}
		})
		if t.Failed() {
			return
		}
	}
}

// orders returns all orders of so many things.
func orders(count int) [][]int {
	if count == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, shorter := range orders(count - 1) {
		for i := range count {
			all = append(all, slices.Insert(slices.Clone(shorter), i, count-1))
		}
	}
	return all
}
