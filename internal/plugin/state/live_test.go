// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

var first = time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)

func second(s int) time.Time { return first.Add(time.Duration(s) * time.Second) }

// tainted returns node n with NoExecute taints, which were added at the given seconds.
func tainted(added map[string]int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for key, at := range added {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(second(at))),
		})
	}
	return node
}

// tolerant returns a pod on node n that tolerates taint m for 300 s, and has been there for an hour.
func tolerant(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(second(-3600)),
		},
		Spec: corev1.PodSpec{NodeName: "n", Tolerations: []corev1.Toleration{
			{Key: "m", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))},
		}},
	}
}

// due returns when pod p must leave, in seconds; -1 if it need not.
func due(live *state.Live) int {
	leaving, leaves := live.Leaving("p")
	if !leaves {
		return -1
	}
	return int(leaving.Verdict.Due.Sub(first) / time.Second)
}

func TestHowLongATaintCountsThatIsFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*state.Live)
		want int
	}{
		"it stays":                      {func(l *state.Live) { l.SetNode(tainted(map[string]int{"m": 0}), second(61)) }, 300},
		"it is removed":                 {func(l *state.Live) { l.SetNode(tainted(nil), second(61)) }, -1},
		"another comes":                 {func(l *state.Live) { l.SetNode(tainted(map[string]int{"m": 0, "k": 60}), second(60)) }, 60},
		"its node is gone":              {func(l *state.Live) { l.DeleteNode("n") }, -1},
		"a node that is unknown is":     {func(l *state.Live) { l.DeleteNode("other") }, 300},
		"the pod is gone":               {func(l *state.Live) { l.DeletePod("p") }, -1},
		"a pod that is unknown is gone": {func(l *state.Live) { l.DeletePod("other") }, 300},
		"it is removed and set again": {func(l *state.Live) {
			l.SetNode(tainted(nil), second(10))
			l.SetNode(tainted(map[string]int{"m": 60}), second(60))
		}, 360},
		"its node is replaced by another of the name": {func(l *state.Live) {
			l.DeleteNode("n")
			l.SetNode(tainted(map[string]int{"m": 60}), second(60))
		}, 360},
		"the pod moves to another node": {func(l *state.Live) {
			elsewhere := tolerant("p")
			elsewhere.Spec.NodeName = "other"
			l.SetPod(elsewhere, second(60))
		}, -1},
		"the pod tolerates it longer": {func(l *state.Live) {
			patient := tolerant("p")
			patient.Spec.Tolerations[0].TolerationSeconds = new(int64(600))
			l.SetPod(patient, second(60))
		}, 600},
	} {
		t.Run(name, func(t *testing.T) {
			live := state.LiveOf(state.Evictor{}, []*corev1.Node{tainted(map[string]int{"m": 0})}, []*corev1.Pod{tolerant("p")}, second(0))
			test.then(live)
			if got := due(live); got != test.want {
				t.Errorf("the pod is due at %d s, want %d", got, test.want)
			}
		})
	}
}

func TestABindingThatIsSeenTwiceCountsFromTheFirstSight(t *testing.T) {
	young := tolerant("p")
	young.CreationTimestamp = metav1.NewTime(second(0))
	live := state.LiveOf(state.Evictor{}, []*corev1.Node{tainted(map[string]int{"m": -3600})}, []*corev1.Pod{young}, second(0))
	live.SetPod(young, second(60))
	if got := due(live); got != 300 {
		t.Errorf("it is due at %d s, want 300", got)
	}
}

func TestWhoMustLeaveANode(t *testing.T) {
	static, terminating, unbound := tolerant("static"), tolerant("terminating"), tolerant("unbound")
	static.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	terminating.DeletionTimestamp = new(metav1.NewTime(second(0)))
	unbound.Spec.NodeName = ""
	live := state.LiveOf(state.Evictor{}, []*corev1.Node{tainted(map[string]int{"m": 0})},
		[]*corev1.Pod{static, terminating, unbound, tolerant("p")}, second(0))
	var names []string
	for node := range live.Nodes() {
		for _, pod := range node.Leaving() {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	if want := []string{"p", "terminating"}; !slices.Equal(names, want) {
		t.Errorf("%q leave, want %q", names, want)
	}
}

func TestAPodThatIsReadBeforeItsNodeWaitsForIt(t *testing.T) {
	live := state.LiveOf(state.Evictor{}, nil, []*corev1.Pod{tolerant("p")}, second(0))
	if live.Node("n") != nil || live.Pod("p") == nil || due(live) != -1 {
		t.Errorf("the node is %v, and the pod is %v", live.Node("n"), live.Pod("p"))
	}
	live.SetNode(tainted(map[string]int{"m": 0}), second(0))
	if got := due(live); got != 300 {
		t.Errorf("it is due at %d s, want 300", got)
	}
}
