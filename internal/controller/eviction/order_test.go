// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/sample"
)

// trial is two nodes and two pods, to which events happen in one order, and what is promised to the pods. Pods "p" and
// "q" are on node "n"; node "m" has the taint "b" from the start.
type trial struct {
	*world

	number int
	order  []int // of events
	nodes  map[string][]oracle.Version
	pods   []*promised // the last is the newest "p"
}

// promised is a pod and what is true of it.
type promised struct {
	name, node string
	bound      oracle.Span
	states     []oracle.State
}

// Every order of these events is played, and every order of some of them.
var reordered = []func(*trial){
	func(t *trial) { t.taint("n", "a", corev1.Taint{Key: "a"}) },
	func(t *trial) { t.taint("n", "a", corev1.Taint{Key: "a", Value: "v"}) },
	func(t *trial) { t.taint("n", "b", corev1.Taint{Key: "b"}) },
	func(t *trial) { t.taint("n", "a") },
	(*trial).shorten,
	(*trial).replace,
	(*trial).registerAgain,
}

func newTrial(w *world, number int, order []int) *trial {
	t := &trial{world: w, number: number, order: order, nodes: map[string][]oracle.Version{}}
	t.register("n")
	t.register("m")
	t.taint("m", "b", corev1.Taint{Key: "b"})
	t.add("q", "n", func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{
			{Key: "a", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(4))},
			{Key: "a", Operator: corev1.TolerationOpExists},
		}
	}, tolerating("b", 6))
	t.add("p", "n", tolerating("a", 4), tolerating("b", 6))
	return t
}

var (
	nodeResource = corev1.SchemeGroupVersion.WithResource("nodes")
	podResource  = corev1.SchemeGroupVersion.WithResource("pods")
)

func (t *trial) id(name string) string { return fmt.Sprintf("%s-%d", name, t.number) }

func (t *trial) register(node string) {
	uid := types.UID(fmt.Sprint(t.id(node), "-", len(t.nodes[node])))
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: t.id(node), UID: uid}}
	t.Must(nil, t.API.Create(nodeResource, object, ""))
}

// registerAgain lets node "n" be deleted and come back without taints.
func (t *trial) registerAgain() {
	t.Must(nil, t.API.Delete(nodeResource, "", t.id("n")))
	t.register("n")
	t.nodes["n"] = append(t.nodes["n"], oracle.Version{At: oracle.At(time.Now())})
}

// taint replaces the NoExecute taint of a key.
func (t *trial) taint(name, key string, instead ...corev1.Taint) {
	for {
		object, err := t.API.Get(nodeResource, "", t.id(name))
		t.Must(nil, err)
		node := object.(*corev1.Node)
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
		for _, taint := range instead {
			taint.Effect = corev1.TaintEffectNoExecute
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
		err = t.API.Update(nodeResource, node, "")
		if apierrors.IsConflict(err) { // a timeAdded was written meanwhile
			continue
		}
		t.Must(nil, err)
		t.nodes[name] = append(t.nodes[name], oracle.Version{At: oracle.At(time.Now()), Taints: node.Spec.Taints})
		return
	}
}

func (t *trial) add(name, node string, change ...func(*corev1.Pod)) {
	now := oracle.At(time.Now())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: t.id(name), UID: types.UID(fmt.Sprint(t.id(name), "-", len(t.pods))),
			CreationTimestamp: metav1.NewTime(now.From.Truncate(time.Second)),
		},
		Spec: corev1.PodSpec{NodeName: t.id(node)},
	}
	for _, apply := range change {
		apply(pod)
	}
	t.Must(nil, t.API.Create(podResource, pod, "default"))
	state := oracle.State{At: now, Tolerations: pod.Spec.Tolerations}
	t.pods = append(t.pods, &promised{name, node, now, []oracle.State{state}})
}

// shorten lets pod "p", if it is still there, tolerate the taint "b" for only two seconds.
func (t *trial) shorten() {
	object, err := t.API.Get(podResource, "default", t.id("p"))
	if err != nil {
		return
	}
	pod := object.(*corev1.Pod)
	pod.Spec.Tolerations[1].TolerationSeconds = new(int64(2))
	t.Must(nil, t.API.Update(podResource, pod, "default"))
	t.became(oracle.State{Tolerations: pod.Spec.Tolerations})
}

// replace deletes pod "p", if it is still there, and creates another pod with its name on node "m".
func (t *trial) replace() {
	if err := t.API.Delete(podResource, "default", t.id("p")); err == nil {
		t.became(oracle.State{Spared: true})
	}
	t.add("p", "m", tolerating("a", 4), tolerating("b", 6))
}

func (t *trial) became(state oracle.State) {
	state.At = oracle.At(time.Now())
	newest := t.pods[len(t.pods)-1]
	newest.states = append(newest.states, state)
}

// judge wants the pods to have been deleted when they had to leave, and not otherwise.
func (t *trial) judge(deleted map[string][]time.Duration) {
	t.T.Helper()
	want := map[string][]time.Duration{}
	for _, pod := range t.pods {
		if due := (oracle.Rule{}).Promise(t.nodes[pod.node], pod.bound, pod.states).Due; due.To.Before(oracle.Never) {
			want[pod.name] = append(want[pod.name], due.To.Sub(t.Start))
		}
	}
	late := func(got, want time.Duration) int {
		if got >= want && got <= want+20*ms {
			return 0
		}
		return 1
	}
	for _, name := range []string{"p", "q"} {
		if got := deleted[t.id(name)]; slices.CompareFunc(got, want[name], late) != 0 {
			t.T.Errorf("order %v: pods %s were deleted at %v, want at %v", t.order, name, got, want[name])
		}
	}
}

// Many orders are played in one world, each with nodes and pods of its own. With -short they have fewer events.
func TestWhateverTheOrderOfEventsPodsLeaveWhenTheRuleSays(t *testing.T) {
	const together = 100
	most := sample.Size(t, "events of an order", len(reordered), 4)
	for some := range slices.Chunk(orders(len(reordered), most), together) {
		play(t, func(_ *testing.T, w *world) {
			var trials []*trial
			for i, order := range some {
				trials = append(trials, newTrial(w, i, order))
			}
			w.run()
			for i := range reordered {
				w.Until(sec + time.Duration(i)*1300*ms)
				for _, t := range trials {
					if i < len(t.order) {
						reordered[t.order[i]](t)
					}
				}
			}
			w.Until(time.Minute)
			deleted := map[string][]time.Duration{}
			for _, call := range w.Book.Calls() {
				if name, ok := strings.CutPrefix(call.What, "delete "); ok {
					deleted[name] = append(deleted[name], call.At)
				}
			}
			for _, t := range trials {
				t.judge(deleted)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// orders returns all orders of any of the given number of events: of none, of one, and so on up to most.
func orders(count, most int) [][]int {
	all := [][]int{nil}
	for i := 0; i < len(all) && len(all[i]) < most; i++ {
		for event := range count {
			if !slices.Contains(all[i], event) {
				all = append(all, append(slices.Clone(all[i]), event))
			}
		}
	}
	return all
}
