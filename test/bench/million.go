// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
)

// millionNodes is how many nodes the million pods are on.
const millionNodes = 15_000

// millionResult is a start in a very big cluster, a storm there when the process has settled, and what EvictionPolicies
// cost.
type millionResult struct {
	Start scaleResult `json:"start"`
	Storm stormRound  `json:"storm"`
	// Selecting is measured only for taintkeeper.
	Selecting selectingResult `json:"selecting"`
}

// million makes contestants start with a million pods, and then evict 1,000 others in a storm.
func (b *bench) million(ctx context.Context) error {
	b.say("\nmillion: creating %d slim pods on %d nodes", b.slimPods, millionNodes)
	if _, err := b.fillSlim(ctx, millionNodes, b.slimPods); err != nil {
		return err
	}
	if err := b.ensureNodes(ctx, stormNodes); err != nil {
		return err
	}
	// As in every storm, the coexistence policy is evaluated for all contestants.
	if err := errors.Join(b.cluster.InstallResources(ctx), b.cluster.InstallCoexistence(ctx)); err != nil {
		return err
	}
	err := b.inRounds(ctx, b.millionOf, []string{nameFloor, nameOurs, namePrevious}, nil)
	b.report.printMillion(b.out, b.slimPods)
	return err
}

func (b *bench) millionOf(ctx context.Context, c contestant) error {
	if err := b.createStormPods(ctx, stormNodes); err != nil {
		return err
	}
	before, err := b.serverCPU(ctx)
	if err != nil {
		return err
	}
	p, err := b.launch(ctx, c)
	if err != nil {
		return err
	}
	result, err := b.measureMillion(ctx, p)
	result.Start.ServerCPU -= before
	p.stop()
	err = errors.Join(err, b.untaintAll(ctx, nodeNames(stormNodes)), b.removePods(ctx))
	if err != nil {
		return err
	}
	b.report.Million[c.name] = append(b.report.Million[c.name], result)
	b.say("  %s: started after %s, peak memory %s, storm in %s, first delete after %s, load %s",
		c.name, seconds(result.Start.Startup), mebibytes(result.Start.Memory.Peak),
		seconds(result.Storm.Total), milliseconds(result.Storm.First), loadAverage())
	return nil
}

func (b *bench) measureMillion(ctx context.Context, p *process) (result millionResult, err error) {
	if result.Start, err = b.weigh(ctx, p); err != nil {
		return result, err
	}
	if result.Storm, err = b.stormRound(ctx, p, stormNodes); err != nil || p.name != nameOurs {
		return result, err
	}
	if result.Selecting, err = b.selecting(ctx, p); err != nil {
		return result, fmt.Errorf("three EvictionPolicies: %w", err)
	}
	return result, nil
}
