// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// refusal is for how long deletes are refused: many times as long as upstream tries, and as short as the restart of
// an API server or of a webhook.
const refusal = 3 * time.Second

// playRefusal lets an admission policy refuse the deletes of pods for a while.
func playRefusal(ctx context.Context, s *scene) (finding, error) {
	pod, err := s.lonelyPod(ctx, "kept")
	if err != nil {
		return finding{}, err
	}
	allow, err := s.RefuseDeletes(ctx, pod)
	if err != nil {
		return finding{}, err
	}
	_, err = s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("gone"))
	err = errors.Join(err, pause(ctx, refusal), allow())
	if err != nil {
		return finding{}, err
	}
	// The pod is due by now. A retry with a backoff that doubles comes after at most as long again as it was refused.
	d, err := s.observer.departure(ctx, pod, time.Now(), 0, 20*time.Second)
	if d.left {
		return finding{seen: fmt.Sprintf("left %s after deletes were allowed again", seconds(d.after)), right: d.after <= 2*refusal+patience}, err
	}
	return finding{seen: fmt.Sprintf("still there %s after deletes were allowed again", seconds(d.watched))}, err
}
