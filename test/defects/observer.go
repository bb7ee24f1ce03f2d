// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/observer"
)

// observed is what was seen of all pods by a bystander.
type observed struct{ *observer.Pods }

// departure returns how a pod left that was due some time after began, by an instant.
func (o observed) departure(ctx context.Context, pod *corev1.Pod, began time.Time, due, watched time.Duration,
) (departure, error) {
	d := departure{due: due, watched: watched}
	if _, err := o.Await(ctx, began.Add(watched), pod); err != nil {
		return d, err
	}
	if at, left := o.Left(pod.UID); left {
		d.left, d.after = true, at.Sub(began)
	}
	return d, nil
}

// pause lets time pass that is part of a scenario.
func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
