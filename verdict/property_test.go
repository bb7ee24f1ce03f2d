// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/verdict"
)

var onlySeed = flag.Uint64("world", 0, "check only the random world of this seed, as a failure printed it")

// invariants are what holds in every world. FuzzDecide checks them too.
var invariants = []struct {
	name  string
	check func(*testing.T, world)
}{
	{"the verdict is what the oracle says", checkRule},
	{"the order of the taints does not matter", checkOrder},
	{"one more taint never makes a pod due later", checkOneMoreTaint},
	{"one more toleration at the end never makes a pod due earlier", checkOneMoreToleration},
	{"a toleration for no time changes nothing", checkForNoTime},
	{"a pod is never due before its start or its binding", checkNotTooEarly},
	{"a restart never makes a pod due earlier, and at most a second later", checkRestart},
	{"deciding changes nothing and is repeatable", checkPure},
}

func TestInvariantsHoldInRandomWorlds(t *testing.T) {
	first, worlds := uint64(1), uint64(5000)
	if *onlySeed != 0 {
		first, worlds = *onlySeed, 1
	}
	t.Logf("worlds from seed %d on", first)
	for _, invariant := range invariants {
		t.Run(invariant.name, func(t *testing.T) {
			for seed := first; seed != first+worlds; seed++ {
				invariant.check(t, newWorld(rand.New(rand.NewPCG(seed, 0)).IntN))
				if t.Failed() {
					t.Fatalf("in the world of seed %d: run again with -world %d", seed, seed)
				}
			}
		})
	}
}

// The worlds are only as good as the verdicts they lead to.
func TestRandomWorldsLeadToEveryKindOfVerdict(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(5000) {
		w := newWorld(rand.New(rand.NewPCG(seed, 0)).IntN)
		v := w.decide(w.witnessed())
		kinds[kindOf(v)]++
		if w.truthful() && w.decide(w.restarted()).Due.After(v.Due) {
			kinds["later after a restart"]++
		}
	}
	for _, kind := range []string{"no taint", "forever", "not tolerated", "at the start", "after seconds", "saturated", "later after a restart"} {
		if kinds[kind] < 50 {
			t.Errorf("%q in %d of 5000 worlds, want 50: %v", kind, kinds[kind], kinds)
		}
	}
}

func kindOf(v verdict.Verdict) string {
	switch {
	case reflect.ValueOf(v).IsZero():
		return "no taint"
	case v.Stays():
		return "forever"
	case v.Toleration == nil:
		return "not tolerated"
	case v.Due.Equal(v.Start):
		return "at the start"
	case v.Due.Equal(verdict.Latest):
		return "saturated"
	}
	return "after seconds"
}

// world is one pod on one node, and what happened when.
type world struct {
	rule        verdict.Rule
	tolerations []corev1.Toleration
	taints      []tainting
	bound       time.Time // when it was bound
	recorded    time.Time // what the API recorded of that, zero for nothing
	restart     time.Time // when another process starts, after all of this
}

// tainting is a taint, with what the API recorded, and when it really appeared.
type tainting struct {
	taint corev1.Taint
	when  time.Time
}

// dice returns a number from 0 to n-1; all randomness of a world comes from it.
type dice func(n int) int

func pick[T any](roll dice, from []T) T { return from[roll(len(from))] }

var (
	someKeys      = []string{"a", "b", "c"}
	someValues    = []string{"", "1", "5", "x"}
	someOperators = []corev1.TolerationOperator{corev1.TolerationOpExists, corev1.TolerationOpEqual, "", corev1.TolerationOpGt, corev1.TolerationOpLt}
	someEffects   = []corev1.TaintEffect{corev1.TaintEffectNoExecute, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}
	someSeconds   = []int64{math.MinInt64, -1, 0, 1, 2, 5, 300, math.MaxInt64 / int64(time.Second), 18446744074, 1 << 62, math.MaxInt64}
	someSpans     = []time.Duration{0, 1, 250 * time.Millisecond, time.Second - 1, time.Second, time.Second + 1, 2 * time.Second, 5 * time.Second, time.Hour, 1000 * time.Hour}
	someEpochs    = []time.Time{noon, noon, noon, verdict.Latest.Add(-3 * time.Second)}
)

