// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const podsPerNode = 100

// weightResult is what a process needs to start and to be there in a big cluster.
type weightResult struct {
	Startup time.Duration `json:"startup"` // from the start of the process to its first delete, of a pod that is due already
	Memory  memory        `json:"memory"`
}

// memory weighs the contestants in a big cluster where nothing happens.
func (b *bench) memory(ctx context.Context) error {
	nodes := (b.pods + podsPerNode - 1) / podsPerNode
	b.say("\nmemory: creating %d pods on %d nodes; this takes minutes", b.pods, nodes)
	if err := b.fill(ctx, nodes); err != nil {
		return err
	}
	all, err := b.contestants(nameOurs, nameBuiltIn)
	if err != nil {
		return err
	}
	for _, c := range all {
		result, err := b.weigh(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		b.report.Weight[c.name] = result
		b.say("  %s: started after %s, %s at most, load %s", c.name, seconds(result.Startup), mebibytes(result.Memory.Peak), loadAverage())
	}
	b.report.printWeight(b.out, b.pods)
	return nil
}

func (b *bench) fill(ctx context.Context, nodes int) error {
	if err := b.ensureNodes(ctx, nodes); err != nil {
		return err
	}
	const batch = 5000 // so that this program does not hold all of them at once
	for first := 0; first < b.pods; first += batch {
		var pods []*corev1.Pod
		for i := first; i < min(first+batch, b.pods); i++ {
			pods = append(pods, productionPod(partMemory, i, nodeName(i%nodes)))
		}
		created, err := b.createPods(ctx, pods)
		if err != nil {
			return err
		}
		b.report.PodBytes = created[0].Size()
	}
	return nil
}

func (b *bench) weigh(ctx context.Context, c contestant) (weightResult, error) {
	p, err := b.launch(ctx, c)
	if err != nil {
		return weightResult{}, err
	}
	result := weightResult{Startup: p.startup}
	if err := pause(ctx, b.settle); err != nil {
		return weightResult{}, errors.Join(err, p.stop())
	}
	result.Memory, err = p.memory()
	return result, errors.Join(err, p.stop(), b.removePodsIn(ctx, canaryNamespace))
}
