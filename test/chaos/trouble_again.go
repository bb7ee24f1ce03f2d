// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// template is the key of the taint that somebody writes again and again, always with the present time. Nobody else sets
// it.
const template = "template"

// conditionSeconds is how long a pod tolerates not-ready and unreachable if it does not say otherwise.
const conditionSeconds = "12"

// controllers are those who write the same taints again and again, as the node-lifecycle controller does, which is off
// here because all nodes are healthy.
func (t *troublemaker) controllers() []deed {
	return []deed{
		{weight: 2, do: t.fallSick},
		{weight: 1, do: t.rewrite},
	}
}

// fallSick makes a node not ready and unreachable by turns, and then ready. Each time the one taint comes before the
// other goes, and has the present time.
func (t *troublemaker) fallSick(ctx context.Context) error {
	node := pick(t.random, t.nodes...)
	now, next := corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	if t.chance(0.5) {
		now, next = next, now
	}
	if err := t.changeNode(ctx, node, t.set(presentTaint(now))); err != nil {
		return err
	}
	for range 2 + t.random.IntN(5) {
		t.wait(ctx, time.Second, 5*time.Second)
		if err := t.changeNode(ctx, node, t.set(presentTaint(next))); err != nil {
			return err
		}
		t.wait(ctx, time.Millisecond, 50*time.Millisecond)
		if err := t.changeNode(ctx, node, t.unset(presentTaint(now))); err != nil {
			return err
		}
		t.observer.ledger.inject(swapped)
		now, next = next, now
	}
	t.wait(ctx, time.Second, 10*time.Second)
	return t.changeNode(ctx, node, t.unset(presentTaint(now)))
}

// rewrite sets a taint, and sets it again before the pods that tolerate it for a while must leave.
func (t *troublemaker) rewrite(ctx context.Context) error {
	node := pick(t.random, t.nodes...)
	for range 4 + t.random.IntN(12) {
		if err := t.changeNode(ctx, node, t.set(presentTaint(template))); err != nil {
			return err
		}
		t.observer.ledger.inject(rewritten)
		t.wait(ctx, 300*time.Millisecond, 3*time.Second)
	}
	return t.changeNode(ctx, node, t.unset(presentTaint(template)))
}

func presentTaint(key string) corev1.Taint {
	now := metav1.Now()
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &now}
}

func (t *troublemaker) wait(ctx context.Context, shortest, longest time.Duration) {
	pause(ctx, shortest+time.Duration(t.random.Int64N(int64(longest-shortest))))
}
