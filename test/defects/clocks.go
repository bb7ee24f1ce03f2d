// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// clockError is by how much the clock of a contestant is ahead.
const clockError = 5 * time.Minute

// playClock sets the contestant's clock while a countdown runs, and begins another one by the clock that is wrong then.
func playClock(ctx context.Context, s *scene) (finding, error) {
	const tolerated = 8 * time.Second
	defer s.clock.Set(0)
	wrong := make(chan struct{})
	stepped := func(ctx context.Context, s *scene) (departure, error) {
		pod, began, err := s.podOfStampedNode(ctx, "stepped", tolerated)
		if err != nil {
			return departure{}, err
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return departure{}, err
		}
		s.clock.Set(clockError)
		close(wrong)
		return s.observer.departure(ctx, pod, began, tolerated, time.Minute)
	}
	ahead := func(ctx context.Context, s *scene) (departure, error) {
		select {
		case <-wrong:
		case <-ctx.Done():
			return departure{}, context.Cause(ctx)
		}
		pod, began, err := s.podOfStampedNode(ctx, "ahead", tolerated)
		if err != nil {
			return departure{}, err
		}
		return s.observer.departure(ctx, pod, began, tolerated, time.Minute)
	}
	found, err := s.playParts(ctx, part{"set ahead in mid-countdown", stepped}, part{"ahead from the start", ahead})
	return found, errors.Join(err, s.awaitWrongEvents(ctx))
}

// awaitWrongEvents returns once an event shows that the contestant's clock is wrong.
func (s *scene) awaitWrongEvents(ctx context.Context) error {
	shown := func(ctx context.Context) (bool, error) {
		events, err := s.admin.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(events.Items, func(event corev1.Event) bool {
			return time.Until(event.LastTimestamp.Time) > clockError/2
		}), nil
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 20*time.Second, true, shown)
	if err != nil {
		return fmt.Errorf("wait for an event that shows the wrong clock: %w", err)
	}
	return nil
}

// podOfStampedNode makes a pod that tolerates a taint for some time, and sets the taint, with its timeAdded, which is
// the instant.
func (s *scene) podOfStampedNode(ctx context.Context, name string, tolerated time.Duration,
) (*corev1.Pod, time.Time, error) {
	pod, err := s.lonelyPod(ctx, name, rig.Tolerating("gone", int64(tolerated.Seconds())))
	if err != nil {
		return nil, time.Time{}, err
	}
	taint, began := rig.NoExecute("gone"), time.Now()
	taint.TimeAdded = new(metav1.NewTime(began))
	_, err = s.taint(ctx, pod.Spec.NodeName, taint)
	return pod, began, err
}
