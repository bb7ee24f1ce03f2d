// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// story is a minimal history in which upstream differs from the rule because of one quirk, or not at all. Ours keeps the
// rule in all of them.
type story struct {
	history history
	because quirks // of evictions: none if upstream does what the rule says
	name    string // the pod or node that it is about

	// For evictions only: when the pod must leave, when upstream deletes it, and what the shadow then reports.
	rule, upstream []look
	shadow         seen
}

func TestEachQuirkAloneMakesUpstreamDiffer(t *testing.T) {
	for name, s := range evictionStories() {
		t.Run(name, func(t *testing.T) {
			trial := s.play(t, &evictions)
			if got := trial.ours[s.name]; !equal(got, s.rule, exactly) {
				t.Errorf("ours deleted pod %s at %v, want %v", s.name, got, s.rule)
			}
			if got := trial.upstream[s.name]; !equal(got, s.upstream, exactly) {
				t.Errorf("upstream deleted pod %s at %v, want %v", s.name, got, s.upstream)
			}
			if got := trial.explain()[s.name]; got&^agrees != s.because {
				t.Errorf("the difference is explained by %q, want %q", evictions.names(got), evictions.names(s.because))
			}
			s.shadow.check(t, compared(t, &s.history, upstream))
		})
	}
	for name, s := range healthStories() {
		t.Run(name, func(t *testing.T) {
			trial := s.play(t, &health)
			without := predictUpstream(&s.history, trial.passes, health.all()&^s.because)[s.name]
			if s.because != none && equal(without, trial.upstream[s.name], exactly) {
				t.Errorf("without %q the model does as upstream did, too: %s", health.names(s.because), without)
			}
			if equal(trial.ours[s.name], trial.upstream[s.name], exactly) {
				t.Error("ours does as upstream did")
			}
		})
	}
}

// play plays the history to both contestants.
func (s story) play(t *testing.T, g *game) *trial {
	t.Helper()
	trial := g.try(t, &s.history)
	if err := trial.check(); err != nil {
		t.Error(err)
	}
	return trial
}

