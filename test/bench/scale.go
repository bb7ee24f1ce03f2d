// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// scaleResult is what a process needs to start, and to be there, in a big cluster.
type scaleResult struct {
	Startup time.Duration `json:"startup"` // from the start of the process to its first delete, of a pod that is due already
	// Processor time until then.
	CPU       time.Duration `json:"cpu"`       // of the process
	ServerCPU time.Duration `json:"serverCPU"` // of the API server
	Memory    memory        `json:"memory"`
}

// scale starts the contestants in a big cluster where nothing happens.
func (b *bench) scale(ctx context.Context) error {
	b.say("\nscale: creating %d pods on %d nodes", b.pods, b.nodes)
	began := time.Now()
	if err := b.fill(ctx); err != nil {
		return err
	}
	b.say("  created after %s: pods of %d bytes, nodes of %d", seconds(time.Since(began)), b.report.ScalePodBytes, b.report.ScaleNodeBytes)
	err := b.inRounds(ctx, b.scaleOf, []string{nameOurs, namePrevious, nameBuiltIn}, nil)
	b.report.printScale(b.out, b.pods, b.nodes)
	return err
}

func (b *bench) scaleOf(ctx context.Context, c contestant) error {
	before, err := b.serverCPU(ctx)
	if err != nil {
		return err
	}
	p, err := b.launch(ctx, c)
	if err != nil {
		return err
	}
	result, err := b.weigh(ctx, p)
	result.ServerCPU -= before
	if err := errors.Join(err, p.stop(), b.removePodsIn(ctx, canaryNamespace)); err != nil {
		return err
	}
	b.report.Scale[c.name] = append(b.report.Scale[c.name], result)
	b.say("  %s: started after %s, %s at most, %s settled, load %s", c.name, seconds(result.Startup),
		mebibytes(result.Memory.Peak), mebibytes(result.Memory.Resident), loadAverage())
	return nil
}

// weigh measures a process that has just deleted its first pod, and again when it has settled.
func (b *bench) weigh(ctx context.Context, p *process) (scaleResult, error) {
	used, err := b.usage(ctx, p)
	if err != nil {
		return scaleResult{}, err
	}
	if err := pause(ctx, b.settle); err != nil {
		return scaleResult{}, err
	}
	weight, err := p.memory()
	if err != nil {
		return scaleResult{}, fmt.Errorf("after %s: %w", b.settle, err)
	}
	return scaleResult{Startup: p.startup, CPU: used.process, ServerCPU: used.server, Memory: weight}, nil
}
