// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/explain"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
)

func TestOfATerminatingPodAnExplanationSaysWhyAndWhatItWaitsFor(t *testing.T) {
	// deleted requests a deletion some time ago, with 30 s for the containers.
	deleted := func(ago time.Duration, reason, message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.DeletionTimestamp = new(metav1.NewTime(now.Add(30*time.Second - ago)))
			pod.DeletionGracePeriodSeconds = new(int64(30))
			if reason != "" {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
				})
			}
		}
	}
	kept := func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/backup"} }
	unbound := func(pod *corev1.Pod) { pod.Spec.NodeName = "" }
	over := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	ready := func(status corev1.ConditionStatus, taints ...string) *corev1.Node {
		is := node("n", taints...)
		is.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		return is
	}
	alive, silent := ready(corev1.ConditionTrue), ready(corev1.ConditionUnknown, "node.kubernetes.io/unreachable:NoExecute")
	lost := ready(corev1.ConditionUnknown, corev1.TaintNodeOutOfService+":NoExecute")
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		node  *corev1.Node
		waits cliv1alpha1.TerminationWait
		says  string
		helps int
	}{
		"its containers may still run": {
			pod("p", deleted(10*time.Second, v1alpha1.TaintEvictionReason, v1alpha1.MarkMessage)), alive,
			cliv1alpha1.WaitsForContainers, "Taintkeeper evicted it because of a NoExecute taint. Its containers have 20s more to stop.", 0,
		},
		"its kubelet hangs": {
			pod("p", deleted(time.Minute, v1alpha1.TaintEvictionReason, "Taint manager: deleting due to NoExecute taint")), alive,
			cliv1alpha1.WaitsForKubelet, "kube-controller-manager evicted it because of a NoExecute taint. Its containers should have ended 30s ago, but", 0,
		},
		"its kubelet is silent, even within the grace period": {
			pod("p", deleted(10*time.Second, "EvictionByEvictionAPI", "")), silent,
			cliv1alpha1.WaitsForSilentKubelet, "A client evicted it through the Eviction API, as kubectl drain does. It waits for the kubelet of node n", 3,
		},
		"its containers have ended before its kubelet fell silent": {
			pod("p", deleted(time.Hour, "", ""), kept, over), silent,
			cliv1alpha1.WaitsForFinalizers, "No condition of the pod says why. It waits for the finalizer example.com/backup: the controller that set it must remove it.", 0,
		},
		"its node is out of service": {
			pod("p", deleted(time.Minute, "DeletionByPodGC", "")), lost,
			cliv1alpha1.WaitsForGarbageCollection, "Pod garbage collection deletes it, because its node is gone or out of service. Node n no longer runs it", 0,
		},
		"a finalizer keeps it": {
			pod("p", deleted(time.Minute, corev1.PodReasonPreemptionByScheduler, ""), kept), alive,
			cliv1alpha1.WaitsForFinalizers, "The scheduler preempted it for a pod of higher priority. It waits for the finalizer example.com/backup", 0,
		},
		"a reason that is new": {
			pod("p", deleted(time.Minute, "Other", "It is time")), alive,
			cliv1alpha1.WaitsForKubelet, "The reason is Other: It is time. Its containers", 0,
		},
		"it has no node": {
			pod("p", deleted(time.Minute, "", ""), unbound), nil,
			cliv1alpha1.WaitsForKubelet, "No condition of the pod says why. It has no node, so the API server removes it soon.", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := explained(explain.Subject{Pod: test.pod, Node: test.node})
			is := e.Terminating
			if e.State != cliv1alpha1.PodTerminating || is == nil || is.WaitsFor != test.waits {
				t.Fatalf("state %s, waits %+v", e.State, is)
			}
			if is.Until.Sub(is.Since.Time) != 30*time.Second {
				t.Errorf("terminating since %s, until %s", is.Since, is.Until)
			}
			if !strings.HasPrefix(e.Reason, test.says) {
				t.Errorf("it says %q", e.Reason)
			}
			if len(e.Changes) != test.helps {
				t.Errorf("what helps: %+v", e.Changes)
			}
		})
	}
}

