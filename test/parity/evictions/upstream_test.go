// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// shown is a minimal history in which upstream fails because of one defect and ours does not.
type shown struct {
	history  history
	because  defects
	pod      string
	rule     []time.Duration // when the pod must leave
	upstream []time.Duration // when upstream deletes it
}

func TestUpstreamFailsWhereOursDoesNot(t *testing.T) {
	for name, s := range failures() {
		t.Run(name, func(t *testing.T) { s.check(t) })
	}
}

// failures are the minimal histories in which upstream fails.
func failures() map[string]shown {
	node := nodeSpec{Name: "n"}
	tolerantPod := func(seconds int64) podSpec {
		return podSpec{UID: "p", Name: "p", Node: "n", Phase: corev1.PodRunning, Scheduled: new(-10 * sec), Tolerations: tolerating("a", seconds)}
	}
	plainPod := func(change func(*podSpec)) podSpec {
		pod := podSpec{UID: "p", Name: "p", Node: "n", Phase: corev1.PodRunning, Scheduled: new(-10 * sec)}
		change(&pod)
		return pod
	}
	replacement := func(node string, seconds int64) podSpec {
		return podSpec{UID: "q", Name: "p", Node: node, Phase: corev1.PodRunning, Created: 10100 * ms, Scheduled: new(10100 * ms), Tolerations: tolerating("a", seconds)}
	}
	twoTaints := podSpec{
		UID: "p", Name: "p", Node: "n", Phase: corev1.PodRunning, Scheduled: new(-10 * sec),
		Tolerations: append(tolerating("a", 31), tolerating("b", 5)...),
	}
	return map[string]shown{
		"4: a second, shorter taint brings the eviction forward": {
			history: happens(node, twoTaints, step{2100 * ms, tainted("a")}, step{4200 * ms, tainted("b")}),
			because: frozen, pod: "p", rule: at(9200 * ms), upstream: at(33100 * ms),
		},
		"4: removing the shorter taint pushes the eviction back": {
			history: happens(node, twoTaints, step{2100 * ms, tainted("b")}, step{2200 * ms, tainted("a")}, step{4300 * ms, untaint{"n", "b"}}),
			because: frozen, pod: "p", rule: at(33200 * ms), upstream: at(7100 * ms),
		},
		"4: longer tolerationSeconds take effect": {
			history: happens(node, tolerantPod(5), step{2100 * ms, tainted("a")}, step{4200 * ms, tolerate{"p", tolerating("a", 31)}}),
			because: frozen, pod: "p", rule: at(33100 * ms), upstream: at(7100 * ms),
		},
		"4: shorter tolerationSeconds take effect": {
			history: happens(node, tolerantPod(31), step{2100 * ms, tainted("a")}, step{4200 * ms, tolerate{"p", tolerating("a", 5)}}),
			because: frozen, pod: "p", rule: at(7100 * ms), upstream: at(33100 * ms),
		},
		"6: tolerationSeconds of 585 years do not evict in 0.3 s": {
			history: happens(node, tolerantPod(18446744074), step{2100 * ms, tainted("a")}),
			because: overflow, pod: "p", upstream: at(2390448384 * time.Nanosecond),
		},
		"7: a replacement with the same name on a healthy node stays": {
			history: history{
				Nodes: []nodeSpec{node, {Name: "healthy"}}, Pods: []podSpec{tolerantPod(15)}, Start: 20 * ms,
				Steps: []step{{2100 * ms, tainted("a")}, {10100 * ms, createUnseen{replacement("healthy", 15)}}},
			},
			because: byName, pod: "q", upstream: at(17100 * ms),
		},
		"7: a replacement does not inherit the countdown of the pod before it": {
			history: happens(node, tolerantPod(15), step{2100 * ms, tainted("a")}, step{10100 * ms, createUnseen{replacement("n", 15)}}),
			// Ours saw it only when the watch of pods was back, so its binding counts from the end of its second.
			because: byName, pod: "q", rule: at(26 * sec), upstream: at(17100 * ms),
		},
		"8: a terminating pod is not deleted again when the taints change": {
			history: happens(node, plainPod(func(p *podSpec) { p.Grace = 30 }),
				step{2100 * ms, tainted("a")}, step{4200 * ms, tainted("b")}, step{6300 * ms, untaint{"n", "b"}}),
			because: terminatingAgain, pod: "p", rule: at(2100 * ms), upstream: at(2100*ms, 4200*ms, 6300*ms),
		},
		"8: a pod that somebody else deleted is not deleted again": {
			history: happens(node, plainPod(func(p *podSpec) { p.Grace = 30 }), step{2100 * ms, remove{UID: "p"}}, step{4200 * ms, tainted("a")}),
			because: terminatingAgain, pod: "p", upstream: at(4200 * ms),
		},
		"9: a mirror pod is left alone": {
			history: happens(node, plainPod(func(p *podSpec) { p.Mirror = true }), step{2100 * ms, tainted("a")}),
			because: mirrorPods, pod: "p", upstream: at(2100 * ms),
		},
		"10: a restart does not start a countdown again": {
			history: happens(node, tolerantPod(21), step{2100 * ms, tainted("a")}, step{14200 * ms, restart{}}),
			// 23.1 s, and after the restart timeAdded is known to the second only.
			because: fromSight, pod: "p", rule: at(24 * sec), upstream: at(35200 * ms),
		},
		"10: a countdown starts with timeAdded": {
			history: happens(node, tolerantPod(21), step{12100 * ms, setTaint{"n", noExecute("a", 2*sec)}}),
			because: fromSight, pod: "p", rule: at(24 * sec), upstream: at(33100 * ms),
		},
		"without a number: a pod whose node is gone is left to the pod garbage collection": {
			history: happens(node, tolerantPod(21), step{2100 * ms, tainted("a")}, step{6200 * ms, removeNode{"n"}}),
			because: orphans, pod: "p", upstream: at(23100 * ms),
		},
	}
}