func newWorld(roll dice) world {
	w := world{rule: verdict.Rule{Matcher: taints.Matcher{ComparisonOperators: roll(2) == 1}}}
	epoch := pick(roll, someEpochs)
	for range roll(5) {
		w.tolerations = append(w.tolerations, newToleration(roll))
	}
	for range roll(5) {
		w.addTaint(newTainting(roll, epoch))
	}
	w.bound = epoch.Add(pick(roll, someSpans))
	if roll(4) > 0 {
		w.recorded = w.bound.Truncate(time.Second)
	}
	w.restart = w.bound
	for _, t := range w.taints {
		w.restart = oracle.Later(w.restart, t.when)
	}
	w.restart = w.restart.Add(pick(roll, someSpans))
	return w
}

// addTaint keeps the taints unique by key and effect, as validation does.
func (w *world) addTaint(one tainting) {
	if !slices.ContainsFunc(w.taints, func(other tainting) bool { return one.taint.MatchTaint(&other.taint) }) {
		w.taints = append(w.taints, one)
	}
}

func newToleration(roll dice) corev1.Toleration {
	toleration := corev1.Toleration{
		Operator: pick(roll, someOperators),
		Key:      pick(roll, append(someKeys, "")),
		Value:    pick(roll, someValues),
		Effect:   pick(roll, append(someEffects, "")),
	}
	if choice := roll(len(someSeconds) + 2); choice < len(someSeconds) {
		toleration.TolerationSeconds = new(someSeconds[choice])
	}
	return toleration
}

func newTainting(roll dice, epoch time.Time) tainting {
	one := tainting{when: epoch.Add(pick(roll, someSpans))}
	one.taint = corev1.Taint{Key: pick(roll, someKeys), Value: pick(roll, someValues), Effect: pick(roll, someEffects)}
	switch roll(6) {
	case 0: // kubectl taint sets no timeAdded.
	case 1: // A clock that is ahead.
		one.taint.TimeAdded = recorded(one.when.Add(pick(roll, someSpans)))
	default:
		one.taint.TimeAdded = recorded(one.when)
	}
	return one
}

// recorded is an instant the way the API stores it.
func recorded(instant time.Time) *metav1.Time {
	return new(metav1.NewTime(instant.Truncate(time.Second)))
}

// observed is what a process that sees what happened at first(when) knows.
func (w world) observed(first func(when time.Time) time.Time) (verdict.Pod, []verdict.Taint) {
	onNode := make([]verdict.Taint, 0, len(w.taints))
	for _, t := range w.taints {
		onNode = append(onNode, verdict.Taint{Taint: t.taint, Since: verdict.SeenAt(first(t.when)).Since(t.taint.TimeAdded)})
	}
	bound := verdict.SeenAt(first(w.bound)).Start(w.recorded)
	return verdict.Pod{Tolerations: w.tolerations, Bound: bound}, onNode
}

// witnessed is what a process that saw everything happen knows.
func (w world) witnessed() (verdict.Pod, []verdict.Taint) {
	return w.observed(func(when time.Time) time.Time { return when })
}

// restarted is what a process knows if it first saw everything when it started, after it happened.
func (w world) restarted() (verdict.Pod, []verdict.Taint) {
	return w.observed(func(time.Time) time.Time { return w.restart })
}

func (w world) decide(pod verdict.Pod, onNode []verdict.Taint) verdict.Verdict {
	return w.rule.Decide(pod, onNode)
}

// truthful reports whether all that happened was recorded, in the second in which it happened.
func (w world) truthful() bool {
	for _, t := range w.taints {
		if t.taint.TimeAdded == nil || !t.taint.TimeAdded.Time.Equal(t.when.Truncate(time.Second)) {
			return false
		}
	}
	return !w.recorded.IsZero()
}

