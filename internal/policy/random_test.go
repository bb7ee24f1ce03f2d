// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/policy"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// worlds is the number of random worlds in which each property is tried.
const worlds = 5000

// world is a pod with its policies: for the model, and compiled.
type world struct {
	oracle.Policies

	compiled []*policy.Policy // those that select the pod
	pod      policy.Pod
	causes   []policy.Cause
	states   map[string]policy.State
	instants []time.Time // just before and at everything that happens, in order
}

// eachWorld calls a test with random worlds. The one that fails is found again by its seed.
func eachWorld(t *testing.T, try func(t *testing.T, r *rand.Rand, w *world)) {
	t.Helper()
	for seed := range uint64(worlds) {
		r := rand.New(rand.NewPCG(24, seed))
		w := newWorld(r)
		try(t, r, w)
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, w)
		}
	}
}

func (w *world) String() string {
	var list []string
	for i := range w.List {
		list = append(list, fmt.Sprintf("%s: %+v", w.List[i].Name, w.List[i].Spec))
	}
	return fmt.Sprintf("policies %q, pod %+v, causes %v, states %v", list, w.pod, w.Dues, w.states)
}

// one returns one of the values.
func one[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// someSeconds is a small whole number of seconds, so that boundaries often coincide.
func someSeconds(r *rand.Rand) *metav1.Duration { return seconds(float64(r.IntN(8))) }

func newWorld(r *rand.Rand) *world {
	w := &world{states: map[string]policy.State{}}
	w.Open = map[string]bool{}
	w.Pod, w.Namespace, w.Node = randomLabels(r), randomLabels(r), randomLabels(r)
	w.NamespaceEnds, w.Finished = r.IntN(12) == 0, r.IntN(4) == 0
	w.Unready, w.Refused = r.IntN(3) == 0, r.IntN(3) == 0
	w.pod = policy.Pod{
		Labels: labels.Set(w.Pod), NamespaceLabels: labels.Set(w.Namespace), NodeLabels: labels.Set(w.Node),
		NamespaceEnds: w.NamespaceEnds, Finished: w.Finished, Unready: w.Unready,
	}
	if w.Refused {
		w.pod.Budgets.Objects = one(r, policy.Budget, policy.SeveralBudgets, policy.NotPermitted, policy.PodUnread)
	}
	for range 1 + r.IntN(3) {
		taint := corev1.Taint{Key: one(r, "x", "y", corev1.TaintNodeOutOfService), Value: one(r, "", "1")}
		if r.IntN(3) > 0 {
			taint.Key = "x"
		}
		by := oracle.DueBy{Taint: taint, At: due.Add(someSeconds(r).Duration)}
		if r.IntN(3) == 0 {
			by.Seen = by.At.Add(someSeconds(r).Duration)
		}
		if r.IntN(3) == 0 {
			by.Released = due.Add(someSeconds(r).Duration)
		}
		w.Dues = append(w.Dues, by)
		w.causes = append(w.causes, policy.Cause{
			Taint: &by.Taint, Due: by.At, Seen: by.Seen, Halt: policy.Halt{Ended: by.Released},
		})
	}
	for i := range r.IntN(4) {
		w.add(r, string(rune('a'+i)))
	}
	w.findInstants()
	return w
}

// add adds a random policy.
func (w *world) add(r *rand.Rand, name string) {
	object := randomPolicy(r, name)
	w.List = append(w.List, object)
	compiled, _ := policy.New(&object) // a broken one holds too much
	if r.IntN(4) == 0 && object.Spec.Breaker != nil {
		w.Open[name] = true
		w.states[name] = one(r, policy.State{Open: "open"}, policy.State{Open: "open", Unread: true})
	}
	if compiled.Mismatch(&w.pod) == "" {
		w.compiled = append(w.compiled, compiled)
	}
}

// without returns the world without one of its policies.
func (w *world) without(name string) *world {
	less := *w
	less.List = slices.DeleteFunc(slices.Clone(w.List), func(p v1alpha1.EvictionPolicy) bool { return p.Name == name })
	less.compiled = slices.DeleteFunc(slices.Clone(w.compiled), func(p *policy.Policy) bool { return p.Name == name })
	return &less
}

func randomLabels(r *rand.Rand) map[string]string {
	set := map[string]string{}
	for _, key := range []string{"a", "b"} {
		if r.IntN(2) == 0 {
			set[key] = one(r, "", "1", "2")
		}
	}
	return set
}

func randomSelector(r *rand.Rand) *v1alpha1.Selector {
	switch r.IntN(8) {
	case 0:
		return &v1alpha1.Selector{}
	case 1:
		return &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{one(r, "a", "b"): one[v1alpha1.LabelValue](r, "", "1", "2")}}
	case 2:
		return requires(one(r, "a", "b"), one(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), "1", one[v1alpha1.LabelValue](r, "", "2"))
	case 3:
		return requires(one(r, "a", "b"), one(r, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist))
	case 4:
		return requires(one(r, "a", "b"), "in", "1") // it cannot be read
	}
	return nil
}

