// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

const (
	// At 20 calls per second, three calls and an event for each of 200 pods take 40 s.
	untaintPods = 200
	stormPods   = 150
	queuePods   = 80
	// stormLimit is how long a storm may last.
	stormLimit = 2 * time.Minute
	// promptly is how soon the first pod of a storm has to leave.
	promptly = 2 * time.Second
	// inFlight is how long after an untaint a delete may still be answered that was under way.
	inFlight = time.Second
)

// playUntaint takes a taint back while most of the evictions wait for their turn.
func playUntaint(ctx context.Context, s *scene) (finding, error) {
	node, err := s.node(ctx, "tainted")
	if err != nil {
		return finding{}, err
	}
	pods, err := s.Pods(ctx, untaintPods, node)
	if err != nil {
		return finding{}, err
	}
	if _, err := s.taint(ctx, node, rig.NoExecute("gone")); err != nil {
		return finding{}, err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return finding{}, err
	}
	untainted, err := s.untaint(ctx, node, "gone")
	if err != nil {
		return finding{}, err
	}
	if err := s.awaitQuiet(ctx, pods); err != nil {
		return finding{}, err
	}
	calls, err := s.calls()
	if err != nil {
		return finding{}, err
	}
	return judgeUntaint(podDeletes(calls), untainted), nil
}

func judgeUntaint(deletes []call, untainted time.Time) finding {
	after := since(deletes, untainted)
	return finding{
		seen:  fmt.Sprintf("%d of %d deleted before the untaint, %d after it", len(deletes)-len(after), untaintPods, len(after)),
		right: len(since(deletes, untainted.Add(inFlight))) == 0,
	}
}

// awaitQuiet returns when all the pods have left, or none has for a while.
func (s *scene) awaitQuiet(ctx context.Context, pods []*corev1.Pod) error {
	const quiet = 15 * time.Second // longer than reading all pods takes at 20 calls per second
	for before := -1; ; {
		left, err := s.observer.Await(ctx, time.Now().Add(quiet), pods...)
		if err != nil || left == 0 || left == before {
			return err
		}
		before = left
	}
}

// playStorm taints a node with many pods. Whoever reads all of them first lets the first wait long.
func playStorm(ctx context.Context, s *scene) (finding, error) {
	node, err := s.node(ctx, "tainted")
	if err != nil {
		return finding{}, err
	}
	pods, err := s.Pods(ctx, stormPods, node)
	if err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, node, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	left, err := s.observer.Await(ctx, began.Add(stormLimit), pods...)
	if err != nil {
		return finding{}, err
	}
	calls, err := s.callsWithDeletes(ctx, len(pods)-left)
	if err != nil {
		return finding{}, err
	}
	return judgeStorm(calls, began), nil
}

func judgeStorm(calls []call, began time.Time) finding {
	deletes := podDeletes(calls)
	if len(deletes) == 0 {
		return finding{seen: "nothing deleted"}
	}
	first, last := deletes[0].Answered.Sub(began), deletes[len(deletes)-1].Answered.Sub(began)
	perPod := float64(len(callsOnPods(calls))) / float64(len(deletes))
	return finding{
		seen: fmt.Sprintf("%d of %d deleted, the first after %s, the last after %s; %.1f calls per pod",
			len(deletes), stormPods, seconds(first), seconds(last), perPod),
		right: len(deletes) == stormPods && first <= promptly && perPod < 2.5,
	}
}

// callsOnPods returns what is not about events.
func callsOnPods(calls []call) []call {
	var found []call
	for _, c := range calls {
		if c.Resource == "pods" || c.Resource == "pods/status" {
			found = append(found, c)
		}
	}
	return found
}

// playReplacement replaces a pod whose eviction waits in the queue, under the same name and on a node without taints,
// as a StatefulSet would.
func playReplacement(ctx context.Context, s *scene) (finding, error) {
	replacement, err := s.replaceInQueue(ctx)
	if err != nil {
		return finding{}, err
	}
	began := time.Now()
	d, err := s.observer.departure(ctx, replacement, began, never, 20*time.Second)
	if d.left {
		return finding{seen: fmt.Sprintf("the replacement on the healthy node deleted %s after it was made", seconds(d.after))}, err
	}
	return finding{seen: "the replacement " + d.String(), right: true}, err
}

func (s *scene) replaceInQueue(ctx context.Context) (*corev1.Pod, error) {
	crowded, err := s.node(ctx, "crowded")
	if err != nil {
		return nil, err
	}
	if _, err := s.Pods(ctx, queuePods, crowded); err != nil {
		return nil, err
	}
	healthy, err := s.node(ctx, "healthy")
	if err != nil {
		return nil, err
	}
	victim, err := s.lonelyPod(ctx, "database-0")
	if err != nil {
		return nil, err
	}
	if _, err := s.taint(ctx, crowded, rig.NoExecute("gone")); err != nil {
		return nil, err
	}
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	if _, err := s.taint(ctx, victim.Spec.NodeName, rig.NoExecute("gone")); err != nil {
		return nil, err
	}
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	if _, left := s.observer.Left(victim.UID); left {
		return nil, errors.New("the pod was evicted before it could be replaced: the queue ahead of it was too short")
	}
	if err := s.Remove(ctx, victim.Name); err != nil {
		return nil, err
	}
	return s.Pod(ctx, victim.Name, healthy)
}
