// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// held is for how long pods that must stay are watched. Within five minutes, kube-controller-manager would take back a
// mark, and the Eviction API is called again for pods whose budgets allow nothing: -args -held=310s.
var held = flag.Duration("held", 30*time.Second, "for how long pods that must stay are watched")

func within(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// selecting selects by a label that no other scene has.
func (s *scene) selecting() *v1alpha1.Selector {
	return &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{"held": v1alpha1.LabelValue(s.Namespace)}}
}

// leavesAfter checks that a change lets a pod leave. On a busy machine the change itself may take long.
func (s *scene) leavesAfter(pod *corev1.Pod, change func()) {
	s.t.Helper()
	before := time.Now()
	change()
	after := time.Now()
	s.wantBetween(fmt.Sprintf("after a change that took %s, the pod leaves", after.Sub(before)), s.leaves(pod), before, after)
}

func TestHold(t *testing.T) {
	s := newScene(t)
	node, other := s.node("tainted"), s.node("other")
	policy := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})
	pod, spared := s.pod("pod", node), s.pod("spared", other)
	s.taint(node)
	s.taint(other)
	await.Until(t, time.Now().Add(*held))
	s.stays(pod)
	s.awaitHeld(policy, 2)
	s.untaint(other)
	s.leavesAfter(pod, func() { s.remove(policy) })
	s.stays(spared)
	events, err := admin.CoreV1().Events(s.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=EvictionHeld,involvedObject.name=pod"})
	await.Must(t, err)
	if len(events.Items) != 1 || events.Items[0].Count > 1 {
		t.Errorf("events %v, want one", events.Items)
	}
}

func TestHoldUntilADeadline(t *testing.T) {
	const deadline = 20 * time.Second
	s := newScene(t)
	node := s.node("tainted")
	s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Deadline: within(deadline)})
	pod := s.pod("pod", node)
	came := s.taint(node)
	s.wantBetween("pod leaves", s.leaves(pod), came.Add(deadline), came.Add(deadline))
	marks := audit.All(t, auditlog.StatusPatches, auditlog.Accepted, auditlog.Of(pod.UID))
	if deletes := s.left(); len(marks) != 1 || len(deletes) != 1 {
		t.Errorf("it was marked by %v and deleted by %v, want one call each", marks, deletes)
	}
}

// pause pauses all pods of the scene.
func (s *scene) pause() string {
	s.t.Helper()
	return s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Paused: new("a test")})
}

func TestADeadlineCountsFromTheEndOfAPause(t *testing.T) {
	const deadline = 10 * time.Second
	s := newScene(t)
	node := s.node("tainted")
	s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Deadline: within(deadline)})
	pause, pod := s.pause(), s.pod("pod", node)
	came := s.taint(node)
	await.Until(t, came.Add(deadline+5*time.Second))
	s.stays(pod)
	before := time.Now()
	s.remove(pause)
	after := time.Now()
	s.wantBetween("pod leaves", s.leaves(pod), before.Add(deadline), after.Add(deadline))
}

func TestANewLeaderKnowsWhenAPauseEnded(t *testing.T) {
	const deadline = 40 * time.Second
	s := sceneFor(t)
	node := s.node("tainted")
	policy := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Deadline: within(deadline)})
	pause, pod := s.pause(), s.pod("pod", node)
	s.taint(node)
	s.awaitStatus(policy, "has a halted pod", func(is *v1alpha1.EvictionPolicyStatus) bool { return is.Halted == 1 })
	await.Must(t, await.Pause(t.Context(), 5*time.Second))
	before := time.Now()
	s.remove(pause)
	after := time.Now()
	s.awaitStatus(policy, "knows when the pause ended", func(is *v1alpha1.EvictionPolicyStatus) bool {
		return is.Halted == 0 && is.HaltedUntil != nil
	})
	await.Must(t, leader.Kill())
	var err error
	leader, err = startReplica(t.Context(), "one")
	await.Must(t, err)
	s.wantBetween("pod leaves", s.leaves(pod), before.Add(deadline), after.Add(deadline+2*time.Second)) // the status has seconds
}

func TestTheStrictestOfTwoPoliciesCountsWhicheverCameFirst(t *testing.T) {
	hold := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}
	ask := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionEvict}
	for name, specs := range map[string][]v1alpha1.EvictionPolicySpec{"Hold": {hold, ask}, "Evict": {ask, hold}} {
		t.Run(name+" first", func(t *testing.T) {
			s := newScene(t)
			node := s.node("tainted")
			policies := map[v1alpha1.EvictionAction]string{}
			for _, spec := range specs {
				policies[spec.Action] = s.policy(spec)
			}
			pod := s.pod("pod", node)
			s.taint(node)
			s.awaitHeld(policies[v1alpha1.ActionHold], 1)
			await.Until(t, time.Now().Add(5*time.Second))
			s.stays(pod)
			s.leavesAfter(pod, func() { s.remove(policies[v1alpha1.ActionHold]) })
			if deletes := s.left(); len(deletes) > 0 {
				t.Errorf("deletes %v, want the Eviction API to be called", deletes)
			}
		})
	}
}

