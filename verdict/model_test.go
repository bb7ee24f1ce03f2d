// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// node is one in a random history, as it is, and as the oracle and an observer know it.
type node struct {
	*rand.Rand
	at     time.Duration // after noon
	taints []corev1.Taint
	truth  []oracle.Taint
	known  []verdict.Taint

	// An exact observer takes its clock for the API server's and misses nothing, and other clients write any timeAdded.
	// One that is not exact knows that clock roughly and misses versions, and every timeAdded is the truth.
	exact     bool
	missed    bool // the observer has not seen the last version
	missedAny bool
}

func (n *node) second() *metav1.Time { return &metav1.Time{Time: noon.Add(n.at).Truncate(time.Second)} }

func (n *node) String() string { return "known " + asJSON(n.known) + "\ntruth " + asJSON(n.truth) }

// timeAdded is what another client writes: none, the truth, or anything.
func (n *node) timeAdded() *metav1.Time {
	second := n.second()
	if n.exact && n.IntN(3) == 0 {
		second.Time = second.Add(time.Duration(n.IntN(40)-25) * time.Second)
	}
	return []*metav1.Time{nil, second, second}[n.IntN(3)]
}

func (n *node) index(key string) int {
	return slices.IndexFunc(n.taints, func(t corev1.Taint) bool { return t.Key == key })
}

func (n *node) remove(key string) {
	n.taints = slices.DeleteFunc(slices.Clone(n.taints), func(t corev1.Taint) bool { return t.Key == key })
}

func (n *node) set(key, value string, timeAdded *metav1.Time) {
	n.remove(key)
	taint := noExecute(key, value)
	taint.TimeAdded = timeAdded
	n.taints = append(n.taints, taint)
}

// change makes one change to the taints, and reports whether the observer made it.
func (n *node) change() (ours bool) {
	names := []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}
	value := fmt.Sprint("v", n.IntN(3))
	switch choice := n.IntN(10); choice {
	case 0:
		n.set("k", "", n.timeAdded())
	case 1: // by a client that sees whether it is there
		if n.index("k") < 0 {
			n.set("k", "", n.second())
		}
	case 2:
		n.remove("k")
	case 3, 4:
		n.revalue(value)
	case 5, 6:
		if n.IntN(2) == 0 {
			n.remove(names[choice-5])
		}
		if n.index(names[6-choice]) < 0 {
			n.set(names[6-choice], "", n.timeAdded())
		}
	case 7:
		n.remove(names[0])
		n.remove(names[1])
	default:
		return n.stamp()
	}
	return false
}

// revalue sets another value, with another timeAdded or, for an exact observer, with the same. Other observers would
// not know whether the value was set again within the same second, so for them it never writes the same, not even by
// chance.
func (n *node) revalue(value string) {
	timeAdded := n.timeAdded()
	if i := n.index("k"); i >= 0 && n.exact && n.IntN(2) == 0 {
		timeAdded = n.taints[i].TimeAdded
	} else if i >= 0 && timeAdded.Equal(n.taints[i].TimeAdded) {
		timeAdded = nil
	}
	n.set("k", value, timeAdded)
}

// stamp writes the timeAdded that the observer knows, unless its watch is behind.
func (n *node) stamp() (written bool) {
	n.taints = slices.Clone(n.taints)
	for _, taint := range n.known {
		i := n.index(taint.Key)
		if !n.missed && i >= 0 && taint.Unstamped() && n.taints[i].Value == taint.Value {
			n.taints[i].TimeAdded, written = taint.Add, true
		}
	}
	return written
}

// passes lets time pass, makes a change, and shows the node to the oracle and, unless it misses that, to the observer.
// Either may have restarted: an exact oracle does so with the observer.
func (n *node) passes(version int) {
	n.at += time.Duration(50+n.IntN([]int{400, 20000, 20000}[n.IntN(3)])) * time.Millisecond
	ours := n.change()
	misses, restarts := !n.exact && n.IntN(4) == 0, n.IntN(12) == 0
	if restarts && n.exact {
		n.truth = nil
	}
	n.truth = oracle.Next(n.truth, oracle.Version{At: oracle.At(noon.Add(n.at)), Taints: n.taints, Ours: ours})
	if misses {
		n.missed, n.missedAny = true, true
		return
	}
	if restarts {
		n.known, n.missedAny = nil, n.missedAny || !n.exact
	}
	seen := verdict.SeenAt(noon.Add(n.at))
	seen.Version, seen.Gap = fmt.Sprint(version), n.missed
	if !n.exact {
		seen.Earliest = seen.At.Add(-time.Duration(n.IntN(1000)) * time.Millisecond)
		seen.Latest = seen.At.Add(time.Duration(n.IntN(1000)) * time.Millisecond)
		seen.Behind = seen.Earliest
	}
	n.known, n.missed = verdict.Advance(n.known, n.taints, seen), false
}

// tolerations returns the tolerations of a pod that tolerates each taint and each value for a different time,
// indefinitely, or not at all.
func (n *node) tolerations() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range []string{"k", "k", "k", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		toleration := forSeconds(key, int64(n.IntN(40)))
		if key == "k" && n.IntN(2) == 0 {
			toleration.Operator, toleration.Value = corev1.TolerationOpEqual, fmt.Sprint("v", n.IntN(3))
		}
		switch n.IntN(8) {
		case 0:
			toleration.TolerationSeconds = nil
		case 1:
			continue
		}
		all = append(all, toleration)
	}
	return all
}

// An observer misses versions, restarts, knows the API server's clock to the second only, and writes what it knows.
// None of its deadlines is earlier than that of the oracle, which sees everything. Without gaps and restarts, none is
// later.
func TestWhateverAnObserverMissesNoDeadlineIsEarly(t *testing.T) {
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 0))
		n := &node{Rand: r, at: time.Duration(r.IntN(1000)) * time.Millisecond, exact: r.IntN(2) == 0}
		pod := verdict.Pod{Tolerations: n.tolerations(), Bound: noon.Add(time.Duration(r.IntN(200)-100) * time.Second)}
		for version := range 14 {
			if n.passes(version); n.missed {
				continue
			}
			want := oracle.Rule{}.Due(oracle.Pod{Tolerations: pod.Tolerations, Bound: oracle.At(pod.Bound)}, n.truth)
			got := verdict.Rule{}.Decide(pod, n.known)
			if !n.missedAny {
				checkPromised(t, got, want, n)
			} else if got.Leaves && got.Due.Before(want.From) {
				t.Errorf("due %s, according to the oracle %s, in %s", got.Due, want.From, n)
			}
			if t.Failed() {
				t.Fatalf("version %d of history %d, pod %s", version, seed, asJSON(pod))
			}
		}
	}
}