func (w world) String() string {
	facts := fmt.Sprintf("%+v, bound %s, recorded %s, restart %s", w.rule, w.bound, w.recorded, w.restart)
	for _, t := range w.taints {
		facts += fmt.Sprintf("\ntaint at %s %s", t.when, asJSON(t.taint))
	}
	return facts + "\ntolerations " + asJSON(w.tolerations)
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%+v", value)
	}
	return string(text)
}

// earlier reports whether verdict a makes the pod leave before verdict b does.
func earlier(a, b verdict.Verdict) bool {
	return a.Leaves && (b.Stays() || a.Due.Before(b.Due))
}

func checkRule(t *testing.T, w world) {
	t.Helper()
	pod, onNode := w.witnessed()
	got := w.decide(pod, onNode)
	checkPromised(t, got, w.promised(), w)
	checkExplains(t, w, pod, got)
}

// promised is when the pod is due according to the oracle, to which the taints and the binding are facts.
func (w world) promised() oracle.Span {
	var onNode []oracle.Taint
	for _, t := range w.taints {
		onNode = append(onNode, oracle.Next(nil, oracle.Version{At: oracle.At(t.when), Taints: []corev1.Taint{t.taint}})...)
	}
	bound := oracle.Dated(w.recorded, oracle.At(w.bound))
	rule := oracle.Rule{ComparisonOperators: w.rule.Matcher.ComparisonOperators}
	return rule.Due(oracle.Pod{Tolerations: w.tolerations, Bound: bound}, onNode)
}

func checkPromised(t *testing.T, got verdict.Verdict, want oracle.Span, in any) {
	t.Helper()
	if got.Leaves != (want != oracle.At(oracle.Never)) || got.Leaves && !got.Due.Equal(want.From) {
		t.Errorf("leaves %t, due %s, according to the oracle due %s, in %s", got.Leaves, got.Due, want.From, in)
	}
}

// checkExplains: the toleration that is named is in the pod's list, and everything shadowed comes after it.
func checkExplains(t *testing.T, w world, pod verdict.Pod, got verdict.Verdict) {
	t.Helper()
	if got.Toleration == nil {
		if len(got.Shadowed) > 0 {
			t.Errorf("nothing matches, but %v is shadowed, in %s", got.Shadowed, w)
		}
		return
	}
	if got.Toleration != &pod.Tolerations[got.TolerationIndex] {
		t.Errorf("the toleration is not the pod's number %d, in %s", got.TolerationIndex, w)
	}
	if !slices.IsSorted(got.Shadowed) || len(got.Shadowed) > 0 && got.Shadowed[0] <= got.TolerationIndex {
		t.Errorf("number %d cannot shadow %v, in %s", got.TolerationIndex, got.Shadowed, w)
	}
}

func checkOrder(t *testing.T, w world) {
	t.Helper()
	pod, onNode := w.witnessed()
	want := w.decide(pod, onNode)
	for range onNode {
		onNode = append(onNode[1:], onNode[0])
		checkSame(t, w, want, w.decide(pod, onNode))
		backwards := slices.Clone(onNode)
		slices.Reverse(backwards)
		checkSame(t, w, want, w.decide(pod, backwards))
	}
}

func checkSame(t *testing.T, w world, want, got verdict.Verdict) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("another verdict (-want +got):\n%s\nin %s", cmp.Diff(want, got), w)
	}
}

func checkOneMoreTaint(t *testing.T, w world) {
	t.Helper()
	pod, onNode := w.witnessed()
	with := w.decide(pod, onNode)
	for i := range onNode {
		without := w.decide(pod, slices.Delete(slices.Clone(onNode), i, i+1))
		if earlier(without, with) {
			t.Errorf("due %s without taint %d, later with it, in %s", without.Due, i, w)
		}
	}
}

