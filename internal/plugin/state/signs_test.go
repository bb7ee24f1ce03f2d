// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
)

func TestOnlyManagersOfTaintsAndConditionsOfANodeAreKept(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	slim := state.SlimNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "nobody"},
		entry("kubectl", `{"f:spec":{"f:unschedulable":{},"f:taints":{}}}`),
		entry("kubelet", `{"f:status":{"f:conditions":{}}}`),
		entry("kube-controller-manager", `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}`),
		entry("kube-controller-manager", `{"f:spec":{"f:podCIDR":{}}}`),
	}}})
	var kept []string
	for i := range slim.ManagedFields {
		managed := &slim.ManagedFields[i]
		kept = append(kept, managed.Manager+" "+managed.FieldsV1.GetRawString())
		if builtin.Writes(managed, builtin.Taints) == builtin.Writes(managed, builtin.Conditions) {
			t.Errorf("%s is about both, or neither", managed.Manager)
		}
	}
	want := []string{`kubectl {"f:spec":{"f:taints":{}}}`, `kube-controller-manager {"f:status":{"f:conditions":{}}}`}
	if !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
}

func TestAnEvictionEventIsAttributedToTheControllerThatWroteIt(t *testing.T) {
	for name, test := range map[string]struct {
		event corev1.Event
		want  string
	}{
		"the built-in names no UID":     {corev1.Event{Reason: v1alpha1.EventEviction}, builtin.Program},
		"ours names the UID of the pod": {corev1.Event{Reason: v1alpha1.EventEviction, InvolvedObject: corev1.ObjectReference{UID: "u"}}, state.Taintkeeper},
		"ours, by its manager":          {corev1.Event{Reason: v1alpha1.EventEviction, ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "taintkeeper"}}}}, state.Taintkeeper},
		"a dry run evicts nobody":       {corev1.Event{Reason: v1alpha1.EventEviction, Message: "Marking for deletion Pod a/b (dry run)"}, ""},
		"another reason":                {corev1.Event{Reason: "Scheduled"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var signs state.Signs
			signs.AddEvent(&test.event)
			for _, who := range []string{builtin.Program, state.Taintkeeper} {
				if got := signs.EvictionsBy(who).Count == 1; got != (who == test.want) {
					t.Errorf("it is an event of %s: %t", who, got)
				}
			}
		})
	}
}

func TestOnlyWhatShowsAControllerIsKept(t *testing.T) {
	var signs state.Signs
	leader := v1alpha1.Leader{Controllers: []string{"eviction"}}
	labels := leader.Labels("a_1")
	labels["of-others"] = "x"
	for range 2 { // a Lease that is read twice is one Lease
		signs.AddLease(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "taintkeeper", Labels: labels, Annotations: map[string]string{"of-others": "x"}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("a_1")},
		})
	}
	if len(signs.Leases) != 1 || len(signs.Leases[0].Annotations) > 0 || signs.Leases[0].Labels["of-others"] != "" || v1alpha1.LeaderOf(signs.Leases[0]) == nil {
		t.Errorf("the Leases are %v", signs.Leases)
	}
	for _, name := range []string{v1alpha1.EvictionClock, "default"} {
		signs.AddEvictionClock(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			v1alpha1.EvictionClockAnnotation: "now", "of-others": "x",
		}}})
	}
	if len(signs.EvictionClocks) != 1 || signs.EvictionClocks[0].Name != v1alpha1.EvictionClock || len(signs.EvictionClocks[0].Annotations) != 1 {
		t.Errorf("the eviction clocks are %v", signs.EvictionClocks)
	}
}

func TestAnEventTellsWhatWasEvicted(t *testing.T) {
	at := statetest.Now
	event := func(kind, name, uid, message string) corev1.Event {
		about := corev1.ObjectReference{Kind: kind, Namespace: "shop", Name: name, UID: "u"}
		if about.UID = "u"; uid == "" {
			about.UID = ""
		}
		return corev1.Event{Reason: v1alpha1.EventEviction, Message: message, InvolvedObject: about, LastTimestamp: metav1.NewTime(at)}
	}
	due := at.Add(-time.Second)
	ours := event("Pod", "cart-0", "u", v1alpha1.MarkingText+"shop/cart-0")
	ours.Related = &corev1.ObjectReference{Kind: "Node", Name: "n"}
	ours.Action = v1alpha1.EventAction{Due: due, Taint: "k=v:NoExecute"}.String()
	when := metav1.NewMicroTime(at)
	for name, test := range map[string]struct {
		event corev1.Event
		want  cliv1alpha1.Eviction
	}{
		"ours names node, taint and due time": {ours, cliv1alpha1.Eviction{
			At: when, Due: new(metav1.NewMicroTime(due)), Namespace: "shop", Name: "cart-0", UID: "u", Node: "n", Taint: "k=v:NoExecute",
			By: cliv1alpha1.WhoTaintkeeper, Pods: 1,
		}},
		"the built-in's names the pod alone": {event("Pod", "cart-0", "", v1alpha1.MarkingText+"shop/cart-0"), cliv1alpha1.Eviction{
			At: when, Namespace: "shop", Name: "cart-0", By: cliv1alpha1.WhoBuiltIn, Pods: 1,
		}},
		"a cancelled one": {event("Pod", "cart-0", "u", v1alpha1.CancellingText+"shop/cart-0"), cliv1alpha1.Eviction{
			At: when, Namespace: "shop", Name: "cart-0", UID: "u", By: cliv1alpha1.WhoTaintkeeper, Pods: 1, Cancelled: true,
		}},
		"in a storm, one of a node stands for many": {
			event("Node", "n", "u", "48 events like this one, about Pods on this Node: "+v1alpha1.MarkingText+"shop/web-1"),
			cliv1alpha1.Eviction{At: when, Node: "n", By: cliv1alpha1.WhoTaintkeeper, Pods: 48},
		},
		"or for one": {
			event("Node", "n", "u", "1 event about a Pod on this Node: "+v1alpha1.CancellingText+"shop/web-1"),
			cliv1alpha1.Eviction{At: when, Node: "n", By: cliv1alpha1.WhoTaintkeeper, Pods: 1, Cancelled: true},
		},
		"a dry run evicts nothing": {event("Pod", "cart-0", "u", v1alpha1.MarkingText+"shop/cart-0"+v1alpha1.DryRunSuffix), cliv1alpha1.Eviction{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := state.EvictionOf(&test.event)
			if diff := cmp.Diff(test.want, got); diff != "" || ok != (test.want.Pods > 0) {
				t.Errorf("it tells: %t (-want +got)\n%s", ok, diff)
			}
		})
	}
}

func TestThePastHasWhatIsNewEnoughOldestFirst(t *testing.T) {
	ago := func(d time.Duration, namespace string) cliv1alpha1.Eviction {
		return cliv1alpha1.Eviction{At: metav1.NewMicroTime(statetest.Now.Add(-d)), Namespace: namespace}
	}
	all := []cliv1alpha1.Eviction{ago(time.Minute, "shop"), ago(time.Hour, "shop"), ago(2*time.Minute, "web"), ago(3*time.Minute, "shop")}
	since := statetest.Now.Add(-10 * time.Minute)
	for namespace, want := range map[string][]cliv1alpha1.Eviction{
		"": {all[3], all[2], all[0]}, "shop": {all[3], all[0]}, "other": {},
	} {
		if diff := cmp.Diff(want, state.Past(all, since, namespace)); diff != "" {
			t.Errorf("in namespace %q (-want +got)\n%s", namespace, diff)
		}
	}
}
