// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A canary is a pod on a node that has been tainted all along. It is due when a contestant starts, so its end shows
// that the contestant works, whatever the contestant considers ready.
const (
	canaryNode      = "canary"
	canaryNamespace = "canary"
)

// startLimit is how long a contestant may take before it acts.
const startLimit = 15 * time.Minute

// launch starts a contestant and returns as soon as it is ready.
func (b *bench) launch(ctx context.Context, c contestant) (*process, error) {
	mark, err := b.audit.mark()
	if err != nil {
		return nil, err
	}
	if err := b.createCanary(ctx); err != nil {
		return nil, err
	}
	p, err := b.start(c)
	if err != nil {
		return nil, err
	}
	p.mark = mark
	if err := c.ready(ctx, p); err != nil {
		p.stop()
		return nil, fmt.Errorf("wait for %s to be ready: %w", c.name, err)
	}
	return p, nil
}

// settleTime is how long a process is left alone, so that nothing is under way.
const settleTime = 2 * time.Second

func (b *bench) createCanary(ctx context.Context) error {
	b.serial++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("canary-%03d", b.serial), Namespace: canaryNamespace},
		Spec: corev1.PodSpec{
			NodeName:   canaryNode,
			Containers: []corev1.Container{{Name: "canary", Image: "registry.example.com/canary"}},
		},
	}
	if _, err := b.admin.CoreV1().Pods(canaryNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a canary: %w", err)
	}
	return nil
}

// awaitCanary returns once the process has deleted a canary, and notes how long after its start that was.
func (b *bench) awaitCanary(ctx context.Context, p *process) error {
	ctx, cancel := p.running(ctx)
	defer cancel()
	calls, err := b.audit.awaitDeletes(ctx, p.mark, 1, startLimit)
	if err != nil {
		return err
	}
	for _, accepted := range deletes(calls) {
		p.startup = accepted.Sub(p.started)
	}
	return nil
}