// TestLabelsThatChangeWhileAPodIsDue makes one policy begin to hold a pod while another policy still does, and then
// removes the other.
func TestLabelsThatChangeWhileAPodIsDue(t *testing.T) {
	for name, test := range map[string]struct {
		selector func(*v1alpha1.EvictionPolicySpec) **v1alpha1.Selector
		patch    func(ctx context.Context, pod *corev1.Pod, patch []byte) error
	}{
		"of the pod": {
			func(spec *v1alpha1.EvictionPolicySpec) **v1alpha1.Selector { return &spec.PodSelector },
			func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
				_, err := admin.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			},
		},
		"of the namespace": {
			func(spec *v1alpha1.EvictionPolicySpec) **v1alpha1.Selector { return &spec.NamespaceSelector },
			func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
				_, err := admin.CoreV1().Namespaces().Patch(ctx, pod.Namespace, types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			},
		},
		"of the node": {
			func(spec *v1alpha1.EvictionPolicySpec) **v1alpha1.Selector { return &spec.NodeSelector },
			func(ctx context.Context, pod *corev1.Pod, patch []byte) error {
				_, err := admin.CoreV1().Nodes().Patch(ctx, pod.Spec.NodeName, types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			node := s.node("tainted")
			all := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})
			spec := v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}
			*test.selector(&spec) = s.selecting()
			labeled := s.policy(spec)
			pod := s.pod("pod", node)
			s.taint(node)
			s.awaitHeld(all, 1)
			await.Must(t, test.patch(t.Context(), pod, fmt.Appendf(nil, `{"metadata":{"labels":{"held":%q}}}`, s.Namespace)))
			s.awaitHeld(labeled, 1)
			s.remove(all)
			await.Until(t, time.Now().Add(5*time.Second))
			s.stays(pod)
			s.leavesAfter(pod, func() {
				await.Must(t, test.patch(t.Context(), pod, []byte(`{"metadata":{"labels":{"held":null}}}`)))
			})
		})
	}
}

func TestATaintThatIsNotHeldLetsAPodLeave(t *testing.T) {
	s := newScene(t)
	node := s.node("tainted")
	s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Taints: []v1alpha1.EvictionPolicyTaint{{Key: theTaint}}})
	pod := s.pod("pod", node, rig.Tolerating("other", 10))
	came := s.taint(node, theTaint, "other")
	s.wantBetween("pod leaves", s.leaves(pod), came.Add(10*time.Second), came.Add(10*time.Second))
}

// TestOutOfServiceIsNeverHeld lets a policy hold a pod with a taint that is not about node health: when
// kube-controller-manager first sees a node, up to 5 seconds after the node was created, it removes taints of node health.
func TestOutOfServiceIsNeverHeld(t *testing.T) {
	s := newScene(t)
	node, err := s.Node(t.Context(), "dead")
	await.Must(t, err)
	policy := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold})
	pod, err := s.Pod(t.Context(), "pod", node)
	await.Must(t, err)
	s.taint(node)
	s.awaitHeld(policy, 1)
	came := s.taint(node, corev1.TaintNodeOutOfService)
	s.wantBetween("pod leaves", s.leaves(pod), came, came)
}

func TestAPauseTakesEffectAtOnce(t *testing.T) {
	const pods = 1000
	s := newScene(t)
	node, err := s.Node(t.Context(), "tainted")
	await.Must(t, err)
	_, err = s.Pods(t.Context(), pods, node)
	await.Must(t, err)
	policy := s.policy(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionDelete, Finished: v1alpha1.FinishedKeep})
	s.taint(node)
	await.Eventually(t, "pods leave", func(context.Context) error {
		if len(s.left()) == 0 {
			return fmt.Errorf("none has left")
		}
		return nil
	})
	s.edit(policy, func(spec *v1alpha1.EvictionPolicySpec) { spec.Paused = new("a test") })
	paused := time.Now()
	s.awaitStatus(policy, "holds pods", func(status *v1alpha1.EvictionPolicyStatus) bool { return status.Held > 0 })
	held := time.Now()
	await.Until(t, held.Add(5*time.Second))
	left := s.left()
	last := left[len(left)-1].Received
	if last.After(held) || len(left) == pods {
		t.Errorf("%d of %d pods left, the last one %s after the pause, which held pods after %s", len(left), pods, last.Sub(paused), held.Sub(paused))
	}
	t.Logf("%d of %d pods had left, the last one %s after the pause", len(left), pods, last.Sub(paused))
}