func randomPolicy(r *rand.Rand, name string) v1alpha1.EvictionPolicy {
	s := spec{
		NamespaceSelector: randomSelector(r), PodSelector: randomSelector(r), NodeSelector: randomSelector(r),
		Action:   one(r, v1alpha1.ActionDelete, v1alpha1.ActionEvict, v1alpha1.ActionEvict, v1alpha1.ActionHold),
		Unready:  one(r, "", v1alpha1.UnreadyDelete, v1alpha1.UnreadyAsk),
		Finished: one(r, "", v1alpha1.FinishedDelete, v1alpha1.FinishedKeep),
		DryRun:   r.IntN(8) == 0,
	}
	for range r.IntN(3) {
		s.Taints = append(s.Taints, v1alpha1.EvictionPolicyTaint{
			Key: one(r, "x", "x", "y", corev1.TaintNodeOutOfService), Value: one(r, nil, nil, new(""), new("1")),
		})
	}
	if r.IntN(16) == 0 {
		s.Action = "Request"
	}
	if r.IntN(8) == 0 {
		s.Paused = &maintenance
	}
	if r.IntN(3) > 0 {
		s.Deadline = someSeconds(r)
	}
	if r.IntN(3) == 0 {
		s.Breaker = &v1alpha1.EvictionBreaker{MaxDue: intstr.FromInt32(1), Settle: one(r, nil, someSeconds(r), someSeconds(r), someSeconds(r), someSeconds(r))}
		if r.IntN(2) == 0 {
			s.Breaker.ResumedAt = &metav1.Time{Time: at(float64(r.IntN(12)))}
		}
	}
	object := v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: s}
	if r.IntN(6) == 0 {
		object.Status.HaltedUntil = &metav1.Time{Time: at(float64(r.IntN(8)))}
	}
	return object
}

// findInstants finds the instants without looking at what decides: everything random happens at a whole second.
func (w *world) findInstants() {
	for n := range 18 {
		w.instants = append(w.instants, at(float64(n)).Add(-1), at(float64(n)))
	}
}

func (w *world) decide(now time.Time) (policy.Answer, time.Time) {
	said := policy.Decide(w.compiled, &w.pod, w.causes, now, func(p *policy.Policy) policy.State { return w.states[p.Name] })
	return said.Answer, said.Again
}

// due reports whether the pod is due.
func (w *world) due(now time.Time) bool {
	return slices.ContainsFunc(w.Dues, func(by oracle.DueBy) bool { return !by.At.After(now) })
}

func TestNoAnswerIsMilderOrStricterThanTheModel(t *testing.T) {
	seen := map[oracle.Leave]int{}
	eachWorld(t, func(t *testing.T, _ *rand.Rand, w *world) {
		for _, now := range w.instants {
			if !w.due(now) {
				continue
			}
			may := w.May(now)
			seen[may]++
			if answer, _ := w.decide(now); leave(answer) != may {
				t.Errorf("%v after due the answer is %+v, according to the model it is %v", now.Sub(due), answer, may)
			}
		}
	})
	for _, may := range []oracle.Leave{oracle.Stay, oracle.AskFirst, oracle.LeaveFree} {
		if seen[may] < worlds/2 {
			t.Errorf("%d answers are %v: the worlds are too much alike", seen[may], may)
		}
	}
}

// leave is an answer in the words of the model.
func leave(a policy.Answer) oracle.Leave {
	switch a.Step {
	case policy.Free:
		return oracle.LeaveFree
	case policy.Ask:
		return oracle.AskFirst
	}
	return oracle.Stay
}

func TestAPolicyNeverMakesAnAnswerMilder(t *testing.T) {
	stricter := 0
	eachWorld(t, func(t *testing.T, r *rand.Rand, w *world) {
		w.add(r, "added")
		less := w.without("added")
		for _, now := range w.instants {
			if !w.due(now) {
				continue
			}
			with, _ := w.decide(now)
			without, _ := less.decide(now)
			if milder(with, without) {
				t.Errorf("%v after due the answer is %+v, without one policy it is %+v", now.Sub(due), with, without)
			}
			if with.Step > without.Step {
				stricter++
			}
		}
	})
	if stricter < worlds {
		t.Errorf("a policy has made an answer stricter only %d times", stricter)
	}
}

// milder reports whether one answer lets the pod do more than another, or ends earlier.
func milder(one, other policy.Answer) bool {
	if one.Step != other.Step {
		return one.Step < other.Step
	}
	return !one.Until.IsZero() && (other.Until.IsZero() || one.Until.Before(other.Until))
}

// TestTheAnswerStaysUntilAgain also has paces without room.
func TestTheAnswerStaysUntilAgain(t *testing.T) {
	changes := 0
	eachWorld(t, func(t *testing.T, r *rand.Rand, w *world) {
		for _, p := range w.compiled {
			state := w.states[p.Name]
			state.Room = since(float64(r.IntN(16)))
			w.states[p.Name] = state
		}
		for i, now := range w.instants {
			answer, again := w.decide(now)
			if !again.IsZero() && !again.After(now) {
				t.Errorf("%v after due the answer can change at %v", now.Sub(due), again.Sub(due))
			}
			for _, later := range w.instants[i:] {
				if !again.IsZero() && !later.Before(again) {
					break
				}
				if next, _ := w.decide(later); next != answer {
					t.Errorf("%v after due the answer is %+v, and not again until %v; %v after due it is %+v",
						now.Sub(due), answer, again.Sub(due), later.Sub(due), next)
				}
			}
			if next, _ := w.decide(again); !again.IsZero() && next != answer {
				changes++
			}
		}
	})
	if changes < worlds {
		t.Errorf("only %d answers have changed", changes)
	}
}
