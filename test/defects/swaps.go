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
	"k8s.io/client-go/util/retry"

	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// playSwaps lets the node-lifecycle controller swap the taints of a sick node, once and again and again.
func playSwaps(ctx context.Context, s *scene) (finding, error) {
	return s.playParts(ctx,
		part{"one swap", func(ctx context.Context, s *scene) (departure, error) { return s.playSwapsOf(ctx, "once", 1) }},
		part{"three swaps", func(ctx context.Context, s *scene) (departure, error) { return s.playSwapsOf(ctx, "often", 3) }},
	)
}

// playSwapsOf swaps the taints of a node so often, every few seconds, and a last time so late that a countdown that
// began anew would end well after the one that began with the first taint.
func (s *scene) playSwapsOf(ctx context.Context, name string, swaps int) (departure, error) {
	const between = 5 * time.Second
	tolerated := time.Duration(swaps)*between + 3*time.Second
	pod, began, err := s.podOfSickNode(ctx, name, tolerated)
	if err != nil {
		return departure{}, err
	}
	for i := range swaps {
		if err := pause(ctx, time.Until(began.Add(time.Duration(i+1)*between))); err != nil {
			return departure{}, err
		}
		next := []sickness{silent, unwell}[i%2]
		if _, err := s.sicken(ctx, pod.Spec.NodeName, next); err != nil {
			return departure{}, err
		}
	}
	return s.observer.departure(ctx, pod, began, tolerated, tolerated+20*time.Second)
}

// playSwapAndRestart restarts the contestant soon after a swap, while a countdown runs that began long before it.
func playSwapAndRestart(ctx context.Context, s *scene) (finding, error) {
	const tolerated, swapAfter = 12 * time.Second, 5 * time.Second
	pod, began, err := s.podOfSickNode(ctx, "counted", tolerated)
	if err != nil {
		return finding{}, err
	}
	if err := pause(ctx, time.Until(began.Add(swapAfter))); err != nil {
		return finding{}, err
	}
	if _, err := s.sicken(ctx, pod.Spec.NodeName, silent); err != nil {
		return finding{}, err
	}
	if err := pause(ctx, time.Second); err != nil {
		return finding{}, err
	}
	if err := s.restart(ctx); err != nil {
		return finding{}, err
	}
	d, err := s.observer.departure(ctx, pod, began, tolerated, time.Minute)
	return d.finding(), err
}

// sickness is what the condition Ready of a node says, and the taint that the node-lifecycle controller makes of it.
type sickness struct {
	ready corev1.ConditionStatus
	taint string
}

var (
	unwell = sickness{corev1.ConditionFalse, corev1.TaintNodeNotReady}
	silent = sickness{corev1.ConditionUnknown, corev1.TaintNodeUnreachable}
)

// podOfSickNode makes a pod that tolerates both sicknesses for some time, and lets its node be unwell. The instant is
// that from which the taint counts, or a moment before.
func (s *scene) podOfSickNode(ctx context.Context, name string, tolerated time.Duration,
) (*corev1.Pod, time.Time, error) {
	seconds := int64(tolerated.Seconds())
	pod, err := s.lonelyPod(ctx, name, rig.Tolerating(unwell.taint, seconds), rig.Tolerating(silent.taint, seconds))
	if err != nil {
		return nil, time.Time{}, err
	}
	began, err := s.sicken(ctx, pod.Spec.NodeName, unwell)
	return pod, began, err
}

// sicken changes the condition of a node, as its kubelet and the controller that misses it do, and returns when the
// node-lifecycle controller has tainted it accordingly. The taint counts from its timeAdded, which is before it can be
// seen and is written to the second; but not from before the condition was changed.
func (s *scene) sicken(ctx context.Context, name string, to sickness) (began time.Time, err error) {
	began = time.Now()
	if err := s.setReady(ctx, name, to.ready); err != nil {
		return began, err
	}
	var taints []corev1.Taint
	tainted := func(ctx context.Context) (bool, error) {
		node, err := s.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		taints = noExecuteTaints(node)
		return len(taints) == 1 && taints[0].Key == to.taint && taints[0].TimeAdded != nil, nil
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, tainted)
	if err != nil {
		return began, fmt.Errorf("wait until node %s has the taint %s alone: %w", name, to.taint, err)
	}
	if added := taints[0].TimeAdded.Time; added.After(began) {
		began = added
	}
	return began, nil
}

func noExecuteTaints(node *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectNoExecute
	})
}

func (s *scene) setReady(ctx context.Context, name string, status corev1.ConditionStatus) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := s.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, Reason: "Played", LastTransitionTime: metav1.Now(),
		}}
		_, err = s.admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("set the condition Ready of node %s to %s: %w", name, status, err)
	}
	return nil
}
