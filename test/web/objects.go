// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// Node returns a node that is ready.
func Node(name, zone string, taints ...corev1.Taint) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
			corev1.LabelTopologyRegion: "eu", corev1.LabelTopologyZone: zone,
		}},
		Spec:   corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// Silent makes a node one whose kubelet is not heard from.
func Silent(node corev1.Node) corev1.Node {
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	return node
}

// NoExecute returns a taint that counts from an instant.
func NoExecute(key, value string, since time.Time) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoExecute, TimeAdded: &metav1.Time{Time: since}}
}

// Pod returns a pod that tolerates every NoExecute taint for a while.
func Pod(namespace, name, node string, seconds int64) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), CreationTimestamp: metav1.Unix(0, 0),
		},
		Spec: corev1.PodSpec{NodeName: node, Tolerations: []corev1.Toleration{
			{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		}},
	}
}

// Owned gives a pod an owner.
func Owned(pod corev1.Pod, kind, name string) corev1.Pod {
	if _, hash, ok := strings.Cut(name, "-"); ok && kind == "ReplicaSet" {
		pod.Labels = map[string]string{"pod-template-hash": hash}
	}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
	return pod
}

// Evicted makes a pod one that is being evicted as of an instant, by the controller that the message names.
func Evicted(pod corev1.Pod, message string, at time.Time) *corev1.Pod {
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager", Message: message},
	}
	pod.DeletionGracePeriodSeconds = new(int64(30))
	pod.DeletionTimestamp = &metav1.Time{Time: at.Add(30 * time.Second)}
	return &pod
}

// Small returns a cluster in which a bit of everything is under way, as of an instant.
func Small(now time.Time) Objects {
	maintenance := NoExecute("maintenance", "planned", now.Add(-75*time.Second))
	unreachable := NoExecute(corev1.TaintNodeUnreachable, "", now.Add(-25*time.Second))
	gpu := corev1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}
	o := Objects{Cluster: "production", Nodes: []corev1.Node{
		Node("worker-a1", "eu-1", maintenance), Node("worker-a2", "eu-1"), Node("worker-a3", "eu-1"),
		Silent(Node("worker-b1", "eu-2", unreachable)), Silent(Node("worker-b2", "eu-2")),
		Silent(Node("worker-b3", "eu-2")), Node("worker-b4", "eu-2"),
		Node("gpu-c1", "eu-3", gpu), Node("worker-c2", "eu-3"),
	}}
	for i, name := range []string{"checkout-7b9d4c5f6-4xk2p", "checkout-7b9d4c5f6-9wzzr"} {
		o.Pods = append(o.Pods, Owned(Pod("shop", name, "worker-a1", int64(120+30*i)), "ReplicaSet", "checkout-7b9d4c5f6"))
	}
	o.Pods = append(o.Pods,
		Owned(Pod("shop", "cart-0", "worker-a1", 300), "StatefulSet", "cart"),
		Owned(Pod("shop", "search-6d5f8c7b4-bbbbb", "worker-b1", 300), "ReplicaSet", "search-6d5f8c7b4"),
		Owned(Pod("payments", "ledger-0", "worker-b1", 60), "StatefulSet", "ledger"),
		Owned(Pod("shop", "web-1", "worker-a1", 70), "StatefulSet", "web"),
		Owned(Pod("shop", "web-2", "worker-a1", 60), "StatefulSet", "web"),
	)
	o.Events = []corev1.Event{
		nodeEvent("held", "worker-b2", "NoExecuteTaintHeld", now.Add(-20*time.Second),
			"Taint node.kubernetes.io/unreachable:NoExecute is held back: zone eu/eu-2 is in state PartialDisruption (3 of 4 nodes not ready), in which no node is tainted"),
	}
	o.Shadow = v1alpha1.ShadowReport{
		Since: metav1.NewTime(now.Add(-time.Hour)), Time: metav1.NewTime(now),
		Differences: []v1alpha1.ShadowDifference{{
			Outcome: v1alpha1.ShadowLate, Namespace: "shop", Pod: "search-6d5f8c7b4-ccccc", UID: "late", Node: "worker-c2",
			Time:     metav1.NewTime(now.Add(-11 * time.Minute)),
			Sentence: "evicted 41 s late: the built-in restarted its countdown of 20 s, probably because the process restarted",
		}},
	}
	o.Rules = []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NodeTaintRule",
		"metadata": map[string]any{"name": "kernel-deadlock", "uid": "rule"},
		"spec": map[string]any{
			"condition": map[string]any{"type": "KernelDeadlock", "status": "True"},
			"taint":     map[string]any{"key": "example.com/kernel-deadlock", "effect": "NoExecute"}, "maxTainted": "10%",
		},
		"status": map[string]any{
			"selected": int64(9), "matching": int64(0), "tainted": int64(0), "held": int64(0),
			"conditions": []any{map[string]any{"type": "Accepted", "status": "True", "reason": "Accepted"}},
		},
	}}}
	return o
}

// Evictions returns what happens in that cluster once its board is open.
func Evictions(objects Objects, now time.Time) []*corev1.Pod {
	last := len(objects.Pods)
	return []*corev1.Pod{
		Evicted(objects.Pods[last-1], "Taintkeeper: deleting due to NoExecute taint", now.Add(-15*time.Second)),
		Evicted(objects.Pods[last-2], "Taint manager: deleting due to NoExecute taint", now),
	}
}

func nodeEvent(name, node, reason string, at time.Time, message string) corev1.Event {
	return corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node}, Reason: reason, Message: message,
		LastTimestamp: metav1.NewTime(at), Source: corev1.EventSource{Component: "taintkeeper"},
	}
}

// Large returns a cluster with the given numbers of nodes and pods, in three zones, and a NoExecute taint on every
// tenth node.
func Large(nodes, pods int, now time.Time) Objects {
	o := Objects{Cluster: "large"}
	for i := range nodes {
		node := Node(LargeName(i), "eu-"+string(rune('1'+i%3)))
		if i%10 == 0 {
			node.Spec.Taints = []corev1.Taint{NoExecute("maintenance", "planned", now)}
		}
		o.Nodes = append(o.Nodes, node)
	}
	for i := range pods {
		o.Pods = append(o.Pods, Pod("shop", fmt.Sprintf("pod-%d", i), LargeName(i%nodes), int64(300+i%3600)))
	}
	return o
}

// LargeName returns the name of a node of a large cluster.
func LargeName(i int) string { return fmt.Sprintf("node-%04d", i) }
