// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// scene is a namespace and some nodes that one scenario has for itself.
type scene struct {
	*stage
	rig.Scene

	attend func() // the meeting of its act; to do it again does nothing
}

func (s *stage) newScene(ctx context.Context, name string) (*scene, error) {
	made, err := rig.New(ctx, s.admin, name)
	return &scene{stage: s, Scene: made, attend: sync.OnceFunc(s.meeting.leave)}, err
}

// restart restarts the contestant, once for all scenarios that are played now.
func (s *scene) restart(ctx context.Context) error {
	s.attend()
	return s.meeting.together(ctx, s.contestant.restart)
}

// node makes a node without a kubelet. It is a zone of its own, so that the node-lifecycle controller, which taints the
// nodes of a zone one after the other, has no reason to wait.
func (s *scene) node(ctx context.Context, name string) (string, error) {
	return s.Node(ctx, name, healthy, func(node *corev1.Node) { node.Labels[corev1.LabelTopologyZone] = node.Name })
}

// healthy lets a node be ready, without a kubelet that says so.
func healthy(node *corev1.Node) {
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
	}}
}

// lonelyPod makes a pod with a node of its own.
func (s *scene) lonelyPod(ctx context.Context, name string, edits ...func(*corev1.Pod)) (*corev1.Pod, error) {
	node, err := s.node(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.Pod(ctx, name, node, edits...)
}

// goneAtOnce lets a pod be gone when it is deleted.
func goneAtOnce(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64) }

// taint adds taints to a node as `kubectl taint` does, without a timeAdded, and returns the instant just before.
func (s *scene) taint(ctx context.Context, node string, taints ...corev1.Taint) (time.Time, error) {
	took, err := rig.Taint(ctx, s.admin, node, taints...)
	return took.From, err
}

// untaint takes the taints with a key from a node. The instant that it returns is just after it.
func (s *scene) untaint(ctx context.Context, node, key string) (time.Time, error) {
	took, err := rig.Untaint(ctx, s.admin, node, key)
	return took.To, err
}

func (s *scene) changeTaints(ctx context.Context, node string, change func([]corev1.Taint) []corev1.Taint,
) (time.Time, error) {
	took, err := rig.ChangeTaints(ctx, s.admin, node, change)
	return took.From, err
}

// calls returns what the contestant has called in the scene's namespace so far.
func (s *scene) calls() ([]call, error) {
	return s.audit.Events(auditlog.By(s.contestant.user()), auditlog.In(s.Namespace))
}

// callsWithDeletes returns the calls once so many deletes of pods are among them, or have not come for a while: the
// watch can tell of a delete before the audit log does.
func (s *scene) callsWithDeletes(ctx context.Context, deletes int) ([]call, error) {
	const often, atMost = 50 * time.Millisecond, 5 * time.Second
	for until := time.Now().Add(atMost); ; {
		calls, err := s.calls()
		if err != nil || len(podDeletes(calls)) >= deletes || time.Now().After(until) {
			return calls, err
		}
		if err := pause(ctx, often); err != nil {
			return nil, err
		}
	}
}
