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

// playAlone taints a node while the contestant runs without the controllers that usually run with it.
func playAlone(ctx context.Context, s *scene) (finding, error) {
	const watched = 10 * time.Second
	pod, err := s.lonelyPod(ctx, "due")
	if err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	d, err := s.observer.departure(ctx, pod, began, 0, watched)
	if err != nil {
		return finding{}, err
	}
	return s.withIndexError(d.finding())
}

// withIndexError adds what the log says about it, if it does.
func (s *scene) withIndexError(found finding) (finding, error) {
	const complaint = "Index with name spec.nodeName does not exist"
	n, err := logMark{path: s.contestant.log()}.lines(complaint)
	if err != nil || n == 0 {
		return found, err
	}
	return finding{seen: fmt.Sprintf("%s; its log: '%s'", found.seen, complaint), right: found.right}, nil
}

// playLag makes a pod on a node that was untainted before, for a contestant that sees the pod and not yet the untaint.
func playLag(ctx context.Context, s *scene) (finding, error) {
	const watched = 6 * time.Second
	// The end of this one says that the contestant has seen the taint.
	before, err := s.lonelyPod(ctx, "before")
	if err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, before.Spec.NodeName, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	left, err := s.observer.Await(ctx, began.Add(time.Minute), before)
	if err != nil {
		return finding{}, err
	}
	if left > 0 {
		return finding{}, errors.New("the pod that was to show that the taint is seen was not evicted")
	}
	s.gate.Hold()
	defer s.gate.Release()
	if _, err := s.untaint(ctx, before.Spec.NodeName, "gone"); err != nil {
		return finding{}, err
	}
	pod, err := s.Pod(ctx, "after", before.Spec.NodeName)
	if err != nil {
		return finding{}, err
	}
	d, err := s.observer.departure(ctx, pod, time.Now(), never, watched)
	if d.left {
		return finding{seen: fmt.Sprintf("deleted %s after it was made", seconds(d.after))}, err
	}
	return finding{seen: d.String(), right: true}, err
}