// check runs the history with both contestants.
func (s shown) check(t *testing.T) {
	t.Helper()
	trial := contest{ours, upstream}.try(t, &s.history)
	for _, fault := range trial.Faults() {
		t.Error(fault)
	}
	if !near(trial.ours[s.pod], s.rule, exactly) {
		t.Errorf("ours deleted pod %s at %s, want %s", s.pod, when(trial.ours[s.pod]), when(s.rule))
	}
	if !near(trial.upstream[s.pod], s.upstream, exactly) {
		t.Errorf("upstream deleted pod %s at %s, want %s", s.pod, when(trial.upstream[s.pod]), when(s.upstream))
	}
	if got := trial.explain()[s.pod]; got != s.because {
		t.Errorf("the difference is explained by %q, want %q", got, s.because)
	}
	if t.Failed() {
		t.Log("\n" + trial.Timetable())
	}
}

// These histories have taints that are written again and again, and a taint that changes its name.
func TestBothContinueCountingThroughSwapsAndRewritesAndOursAlsoThroughRestarts(t *testing.T) {
	for name, s := range rewrites() {
		t.Run(name, func(t *testing.T) { s.check(t) })
	}
}

func rewrites() map[string]shown {
	const notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	pod := func(tolerations ...corev1.Toleration) podSpec {
		return podSpec{UID: "p", Name: "p", Node: "n", Phase: corev1.PodRunning, Scheduled: new(-10 * sec), Tolerations: tolerations}
	}
	forever := corev1.Toleration{Key: notReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	usual := slices.Concat(tolerating(notReady, 21), tolerating(unreachable, 21))
	node := nodeSpec{Name: "n"}
	sick := step{2100 * ms, setTaint{"n", noExecute(notReady, 2*sec)}}
	swapped := []step{sick, {12200 * ms, setTaint{"n", noExecute(unreachable, 12*sec)}}, {12300 * ms, untaint{"n", notReady}}}
	value := func(at time.Duration, value string) step {
		taint := noExecute("a", at)
		taint.Value = value
		return step{at, setTaint{"n", taint}}
	}
	equal := func(value string, seconds int64) corev1.Toleration {
		return corev1.Toleration{Key: "a", Value: value, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	return map[string]shown{
		"a swap in two writes": {
			history: happens(node, pod(usual...), swapped...), pod: "p", rule: at(23100 * ms), upstream: at(23100 * ms),
		},
		"a swap in one write": {
			history: happens(node, pod(usual...), sick, step{12200 * ms, swap{"n", notReady, unreachable, 12 * sec}}),
			pod:     "p", rule: at(23100 * ms), upstream: at(23100 * ms),
		},
		"10: a swap and a restart": {
			history: happens(node, pod(usual...), append(swapped[:3:3], step{16400 * ms, restart{}})...),
			because: fromSight, pod: "p", rule: at(24 * sec), upstream: at(37400 * ms),
		},
		"without a number: a pod that tolerates one of the two forever": {
			history: happens(node, pod(append(tolerating(unreachable, 21), forever)...), swapped...),
			because: apart, pod: "p", rule: at(23100 * ms), upstream: at(33200 * ms),
		},
		"a template that has another value and timeAdded each time": {
			history: happens(node, pod(tolerating("a", 15)...), value(2100*ms, "x"), value(8200*ms, "y"), value(14300*ms, "x")),
			pod:     "p", rule: at(17100 * ms), upstream: at(17100 * ms),
		},
		"4: a value that is tolerated for less than the one before": {
			history: happens(node, pod(equal("x", 31), equal("y", 5)), value(2100*ms, "x"), value(8200*ms, "y")),
			because: frozen, pod: "p", rule: at(13200 * ms), upstream: at(33100 * ms),
		},
	}
}

func at(instants ...time.Duration) []time.Duration { return instants }

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