func evictionStories() map[string]story {
	node := nodeSpec{Name: "n"}
	pod := func(tolerations ...corev1.Toleration) podSpec { return running("p", "n", tolerations...) }
	twoTaints := pod(slices.Concat(tolerating("a", 31), tolerating("b", 5))...)
	lasting, mirror := pod(), pod()
	lasting.Grace, mirror.Mirror = 30, true
	replacement := func(node string) create {
		pod := running("q", node, tolerating("a", 15)...)
		pod.Name, pod.Created, pod.Scheduled = "p", 10100*ms, new(10100*ms)
		return create{pod, true}
	}
	const notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	forever := corev1.Toleration{Key: notReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	usual := slices.Concat(tolerating(notReady, 21), tolerating(unreachable, 21))
	sick := step{2100 * ms, setTaint{"n", noExecute(notReady, 2*sec)}}
	swapped := []step{sick, {12200 * ms, setTaint{"n", noExecute(unreachable, 12*sec)}}, {12300 * ms, untaint{Node: "n", Key: notReady}}}
	value := func(at time.Duration, value string) step {
		taint := noExecute("a", at)
		taint.Value = value
		return step{at, setTaint{"n", taint}}
	}
	equals := func(value string, seconds int64) corev1.Toleration {
		return corev1.Toleration{Key: "a", Value: value, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	return map[string]story{
		"4: a second, shorter taint brings the eviction forward": {
			history: happens(node, twoTaints, step{2100 * ms, tainted("a")}, step{4200 * ms, tainted("b")}),
			because: frozen, name: "p", rule: at(9200 * ms), upstream: at(33100 * ms),
			shadow: seen{v1alpha1.ShadowLate, "the built-in controller ignored a second taint with a shorter toleration"},
		},
		"4: removing the shorter taint pushes the eviction back": {
			history: happens(node, twoTaints, step{2100 * ms, tainted("b")}, step{2200 * ms, tainted("a")}, step{4300 * ms, untaint{Node: "n", Key: "b"}}),
			because: frozen, name: "p", rule: at(33200 * ms), upstream: at(7100 * ms),
			shadow: seen{v1alpha1.ShadowEarly, "went on with the first countdown, of 5 s for b, after that taint was removed"},
		},
		"4: longer tolerationSeconds take effect": {
			history: happens(node, pod(tolerating("a", 5)...), step{2100 * ms, tainted("a")}, step{4200 * ms, tolerate{"p", tolerating("a", 31)}}),
			because: frozen, name: "p", rule: at(33100 * ms), upstream: at(7100 * ms),
			shadow: seen{v1alpha1.ShadowEarly, "it ignored the change of tolerationSeconds to 31"},
		},
		"4: shorter tolerationSeconds take effect": {
			history: happens(node, pod(tolerating("a", 31)...), step{2100 * ms, tainted("a")}, step{4200 * ms, tolerate{"p", tolerating("a", 5)}}),
			because: frozen, name: "p", rule: at(7100 * ms), upstream: at(33100 * ms),
			shadow: seen{v1alpha1.ShadowLate, "it ignored the change of tolerationSeconds to 5"},
		},
		"6: tolerationSeconds of 585 years do not evict in 0.3 s": {
			history: happens(node, pod(tolerating("a", 18446744074)...), step{2100 * ms, tainted("a")}),
			because: overflow, name: "p", upstream: at(2390448384 * time.Nanosecond),
			shadow: seen{v1alpha1.ShadowEarly, "overflow"},
		},
		"7: a replacement with the same name on a healthy node stays": {
			history: history{
				Nodes: []nodeSpec{node, {Name: "healthy"}}, Pods: []podSpec{pod(tolerating("a", 15)...)}, Start: 20 * ms,
				Steps: []step{{2100 * ms, tainted("a")}, {10100 * ms, replacement("healthy")}},
			},
			because: byName, name: "q", upstream: at(17100 * ms),
			shadow: seen{v1alpha1.ShadowTwice, "the built-in controller deletes by name"},
		},
		"7: a replacement does not inherit the countdown of the pod before it": {
			history: happens(node, pod(tolerating("a", 15)...), step{2100 * ms, tainted("a")}, step{10100 * ms, replacement("n")}),
			// Ours saw it only when the watch of pods was back, so its binding counts from the end of its second.
			because: byName, name: "q", rule: at(26 * sec), upstream: at(17100 * ms),
			shadow: seen{v1alpha1.ShadowEarly, "the countdown of the pod that had this name before"},
		},
		"8: a terminating pod is not deleted again when the taints change": {
			history: happens(node, lasting,
				step{2100 * ms, tainted("a")}, step{4200 * ms, tainted("b")}, step{6300 * ms, untaint{Node: "n", Key: "b"}}),
			because: terminatingAgain, name: "p", rule: at(2100 * ms), upstream: at(2100*ms, 4200*ms, 6300*ms),
			shadow: seen{outcome: v1alpha1.ShadowOnTime},
		},
		"8: a pod that somebody else deleted is not deleted again": {
			history: happens(node, lasting, step{2100 * ms, remove{UID: "p"}}, step{4200 * ms, tainted("a")}),
			because: terminatingAgain, name: "p", upstream: at(4200 * ms),
			shadow: seen{v1alpha1.ShadowTwice, "already terminating"},
		},
		"9: a mirror pod is left alone": {
			history: happens(node, mirror, step{2100 * ms, tainted("a")}),
			because: mirrorPods, name: "p", upstream: at(2100 * ms),
			shadow: seen{v1alpha1.ShadowStayed, "mirror of a static pod"},
		},
		"10: a restart does not start a countdown again": {
			history: happens(node, pod(tolerating("a", 21)...), step{2100 * ms, tainted("a")}, step{14200 * ms, restart{}}),
			// 23.1 s, and after the restart timeAdded is known to the second only.
			because: fromSight, name: "p", rule: at(24 * sec), upstream: at(35200 * ms),
			shadow: seen{v1alpha1.ShadowLate, "evicted 12 s late: the built-in controller restarted its countdown of 21 s at 00:00:14, probably because the process restarted; it should have begun at 00:00:02"},
		},
		"10: a countdown starts with timeAdded": {
			history: happens(node, pod(tolerating("a", 21)...), step{12100 * ms, setTaint{"n", noExecute("a", 2*sec)}}),
			because: fromSight, name: "p", rule: at(24 * sec), upstream: at(33100 * ms),
			shadow: seen{v1alpha1.ShadowLate, "when it first saw taint a"},
		},
		"without a number: a pod whose node is gone is left to the pod garbage collection": {
			history: happens(node, pod(tolerating("a", 21)...), step{2100 * ms, tainted("a")}, step{6200 * ms, removeNode{"n"}}),
			because: orphans, name: "p", upstream: at(23100 * ms),
			shadow: seen{outcome: v1alpha1.ShadowUnjudged},
		},

		// Taints that are written again and again, and a taint that changes its name.
		"a swap in two writes": {
			history: happens(node, pod(usual...), swapped...), name: "p", rule: at(23100 * ms), upstream: at(23100 * ms),
			shadow: seen{outcome: v1alpha1.ShadowOnTime},
		},
		"a swap in one write": {
			history: happens(node, pod(usual...), sick, step{12200 * ms, swap{"n", notReady, unreachable, 12 * sec}}),
			name:    "p", rule: at(23100 * ms), upstream: at(23100 * ms),
			shadow: seen{outcome: v1alpha1.ShadowOnTime},
		},
		"ready between not ready and unreachable": {
			history: happens(node, pod(usual...), sick,
				step{8200 * ms, untaint{Node: "n", Key: notReady}}, step{10300 * ms, setTaint{"n", noExecute(unreachable, 10*sec)}}),
			name: "p", rule: at(31300 * ms), upstream: at(31300 * ms),
			shadow: seen{outcome: v1alpha1.ShadowOnTime},
		},
		"10: a swap and a restart": {
			history: happens(node, pod(usual...), append(swapped[:3:3], step{16400 * ms, restart{}})...),
			because: fromSight, name: "p", rule: at(24 * sec), upstream: at(37400 * ms),
			shadow: seen{v1alpha1.ShadowLate, "restarted its countdown of 21 s at 00:00:16"},
		},
		"10: a pod that tolerates one of the two forever": {
			history: happens(node, pod(append(tolerating(unreachable, 21), forever)...), swapped...),
			because: fromSight, name: "p", rule: at(23100 * ms), upstream: at(33200 * ms),
			shadow: seen{v1alpha1.ShadowLate, "when it first saw taint node.kubernetes.io/unreachable"},
		},
		"a template that has another value and timeAdded each time": {
			history: happens(node, pod(tolerating("a", 15)...), value(2100*ms, "x"), value(8200*ms, "y"), value(14300*ms, "x")),
			name:    "p", rule: at(17100 * ms), upstream: at(17100 * ms),
			shadow: seen{outcome: v1alpha1.ShadowOnTime},
		},
		"4: a value that is tolerated for less than the one before": {
			history: happens(node, pod(equals("x", 31), equals("y", 5)), value(2100*ms, "x"), value(8200*ms, "y")),
			because: frozen, name: "p", rule: at(13200 * ms), upstream: at(33100 * ms),
			shadow: seen{v1alpha1.ShadowLate, "it ignored the change of tolerationSeconds to 5"},
		},
	}
}

// running is a pod that was bound to a node before the history began.
func running(uid, node string, tolerations ...corev1.Toleration) podSpec {
	return podSpec{UID: uid, Name: uid, Node: node, Phase: corev1.PodRunning, Scheduled: new(-10 * sec), Tolerations: tolerations}
}

func happens(node nodeSpec, pod podSpec, steps ...step) history {
	return history{Nodes: []nodeSpec{node}, Pods: []podSpec{pod}, Start: 20 * ms, Steps: steps}
}

// tainted sets a NoExecute taint as kubectl does, without timeAdded.
func tainted(key string) action {
	return setTaint{"n", corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}}
}

func tolerating(key string, seconds int64) []corev1.Toleration {
	return []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}}
}

