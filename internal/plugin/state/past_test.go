// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state/statetest"
)

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
