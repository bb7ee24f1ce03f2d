// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// playTerminating changes the taints under a pod that terminates, five times.
func playTerminating(ctx context.Context, s *scene) (finding, error) {
	const changes = 5
	pod, err := s.lonelyPod(ctx, "slow")
	if err != nil {
		return finding{}, err
	}
	for i := range changes {
		if _, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute(fmt.Sprintf("gone-%d", i))); err != nil {
			return finding{}, err
		}
		if err := pause(ctx, 1500*time.Millisecond); err != nil {
			return finding{}, err
		}
	}
	calls, err := s.calls()
	if err != nil {
		return finding{}, err
	}
	deletes := len(podDeletes(calls))
	return finding{seen: deleted(deletes), right: deletes == 1}, nil
}

// playMirror plays the kubelet for a mirror pod: whenever it is gone, it comes back a moment later.
func playMirror(ctx context.Context, s *scene) (finding, error) {
	const watched = 10 * time.Second
	node, err := s.node(ctx, "tainted")
	if err != nil {
		return finding{}, err
	}
	mirror, err := s.Pod(ctx, "mirror", node, goneAtOnce, mirrored)
	if err != nil {
		return finding{}, err
	}
	completed, err := s.completedPod(ctx, node)
	if err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, node, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	deletes, err := s.countReturns(ctx, mirror, began.Add(watched))
	if err != nil {
		return finding{}, err
	}
	seen := fmt.Sprintf("mirror pod %s in %.0f s", deleted(deletes), watched.Seconds())
	if _, left := s.observer.Left(completed.UID); left {
		return finding{seen: seen + "; completed pod deleted", right: deletes == 0}, nil
	}
	return finding{seen: seen + "; completed pod left alone", right: deletes == 0}, nil
}

// countReturns puts a pod back whenever it is gone, and returns how often it went.
func (s *scene) countReturns(ctx context.Context, pod *corev1.Pod, until time.Time) (int, error) {
	for went := 0; ; went++ {
		left, err := s.observer.Await(ctx, until, pod)
		if err != nil || left > 0 {
			return went, err
		}
		if err := pause(ctx, time.Second); err != nil {
			return went, err
		}
		if pod, err = s.Pod(ctx, pod.Name, pod.Spec.NodeName, goneAtOnce, mirrored); err != nil {
			return went, err
		}
	}
}

func mirrored(pod *corev1.Pod) {
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "of-a-file"}
}

func (s *scene) completedPod(ctx context.Context, node string) (*corev1.Pod, error) {
	pod, err := s.Pod(ctx, "completed", node)
	if err != nil {
		return nil, err
	}
	pod.Status.Phase = corev1.PodSucceeded
	pod, err = s.admin.CoreV1().Pods(s.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("complete a pod: %w", err)
	}
	return pod, nil
}

// playEvents deletes a pod whose eviction is pending, and looks at what the contestant says of it and of one that it
// has evicted.
func playEvents(ctx context.Context, s *scene) (finding, error) {
	pending, err := s.lonelyPod(ctx, "pending", goneAtOnce, rig.Tolerating("gone", longTime))
	if err != nil {
		return finding{}, err
	}
	due, err := s.Pod(ctx, "due", pending.Spec.NodeName)
	if err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, pending.Spec.NodeName, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	if _, err := s.observer.Await(ctx, began.Add(time.Minute), due); err != nil {
		return finding{}, err
	}
	if err := pause(ctx, time.Second); err != nil {
		return finding{}, err
	}
	if err := s.Remove(ctx, pending.Name); err != nil {
		return finding{}, err
	}
	// Events are written in the background, at a rate that is limited.
	if err := pause(ctx, 6*time.Second); err != nil {
		return finding{}, err
	}
	events, err := s.admin.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return finding{}, fmt.Errorf("list events: %w", err)
	}
	return judgeEvents(events.Items, pending, due), nil
}

func judgeEvents(events []corev1.Event, removed, evicted *corev1.Pod) finding {
	cancelled, marked, identified := 0, 0, 0
	for _, event := range events {
		about := event.InvolvedObject
		switch {
		case about.Name == removed.Name && strings.HasPrefix(event.Message, "Cancelling deletion"):
			cancelled++
		case about.Name == evicted.Name && strings.HasPrefix(event.Message, "Marking for deletion"):
			marked++
			if about.UID == evicted.UID {
				identified++
			}
		}
	}
	found := finding{right: true}
	found = found.and("'Cancelling deletion' of the pod that somebody else deleted: "+times(cancelled), cancelled == 0)
	if marked == 0 {
		return found.and("no 'Marking for deletion' of the evicted pod", false)
	}
	return found.and(fmt.Sprintf("'Marking for deletion' with the pod's UID: %d of %d", identified, marked), identified == marked)
}