func checkOneMoreToleration(t *testing.T, w world) {
	t.Helper()
	pod, onNode := w.witnessed()
	with := w.decide(pod, onNode)
	for end := range slices.Backward(pod.Tolerations) {
		pod.Tolerations = w.tolerations[:end]
		without := w.decide(pod, onNode)
		if earlier(with, without) {
			t.Errorf("due %s with toleration %d, later without it, in %s", with.Due, end, w)
		}
		with = without
	}
}

// checkForNoTime: what keeps a held pod alive when its kubelet starts changes neither whether nor when it leaves.
func checkForNoTime(t *testing.T, w world) {
	t.Helper()
	pod, onNode := w.witnessed()
	without := w.decide(pod, onNode)
	var on []corev1.Taint
	for _, taint := range onNode {
		on = append(on, taint.Taint)
	}
	for _, taint := range w.rule.Matcher.Unadmitted(on, pod.Tolerations) {
		pod.Tolerations = append(slices.Clip(pod.Tolerations), taints.ForNoTime(taint))
	}
	if left := w.rule.Matcher.Unadmitted(on, pod.Tolerations); len(left) > 0 {
		t.Errorf("a kubelet that starts would end the pod because of %v, in %s", left, w)
	}
	if with := w.decide(pod, onNode); with.Leaves != without.Leaves || !with.Due.Equal(without.Due) {
		t.Errorf("leaves %t, due %s, with it %t, %s, in %s", without.Leaves, without.Due, with.Leaves, with.Due, w)
	}
}

func checkNotTooEarly(t *testing.T, w world) {
	t.Helper()
	pod, onNode := w.witnessed()
	got := w.decide(pod, onNode)
	if !got.Leaves {
		return
	}
	if got.Due.Before(got.Start) {
		t.Errorf("due %s, before the start %s, in %s", got.Due, got.Start, w)
	}
	// What really happened, and not what was recorded of it.
	if got.Due.Before(w.bound) {
		t.Errorf("due %s, before it was bound, in %s", got.Due, w)
	}
	if when := w.appeared(got.Taint); got.Due.Before(when) {
		t.Errorf("due %s, before its taint appeared at %s, in %s", got.Due, when, w)
	}
}

func (w world) appeared(taint verdict.Taint) time.Time {
	for _, t := range w.taints {
		if t.taint.MatchTaint(&taint.Taint) {
			return t.when
		}
	}
	return time.Time{}
}

func checkRestart(t *testing.T, w world) {
	t.Helper()
	before, after := w.decide(w.witnessed()), w.decide(w.restarted())
	if before.Leaves != after.Leaves {
		t.Fatalf("leaves %t before the restart and %t after it, in %s", before.Leaves, after.Leaves, w)
	}
	if earlier(after, before) {
		t.Errorf("due %s, after a restart %s already, in %s", before.Due, after.Due, w)
	}
	// What is not in the API, or not as it happened, a restarted process cannot know to the second.
	if w.truthful() && after.Due.Sub(before.Due) > time.Second {
		t.Errorf("due %s, after a restart only %s, in %s", before.Due, after.Due, w)
	}
}

func checkPure(t *testing.T, w world) {
	t.Helper()
	pod, onNode := w.witnessed()
	keptPod, keptTaints := pod, slices.Clone(onNode)
	keptPod.Tolerations = copied(pod.Tolerations)
	for i := range keptTaints {
		onNode[i].DeepCopyInto(&keptTaints[i].Taint)
	}
	want := w.decide(pod, onNode)
	for range 2 {
		checkSame(t, w, want, w.decide(pod, onNode))
	}
	if !reflect.DeepEqual(keptPod, pod) || !reflect.DeepEqual(keptTaints, onNode) {
		t.Errorf("the input changed (-before +after):\n%s%s\nin %s", cmp.Diff(keptPod, pod), cmp.Diff(keptTaints, onNode), w)
	}
}

func copied(list []corev1.Toleration) []corev1.Toleration {
	kept := slices.Clone(list)
	for i := range kept {
		list[i].DeepCopyInto(&kept[i])
	}
	return kept
}