func notReady(at time.Duration, node string) step {
	return step{at, report{node, corev1.NodeReady, corev1.ConditionFalse}}
}

func ready(at time.Duration, node string) step {
	return step{at, report{node, corev1.NodeReady, corev1.ConditionTrue}}
}

func healthStories() map[string]story {
	nodes := func(zone string, count int) []nodeSpec {
		var all []nodeSpec
		for i := range count {
			// Each renews before the one after it, so that each falls silent before it.
			all = append(all, nodeSpec{Name: zone + string(rune('1'+i)), Zone: zone, Phase: time.Duration(i)*sec + 90*ms + time.Duration(zone[0]-'a')*ms/4})
		}
		return all
	}
	happens := func(nodes []nodeSpec, steps ...step) history { return history{Nodes: nodes, Start: sec, Steps: steps} }
	m := nodeSpec{Name: "m", Zone: "a", Phase: 95 * ms, Absent: true} // it has no kubelet
	again := m
	again.Created = 52 * sec
	fifth := nodeSpec{Name: "a5", Zone: "a", Phase: 95 * ms, Created: 40 * sec}
	silent := func(at time.Duration, node string) step { return step{at, fall{[]string{node}}} }
	until := func(at time.Duration, node string) step { return step{at, cordon{node, false}} } // nothing
	twoZones := append(nodes("a", 4), nodes("b", 1)...)
	return map[string]story{
		"a restart takes a taint off and puts it back later": {because: startOff, name: "a2", history: happens(
			nodes("a", 4), notReady(20098*ms, "a1"), notReady(21098*ms, "a2"), step{60098 * ms, restart{}})},
		"a heartbeat that came alone makes silence begin a period later": {because: leaseForgotten, name: "a2", history: happens(
			nodes("a", 3), silent(67098*ms, "a2"), until(150098*ms, "a3"))},
		"who fell first is not tainted first": {because: passOrder, name: "a3", history: happens(
			nodes("a", 8), notReady(20098*ms, "a5"), notReady(22098*ms, "a4"), notReady(27098*ms, "a3"))},
		"a node that is ready again uses up a token": {because: wastedTokens, name: "a3", history: happens(
			nodes("a", 8), notReady(20098*ms, "a1"), notReady(22098*ms, "a2"), notReady(24098*ms, "a3"), ready(31098*ms, "a2"))},
		"a zone that grows large while it is disrupted keeps the rate of a small one": {because: stateOnly, name: "a2", history: happens(
			twoZones, notReady(20098*ms, "a1"), notReady(21098*ms, "a2"), notReady(22098*ms, "a3"), step{40098 * ms, addNode{fifth}})},
		"a node without a kubelet inherits the silence of the previous node with its name": {because: recordByName, name: "m", history: happens(
			append(nodes("a", 3), m), step{50098 * ms, removeNode{"m"}}, step{52098 * ms, addNode{again}})},
		"a taint that somebody sets while all zones are disrupted stays": {because: offOnce, name: "a1", history: happens(
			nodes("a", 2), notReady(20098*ms, "a1"), notReady(21098*ms, "a2"),
			step{60098 * ms, setTaint{"a1", corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}})},
		"a zone that is disrupted for a moment waits for its next token from the start": {because: newLimiter, name: "a2", history: happens(
			twoZones, notReady(20098*ms, "a1"), notReady(21098*ms, "a2"), notReady(23098*ms, "a3"), ready(29098*ms, "a3"))},
		"a restart gives a token": {because: tokenAtStart, name: "a2", history: happens(
			nodes("a", 4), notReady(20098*ms, "a1"), step{22098 * ms, restart{}}, notReady(23098*ms, "a2"))},
		"a node from which nothing was ever heard has another grace period each time another recovers": {
			because: graceForUnheard, name: "m", history: happens(append(nodes("a", 1), m), notReady(20098*ms, "a1"), ready(40098*ms, "a1"))},
		"the countdown of pods begins again when not ready becomes unreachable": {because: newTimeAdded, name: "a1", history: happens(
			nodes("a", 3), notReady(20098*ms, "a1"), silent(21098*ms, "a1"))},
		"a silent node stays ready after a write to its Lease that does not renew it": {because: leaseWritten, name: "a1", history: happens(
			nodes("a", 3), silent(20098*ms, "a1"), step{40098 * ms, touch{"a1"}}, until(200098*ms, "a3"))},
	}
}
