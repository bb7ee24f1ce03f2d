// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// playRival plays somebody who manages the taints of a node from a template without timeAdded, and takes it off
// whenever it is there.
func playRival(ctx context.Context, s *scene) (finding, error) {
	const tolerated, watched = 12 * time.Second, 20 * time.Second
	pod, err := s.lonelyPod(ctx, "managed", rig.Tolerating("gone", int64(tolerated.Seconds())))
	if err != nil {
		return finding{}, err
	}
	if err := s.awaitUntainted(ctx, pod.Spec.NodeName); err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	for time.Since(began) < watched {
		if err := s.stripTimeAdded(ctx, pod.Spec.NodeName); err != nil {
			return finding{}, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return finding{}, err
		}
	}
	d, err := s.observer.departure(ctx, pod, began, tolerated, watched)
	if err != nil {
		return finding{}, err
	}
	calls, err := s.audit.Events(auditlog.By(s.contestant.user()), auditlog.In(metav1.NamespaceNone))
	if err != nil {
		return finding{}, err
	}
	return judgeRival(d, nodeWrites(since(calls, began), pod.Spec.NodeName)), nil
}

// awaitUntainted returns when the node-lifecycle controller, who is the same user as upstream's evictor, has taken off
// the taint with which every node begins.
func (s *scene) awaitUntainted(ctx context.Context, name string) error {
	untainted := func(ctx context.Context) (bool, error) {
		node, err := s.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(node.Spec.Taints) == 0, err
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, untainted)
	if err != nil {
		return fmt.Errorf("wait until node %s has no taint: %w", name, err)
	}
	return nil
}

func (s *scene) stripTimeAdded(ctx context.Context, name string) error {
	node, err := s.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	if !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.TimeAdded != nil }) {
		return nil
	}
	_, err = s.changeTaints(ctx, name, func(all []corev1.Taint) []corev1.Taint {
		for i := range all {
			all[i].TimeAdded = nil
		}
		return all
	})
	return err
}

// nodeWrites counts the writes of a node among some calls.
func nodeWrites(calls []call, name string) int {
	writes := 0
	for _, c := range calls {
		if c.Resource == "nodes" && c.Name == name && (c.Verb == "patch" || c.Verb == "update") {
			writes++
		}
	}
	return writes
}

// judgeRival wants the pod to leave in time, and the rival not to be fought: a write per second would be 20.
func judgeRival(d departure, writes int) finding {
	const few = 8
	return d.finding().and(counted(writes, "write", "writes")+" of the node", writes <= few)
}
