// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// quarantine is the key of the taint that makes guarded pods leave. Nothing else sets or removes it.
const quarantine = "quarantine"

// crowd is how many guarded pods must leave at once: more than a replica has workers.
const crowd = 40

// gatekeeper makes the webhook slow, then hang, then refuse, each time while many pods that it guards must leave.
type gatekeeper struct {
	*troublemaker

	webhook *webhook
	ledger  *ledger
	say     func(format string, args ...any)
	length  time.Duration // of one obstruction; the pause after it is about as long
}

// run obstructs until the context ends.
func (g *gatekeeper) run(ctx context.Context) error {
	defer g.webhook.set("")
	for ctx.Err() == nil {
		for _, i := range g.random.Perm(len(reviewFaults)) {
			if err := g.obstruct(ctx, reviewFaults[i]); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", reviewFaults[i], err)
			}
		}
	}
	return nil
}

// obstruct makes a crowd of pods due while the webhook obstructs their evictions, and then lets them leave. Sometimes
// the crowd may stay before that, while its DELETEs wait.
func (g *gatekeeper) obstruct(ctx context.Context, fault faultKind) error {
	asked := aScope(g.random)
	if err := g.webhook.register(ctx, g.client, asked); err != nil {
		return err
	}
	nodes := []string{pick(g.random, g.nodes...), pick(g.random, g.nodes...)}
	if err := g.gather(ctx, nodes); err != nil {
		return err
	}
	changed := g.chance(0.5)
	err := g.during(fault, func() error {
		g.say("%s: %s", fault, asked)
		if err := g.changeNodes(ctx, nodes, g.set(isolated)); err != nil {
			return err
		}
		pause(ctx, g.length/2)
		if changed {
			if err := g.changeNodes(ctx, nodes, g.unset(isolated)); err != nil {
				return err
			}
		}
		pause(ctx, g.length/2)
		return nil
	})
	if err != nil {
		return err
	}
	pause(ctx, time.Duration((0.5+g.random.Float64()/2)*float64(g.length)))
	// This fails at the end of the run: pods that must leave then should do so.
	return g.changeNodes(ctx, nodes, g.unset(isolated))
}

// isolated is the taint of a node whose pods must leave at once.
var isolated = corev1.Taint{Key: quarantine, Effect: corev1.TaintEffectNoExecute}

// during calls a function while a fault happens to the reviews.
func (g *gatekeeper) during(fault faultKind, do func() error) error {
	began := time.Now()
	g.webhook.set(fault)
	err := do()
	g.webhook.set("")
	g.ledger.obstruct(string(fault), began, time.Now())
	return err
}

// gather creates guarded pods on nodes. They tolerate everything except isolation, so nothing else makes them leave.
func (g *gatekeeper) gather(ctx context.Context, nodes []string) error {
	for range crowd {
		g.made++
		pod := g.aNewPod(fmt.Sprintf("%s-%d", g.series, g.made))
		pod.Labels[guarded] = ""
		pod.Spec.NodeName, pod.Spec.SchedulerName, pod.Spec.Tolerations = pick(g.random, nodes...), "", nil
		for _, key := range toleratedKeys {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
		delete(pod.Annotations, corev1.MirrorPodAnnotationKey)
		if err := g.create(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (g *gatekeeper) changeNodes(ctx context.Context, nodes []string,
	change func([]corev1.Taint) []corev1.Taint,
) error {
	for _, name := range nodes {
		if err := g.changeNode(ctx, name, change); err != nil {
			return err
		}
	}
	return nil
}