func TestAnEventExplainsAPodThatIsGone(t *testing.T) {
	past := cliv1alpha1.Eviction{
		At: metav1.NewMicroTime(now.Add(-time.Hour)), Due: new(metav1.NewMicroTime(now.Add(-2 * time.Hour))),
		Namespace: "shop", Name: "cart-0", UID: "1", Node: "n", Taint: "k=v:NoExecute", By: cliv1alpha1.WhoTaintkeeper, Pods: 1,
	}
	e := explain.Gone(past, now)
	if e.State != cliv1alpha1.PodGone || e.Namespace != "shop" || e.Name != "cart-0" || e.Node != "n" || e.Taint != past.Taint || e.Leaves {
		t.Errorf("explained as %+v", e)
	}
}

// The taint one came 20 s ago, and the taint two 10 s ago.
func TestWhereKubeControllerManagerEvictsItsTimersExplainWhenAPodLeaves(t *testing.T) {
	two := node("n", "one=1:NoExecute", "two=1:NoExecute")
	for i, ago := range []time.Duration{20 * time.Second, 10 * time.Second} {
		two.Spec.Taints[i].TimeAdded = new(metav1.NewTime(now.Add(-ago)))
	}
	leads := func(ago time.Duration) state.Evictor {
		return statetest.BuiltInEvicts(&state.Cluster{}, now.Add(-ago), now).Evictor
	}
	patient := pod("p", tolerating("one", 120), tolerating("two", 4))
	for name, test := range map[string]struct {
		pod        *corev1.Pod
		evictor    state.Evictor
		due, start time.Duration // from now
		taint      string
		note       string
		changes    []string // how suggestions begin
	}{
		"the second taint is ignored": {
			patient, leads(time.Hour), 100*time.Second + 750*time.Millisecond, -19250 * time.Millisecond, "one=1:NoExecute",
			"With Taintkeeper, the pod would leave at 2026-11-22T08:59:55Z, because of taint two.",
			[]string{"Remove taints two=1:NoExecute, one=1:NoExecute", "In the pod, remove tolerationSeconds"},
		},
		"a new leader sees both": {
			patient, leads(time.Second), 3 * time.Second, -time.Second, "two=1:NoExecute",
			"With Taintkeeper, the pod would leave at 2026-11-22T08:59:55Z, because of taint two.", nil,
		},
		"the pod waits in the queue": {
			pod("p", tolerating("one", 120)), leads(time.Hour), -9250 * time.Millisecond, -9250 * time.Millisecond, "two=1:NoExecute", "", []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := explained(explain.Subject{Pod: test.pod, Node: two, Evictor: test.evictor})
			if is.EvictedBy != cliv1alpha1.WhoBuiltIn || !is.Leaves || is.Due.Sub(now) != test.due || is.Taint != test.taint {
				t.Errorf("evicted by %s, it leaves: %t, at %v, because of %s", is.EvictedBy, is.Leaves, is.Due, is.Taint)
			}
			if got := is.Timing.Start.Sub(now); got != test.start {
				t.Errorf("the countdown began at %v, want %v", got, test.start)
			}
			if test.note != "" && !slices.Contains(is.Notes, test.note) {
				t.Errorf("the notes are %q, want %q", is.Notes, test.note)
			}
			begins := func(change cliv1alpha1.SmallestChange, want string) bool { return strings.HasPrefix(change.What, want) }
			if test.changes != nil && !slices.EqualFunc(is.Changes, test.changes, begins) {
				t.Errorf("the changes are %+v, want %q", is.Changes, test.changes)
			}
		})
	}
}

func TestAPodThatKubeControllerManagerCouldNotDeleteIsSaidToBeForgotten(t *testing.T) {
	is := explained(explain.Subject{Pod: pod("p"), Node: node("n", "k:NoExecute"), Evictor: state.Evictor{Who: cliv1alpha1.WhoBuiltIn}})
	forgotten := func(note string) bool {
		return strings.HasPrefix(note, "kube-controller-manager has probably tried without success to delete the pod.")
	}
	if !is.Leaves || !slices.ContainsFunc(is.Notes, forgotten) {
		t.Errorf("it leaves: %t, and the notes are %q", is.Leaves, is.Notes)
	}
	if i := slices.IndexFunc(is.Changes, func(c cliv1alpha1.SmallestChange) bool { return !c.Leaves }); i < 0 {
		t.Errorf("nothing lets it stay: %+v", is.Changes)
	}
}
