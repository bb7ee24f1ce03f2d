// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// scaleResult is what a process needs to start, and to run idle, in a big cluster.
type scaleResult struct {
	Startup time.Duration `json:"startup"` // from the start of the process to its first delete, of a pod that is due already
	// Processor time until then.
	CPU       time.Duration `json:"cpu"`       // of the process
	ServerCPU time.Duration `json:"serverCPU"` // of the API server
	Memory    memory        `json:"memory"`
}

// The pods of the part rest, as many on each node as in the part scale.
const (
	restPods  = 50_000
	restNodes = 1_667
)

// rest starts Taintkeeper in a cluster of ordinary size where nothing happens.
func (b *bench) rest(ctx context.Context) error {
	return b.starts(ctx, partRest, restPods, restNodes, nameOurs, namePrevious)
}

// scale starts the contestants in a big cluster where nothing happens.
func (b *bench) scale(ctx context.Context) error {
	return b.starts(ctx, partScale, b.pods, b.nodes, nameOurs, namePrevious, nameBuiltIn)
}

// starts fills the cluster and starts contestants in it.
func (b *bench) starts(ctx context.Context, part string, pods, nodes int, contestants ...string) error {
	b.say("\n%s: creating %d pods on %d nodes", part, pods, nodes)
	began := time.Now()
	if err := b.fill(ctx, nodes, pods); err != nil {
		return err
	}
	b.sayCreated(began, b.report.ScalePodBytes)
	results := map[string][]scaleResult{}
	b.report.Starts[part] = results
	startOf := func(ctx context.Context, c contestant) error { return b.startOf(ctx, c, results) }
	err := b.inRounds(ctx, startOf, contestants, nil)
	b.report.printStarts(b.out, part, pods, nodes)
	return err
}

func (b *bench) sayCreated(began time.Time, podBytes int) {
	b.say("  created after %s: pods of %d bytes, nodes of %d",
		seconds(time.Since(began)), podBytes, b.report.ScaleNodeBytes)
}

func (b *bench) startOf(ctx context.Context, c contestant, results map[string][]scaleResult) error {
	before, err := b.serverCPU(ctx)
	if err != nil {
		return err
	}
	p, err := b.launch(ctx, c)
	if err != nil {
		return err
	}
	result, err := b.weigh(ctx, p)
	p.stop()
	result.ServerCPU -= before
	if err := errors.Join(err, b.removePodsIn(ctx, canaryNamespace)); err != nil {
		return err
	}
	results[c.name] = append(results[c.name], result)
	b.say("  %s: started after %s, peak memory %s, settled memory %s, load %s", c.name, seconds(result.Startup),
		mebibytes(result.Memory.Peak), mebibytes(result.Memory.Resident), loadAverage())
	return nil
}

// weigh measures a process that has just deleted its first pod, and again when it has settled.
func (b *bench) weigh(ctx context.Context, p *process) (scaleResult, error) {
	used, err := b.usage(ctx, p)
	if err != nil {
		return scaleResult{}, err
	}
	if err := await.Pause(ctx, b.settle); err != nil {
		return scaleResult{}, err
	}
	weight, err := p.memory()
	if err != nil {
		return scaleResult{}, fmt.Errorf("after %s: %w", b.settle, err)
	}
	return scaleResult{Startup: p.startup, CPU: used.process, ServerCPU: used.server, Memory: weight}, nil
}
