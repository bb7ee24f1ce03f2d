// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

const (
	notReadyNoSchedule = "not-ready:NoSchedule"
	notReadyNoExecute  = "not-ready:NoExecute"

	unreachableNoSchedule = "unreachable:NoSchedule"
	unreachableNoExecute  = "unreachable:NoExecute"
)

// runNextToNodeHealth starts a Controller on the nodes of node health, which runs, too, and never finds a node silent.
func (w *world) runNextToNodeHealth() {
	w.T.Helper()
	w.runNextToNodeHealthThatWaits(24 * time.Hour)
}

// runNextToNodeHealthThatWaits is runNextToNodeHealth, with a grace after which a node is silent.
func (w *world) runNextToNodeHealthThatWaits(grace time.Duration) {
	w.T.Helper()
	controller, caches := w.controller()
	health, err := nodehealth.New(nodehealth.Config{
		Client: w.Client, Nodes: caches.Nodes, Pods: caches.Pods,
		Grace: readiness.Grace{Monitor: grace, Startup: grace},
		Policy: readiness.Policy{
			Rate: readiness.DefaultRate, SecondaryRate: readiness.DefaultSecondaryRate, FullDisruptionRate: readiness.DefaultRate,
			LargeZone: readiness.DefaultLargeZone, UnhealthyShare: readiness.DefaultUnhealthyShare,
		},
	})
	w.Must(nil, err)
	bubble.Run(w.T, "node health", caches.With(health.Run))
	bubble.Run(w.T, "the Controller", controller.Run)
	w.Pass(planningTime)
}

// posts makes a node report whether it is deadlocked and ready in one update, so that both writers want the same
// version.
func (w *world) posts(name string, locked, ready corev1.ConditionStatus) {
	w.T.Helper()
	w.ChangeNode(name, func(n *corev1.Node) {
		now := metav1.Now()
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: deadlock, Status: locked, LastTransitionTime: now},
			{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: now, LastTransitionTime: now},
		}
	})
}

func TestRulesAndNodeHealthWriteTheirTaintsOfOneNode(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		w.addRule("deadlock")
		w.runNextToNodeHealth()
		for range 10 {
			w.posts("a-0", corev1.ConditionTrue, corev1.ConditionFalse)
			w.Pass(20 * time.Second)
			w.WantTaints("a-0", deadlocked, notReadyNoExecute, notReadyNoSchedule)
			w.posts("a-0", corev1.ConditionFalse, corev1.ConditionTrue)
			w.Pass(20 * time.Second)
			w.WantTaints("a-0")
		}
	})
}

func TestARulesTaintThatIsRefusedDoesNotKeepANodeFromItsOthers(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		w.refusesTaint("example.com/deadlock")
		w.addRule("deadlock")
		w.runNextToNodeHealth()
		w.posts("a-0", corev1.ConditionTrue, corev1.ConditionFalse)
		w.Until(10 * time.Minute)
		w.WantTaints("a-0", notReadyNoExecute, notReadyNoSchedule)
	})
}

// The mirror image of TestARulesTaintThatIsRefusedDoesNotKeepANodeFromItsOthers.
func TestATaintOfItsConditionsThatIsRefusedDoesNotKeepANodeFromThatOfARule(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.addZone("a", 5)
		w.refusesTaint(corev1.TaintNodeUnschedulable)
		w.addRule("deadlock")
		w.runNextToNodeHealth()
		w.ChangeNode("a-0", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		w.locks("a-0")
		w.Until(time.Minute)
		w.wantDeadlocked("a-0")
		w.wantStatus("deadlock", [4]int32{5, 1, 1, 0}, "Accepted", "NoNodeHeld")
	})
}

func TestALabelOfANodeThatIsRefusedTakesNoPlaceBelowMaxTainted(t *testing.T) {
	play(t, func(_ *testing.T, w *world) {
		w.AddNode("a-0", "a", func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" })
		w.AddNode("a-1", "a")
		w.AddNode("a-2", "a")
		var busy atomic.Bool
		w.Client.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if strings.Contains(string(action.(clienttesting.PatchActionImpl).Patch), "beta.kubernetes.io/os") {
				return true, nil, forbidden()
			}
			return busy.Load(), nil, apierrors.NewTooManyRequests("slow down", 1)
		})
		w.addRule("deadlock", atMost(intstr.FromInt32(1)))
		w.runNextToNodeHealth()
		busy.Store(true)
		w.locks("a-0")
		w.waitForPlans()
		w.unlocks("a-0") // before its taint could come
		w.waitForPlans()
		busy.Store(false)
		w.locks("a-1")
		w.Until(2 * time.Minute)
		w.wantDeadlocked("a-1")
	})
}

func TestARuleThatIsDeletedTakesItsTaintOffASilentNodeAndNoneOfTheOthers(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.Must(w.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease, UID: "uid-of-the-namespace"},
		}, metav1.CreateOptions{}))
		heard := w.addZone("a", 5)[1:]
		w.addRule("deadlock")
		w.runNextToNodeHealthThatWaits(40 * time.Second)
		w.locks("a-0") // the last thing that its kubelet says
		for range 10 {
			for _, name := range heard {
				w.Report(name, corev1.NodeReady, corev1.ConditionTrue)
			}
			w.Pass(10 * time.Second)
		}
		w.WantTaints("a-0", deadlocked, unreachableNoExecute, unreachableNoSchedule)
		w.deleteRule("deadlock")
		w.WantTaints("a-0", unreachableNoExecute, unreachableNoSchedule)
		if !w.isGone("deadlock") {
			t.Error("the rule cannot be deleted")
		}
		w.Report("a-0", corev1.NodeReady, corev1.ConditionTrue)
		w.waitForPlans()
		w.WantTaints("a-0")
	})
}

// The conditions of the node cannot be written, and no lease can be read.
func TestARuleCanBeDeletedThoughNodeHealthCannotDoItsWork(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.addZone("a", 3)
		w.refuses("a-0", "status")
		w.Client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden() })
		w.addRule("deadlock")
		w.run()
		w.locks("a-0")
		w.waitForPlans()
		w.wantDeadlocked("a-0")
		w.ChangeNode("a-0", func(n *corev1.Node) { // as node health says about one that is silent
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown})
		})
		w.deleteRule("deadlock")
		w.wantDeadlocked()
		if !w.isGone("deadlock") {
			t.Error("the rule cannot be deleted")
		}
		if labels := w.Node("a-0").Labels; labels[v1alpha1.TaintedLabelPrefix+"deadlock"] != "" {
			t.Errorf("the node still has the rule's label: %v", labels)
		}
	})
}
