// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// beginning is when the histories of the tests begin, at the beginning of a second.
var beginning = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

// sec is the instant the given number of seconds after the beginning.
func sec(seconds float64) time.Time {
	return beginning.Add(time.Duration(seconds * float64(time.Second)))
}

const (
	thePod  = types.UID("uid-of-the-pod")
	theName = "default/pod"
	theNode = "node"
)

// world builds a history by hand: one node, one pod that is bound to it from the beginning, and two replicas whose
// watches are open and in order, of which the first leads.
type world struct{ history }

func newWorld() *world {
	w := &world{history{
		page: newLedger().page(), pods: map[types.UID]*pod{}, nodes: map[string][]nodeState{}, calm: sec(200), end: sec(200),
	}}
	w.holders = map[string]replicaRun{"holder-a": {"a", 1}, "holder-b": {"b", 1}}
	w.reigns = []reign{{from: sec(-50), holder: "holder-a"}}
	for _, replica := range []string{"a", "b"} {
		w.lives = append(w.lives, life{replica: replica, run: 1, began: sec(-60)})
		for _, kind := range []callKind{watchPods, watchNodes} {
			w.streams = append(w.streams, stream{replica: replica, run: 1, kind: kind, opened: sec(-59)})
		}
	}
	w.pods[thePod] = &pod{uid: thePod, name: theName}
	w.podIs(0, podFacts{})
	w.tainted(-30)
	return w
}

// tolerating makes a toleration for the taints with a key, for the given number of seconds.
func tolerating(key string, seconds int64) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
}

func forever(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
}

func noExecute(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

func added(taint corev1.Taint, seconds float64) corev1.Taint {
	taint.TimeAdded = &metav1.Time{Time: sec(seconds)}
	return taint
}

// podIs says what is true of the pod from an instant on. Unless the facts say otherwise, the pod is on the node and was
// bound at the beginning.
func (w *world) podIs(from float64, facts podFacts) {
	if facts.node == "" {
		facts.node = theNode
	}
	if facts.recorded.IsZero() {
		facts.recorded = sec(0)
	}
	p := w.pods[thePod]
	p.states = append(p.states, podState{podFacts: facts, from: oracle.At(sec(from)), visible: sec(from), bound: oracle.At(sec(0))})
}

// tolerates changes the pod's tolerations.
func (w *world) tolerates(from float64, tolerations ...corev1.Toleration) {
	w.podIs(from, podFacts{tolerations: tolerations})
}

// gone makes the pod terminate, because a client has deleted it.
func (w *world) gone(from float64, by string) {
	w.podIs(from, podFacts{terminating: true})
	p := w.pods[thePod]
	p.states[len(p.states)-1].writer = by
}

// tainted says what taints the node has from an instant on.
func (w *world) tainted(from float64, taints ...corev1.Taint) { w.taintedBy("admin", from, taints...) }

func (w *world) taintedBy(writer string, from float64, taints ...corev1.Taint) {
	states := w.nodes[theNode]
	var before []oracle.Taint
	if len(states) > 0 {
		before = states[len(states)-1].taints
	}
	next := oracle.Next(before, oracle.Version{At: oracle.At(sec(from)), Taints: taints, Ours: writer == keeperUser})
	handedBack := writer == keeperUser && w.handsBack(oracle.At(sec(from)))
	w.nodes[theNode] = append(states, nodeState{from: oracle.At(sec(from)), shown: taints, taints: next, writer: writer, handedBack: handedBack})
}

// swaps makes the node not ready at 10 s and unreachable at 25 s. The pod tolerates each of the two for 20 s.
func (w *world) swaps() {
	const sick, silent = 10, 25
	notReady, unreachable := noExecute(corev1.TaintNodeNotReady), noExecute(corev1.TaintNodeUnreachable)
	w.tolerates(1, tolerating(notReady.Key, 20), tolerating(unreachable.Key, 20))
	w.tainted(sick+0.9, added(notReady, sick))
	w.tainted(silent+0.9, added(notReady, sick), added(unreachable, silent))
	w.tainted(silent+0.91, added(unreachable, silent))
}

// reignsFrom makes the leader a process that began just before an instant, and began to lead at that instant.
func (w *world) reignsFrom(seconds float64) {
	began := sec(seconds)
	w.lives[0].began, w.reigns[0].from = began.Add(-2*time.Second), began
	w.watch("a", watchPods).opened, w.watch("a", watchNodes).opened = began.Add(-time.Second), began.Add(-time.Second)
}

// calls adds a call by replica a that goes through without a fault.
func (w *world) calls(kind callKind, when float64) *call {
	c := &call{
		replica: "a", run: 1, kind: kind, name: theName, uid: thePod,
		received: sec(when), forwarded: sec(when), answered: sec(when + 0.005), told: sec(when + 0.006), answer: 200, heard: 200,
	}
	if kind == getNode {
		c.name, c.uid = theNode, ""
	}
	w.history.calls = append(w.history.calls, c)
	return c
}

// fails makes a call one that was answered with an injected error.
func (c *call) fails() {
	c.forwarded, c.answered, c.answer, c.heard, c.faults = time.Time{}, time.Time{}, 0, 500, []faultKind{internalError}
}

// isRefused makes a call one that admission refused.
func (c *call) isRefused() { c.answer, c.heard = 403, 403 }

// hangs adds an eviction: its DELETE is sent at 10 s, but carried out and answered only at the given instant.
func (w *world) hangs(answered float64) { w.hangsOn(answered, answered) }

// hangsOn is an eviction whose DELETE is sent at 10 s, carried out at an instant, and answered at another.
func (w *world) hangsOn(carriedOut, answered float64) {
	w.calls(getNode, 10.03)
	c := w.calls(deletePod, 10.05)
	c.answered, c.told = sec(answered), sec(answered+0.001)
	w.gone(carriedOut, keeperUser)
}

// guards puts the pod behind the webhook.
func (w *world) guards() { w.pods[thePod].states[0].guarded = true }

// loses makes a call one that was carried out without the replica's being told.
func (c *call) loses() { c.heard, c.faults = 0, []faultKind{droppedAnswer} }

// watch returns a watch of a replica, to be disturbed.
func (w *world) watch(replica string, kind callKind) *stream {
	for i := range w.streams {
		if w.streams[i].replica == replica && w.streams[i].kind == kind {
			return &w.streams[i]
		}
	}
	return nil
}
