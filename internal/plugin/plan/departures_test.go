// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// departing is node n, which got taint m:NoExecute at second 0, and what was read about it.
type departing struct {
	*testing.T
	plan.Departures
}

var changedAt = time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)

func second(s int) time.Time { return changedAt.Add(time.Duration(s) * time.Second) }

// stamped returns a NoExecute taint with its timeAdded.
func stamped(key string, added int) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: new(metav1.NewTime(second(added)))}
}

// staying returns a pod that tolerates taint m for some seconds. A negative number means not at all.
func staying(name string, seconds int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(second(-3600)),
	}}
	if seconds >= 0 {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "m", Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}}
	}
	return pod
}

func startDeparting(t *testing.T) *departing {
	t.Helper()
	d := &departing{T: t}
	d.Changed(nil, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{stamped("m", 0)}}}, second(0))
	return d
}

// read reads the node with the given taints and pods.
func (d *departing) read(at int, taints []corev1.Taint, pods ...*corev1.Pod) {
	d.Read(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints}}, pods, second(at))
}

// want checks which pods are left, how many had to leave, and how many came meanwhile.
func (d *departing) want(had, came int, left ...string) {
	d.Helper()
	var got []string
	for _, pod := range d.Left() {
		got = append(got, pod.Name)
	}
	if diff := cmp.Diff(left, got, cmpopts.EquateEmpty()); diff != "" || d.Had() != had || d.Came() != came {
		d.Errorf("%d had to leave and %d came, want %d and %d; left (-want +got):\n%s", d.Had(), d.Came(), had, came, diff)
	}
}

func TestThePodsThatMustLeaveAreLeftUntilTheyAreGoneTheSoonestFirst(t *testing.T) {
	d := startDeparting(t)
	static, tolerant := staying("static", -1), staying("tolerant", -1)
	static.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	tolerant.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	taints := []corev1.Taint{stamped("m", 0)}
	d.read(1, taints, static, tolerant, staying("later", 300), staying("now", -1))
	d.want(2, 0, "now", "later")
	d.read(2, taints, static, tolerant, staying("later", 300))
	d.want(2, 0, "later")
	d.read(301, taints, static, tolerant)
	d.want(2, 0)
}

func TestNothingWaitsForARemovedTaint(t *testing.T) {
	d := startDeparting(t)
	d.read(1, []corev1.Taint{stamped("m", 0)}, staying("p", 300))
	d.want(1, 0, "p")
	d.read(2, nil, staying("p", 300))
	d.want(1, 0)
}

func TestATaintThatWasTakenOffAndSetAgainBetweenTwoReadingsCountsFromTheSecondTime(t *testing.T) {
	d := startDeparting(t)
	d.read(1, []corev1.Taint{stamped("m", 0)}, staying("p", 300))
	d.read(61, []corev1.Taint{stamped("m", 60)}, staying("p", 300))
	if due := d.Left()[0].Verdict.Due; due.Before(second(360)) {
		t.Errorf("the pod is due at %s, want 300 s after the taint was set again", due)
	}
}

func TestAPodThatIsPutOnTheNodeMeanwhileIsCountedOnce(t *testing.T) {
	d := startDeparting(t)
	taints := []corev1.Taint{stamped("m", 0)}
	d.read(1, taints, staying("p", -1))
	for at := range 2 {
		d.read(at+2, taints, staying("p", -1), staying("new", -1))
		d.want(2, 1, "new", "p")
	}
}

func TestAPodThatWasThereAllAlongDidNotComeWhenAnotherTaintMakesItLeave(t *testing.T) {
	d := startDeparting(t)
	agent := staying("agent", -1)
	agent.Spec.Tolerations = []corev1.Toleration{{Key: "m", Operator: corev1.TolerationOpExists}}
	d.read(1, []corev1.Taint{stamped("m", 0)}, agent)
	d.want(0, 0)
	d.read(2, []corev1.Taint{stamped("m", 0), stamped("other", 2)}, agent)
	d.want(1, 0, "agent")
}

func TestNothingWaitsForANodeThatIsGone(t *testing.T) {
	d := startDeparting(t)
	d.read(1, []corev1.Taint{stamped("m", 0)}, staying("p", -1))
	d.Gone("n")
	d.want(1, 0)
}
