// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// The pods of the scenes with many of them. The scene million has b.slimPods.
const (
	restPods  = 50_000
	restNodes = 1_667 // as many pods on each as in the scene scale
	tableRest = "50000 pods at rest"

	scalePods = 150_000

	changedPods      = 50_000
	changedNodes     = 1_667
	changesPerSecond = 5_000
	changesFor       = time.Minute
	// changesBefore is how long pods change before the minute that counts.
	changesBefore = 10 * time.Second

	millionNodes = 15_000
)

// rest starts Taintkeeper, also next to the built-in controller, in a cluster of ordinary size where nothing happens.
func (b *bench) rest(ctx context.Context) error {
	if err := errors.Join(b.cluster.InstallResources(ctx), b.cluster.InstallCoexistence(ctx)); err != nil {
		return err
	}
	return b.starts(ctx, tableRest, restPods, restNodes, nameOurs, namePrevious, nameCoexist)
}

// scale starts the contestants in a big cluster where nothing happens.
func (b *bench) scale(ctx context.Context) error {
	table := fmt.Sprintf("%d pods on %d nodes", scalePods, b.nodes)
	return b.starts(ctx, table, scalePods, b.nodes, nameOurs, namePrevious, nameBuiltIn)
}

// starts fills the cluster and starts contestants in it.
func (b *bench) starts(ctx context.Context, table string, pods, nodes int, contestants ...string) error {
	b.say("\n%s are created", table)
	if err := b.fillSmall(ctx, nodes, pods); err != nil {
		return err
	}
	return b.take(ctx, turns{every: contestants, play: func(ctx context.Context, p *process) error {
		start, err := b.startOf(ctx, p)
		if err == nil {
			b.note(table, p.name, start)
		}
		return err
	}})
}

// startOf measures a process that has just deleted its first pod, of a node that was tainted all along. When it has
// settled, it measures a minute in which nothing happens, and its memory.
func (b *bench) startOf(ctx context.Context, p *process) (figures, error) {
	own, server, err := b.usage(ctx, p)
	if err != nil {
		return nil, err
	}
	var start figures
	if p.startup > 0 { // the floor deletes nothing at its start
		start = figures{
			{"start to first delete, s", p.startup.Seconds()},
			{"CPU time until then, s", own}, {"CPU time of the API server until then, s", server - p.serverBefore},
		}
	}
	if err := await.Pause(ctx, b.settle); err != nil {
		return nil, err
	}
	atRest, err := b.measured(ctx, p, func(ctx context.Context) error { return await.Pause(ctx, time.Minute) })
	if err != nil {
		return nil, err
	}
	start = append(start,
		figure{"CPU time in a minute at rest, s", atRest[0].Value},
		figure{"CPU time of the API server in a minute at rest, s", atRest[1].Value})
	memory, err := p.memory()
	return append(start, memory...), err
}

// million makes contestants start with a million slim pods, and then evict 1,000 others in a storm.
func (b *bench) million(ctx context.Context) error {
	table := fmt.Sprintf("%d slim pods on %d nodes", b.slimPods, millionNodes)
	b.say("\n%s are created", table)
	if _, err := b.fillSlim(ctx, millionNodes, b.slimPods); err != nil {
		return err
	}
	// As in every storm, the coexistence policy is evaluated for all contestants.
	err := errors.Join(b.ensureNodes(ctx, stormNodes), b.cluster.InstallResources(ctx), b.cluster.InstallCoexistence(ctx))
	if err != nil {
		return err
	}
	return b.take(ctx, turns{
		every:  []string{nameFloor, nameOurs, namePrevious},
		before: func(ctx context.Context) error { return b.createStormPods(ctx, stormNodes) },
		play: func(ctx context.Context, p *process) error {
			start, err := b.startOf(ctx, p)
			if err != nil {
				return err
			}
			b.note(table, p.name, start)
			return b.weather(ctx, p, table+", storm", stormNodes)
		},
	})
}

// changes makes pods become ready and unready on nodes without taints. The changes are written directly to etcd,
// because sending them to watches is enough work for the API server.
func (b *bench) changes(ctx context.Context) error {
	b.say("\n%d slim pods on %d nodes are created", changedPods, changedNodes)
	slim, err := b.fillSlim(ctx, changedNodes, changedPods)
	if err != nil {
		return err
	}
	err = b.take(ctx, turns{
		every: []string{nameOurs, namePrevious, nameBuiltIn},
		play:  func(ctx context.Context, p *process) error { return b.changingMinute(ctx, p, slim) },
	})
	return errors.Join(err, b.removeSlim(ctx, slim(changedPods-1)))
}

// changingMinute plays the minute itself. There are fewer changes than asked for if the machine is too slow.
func (b *bench) changingMinute(ctx context.Context, p *process, slim func(i int) *corev1.Pod) (err error) {
	changing, stop := context.WithCancel(ctx)
	var written atomic.Int64
	var group errgroup.Group
	group.Go(func() error { return b.change(changing, slim, &written) })
	defer func() {
		stop()
		err = errors.Join(err, group.Wait())
	}()
	if err := await.Pause(ctx, changesBefore); err != nil {
		return err
	}
	var changed int64
	used, err := b.measured(ctx, p, func(ctx context.Context) error {
		first := written.Load()
		defer func() { changed = written.Load() - first }()
		return await.Pause(ctx, changesFor)
	})
	if err != nil {
		return err
	}
	memory, err := p.memory()
	b.note(fmt.Sprintf("a minute of %d changes a second", changesPerSecond), p.name, slices.Concat(figures{
		{"CPU time for each change, µs", used[0].Value / float64(max(changed, 1)) * 1e6},
		{"changes a second", float64(changed) / changesFor.Seconds()},
	}, used, memory))
	return err
}

// change changes all pods one after the other, at a rate, until the context ends.
func (b *bench) change(ctx context.Context, slim func(i int) *corev1.Pod, written *atomic.Int64) error {
	tick := time.NewTicker(time.Second * perTransaction / changesPerSecond)
	defer tick.Stop()
	group, parallel := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for next := 0; parallel.Err() == nil; next += perTransaction {
		select {
		case <-parallel.Done():
			continue
		case <-tick.C:
		}
		group.Go(func() error {
			changed := func(i int) *corev1.Pod { return ready(slim(i%changedPods), i/changedPods%2 == 1) }
			if err := putter(b.etcd.put).some(parallel, next, next+perTransaction, keyed(changed)); err != nil {
				return fmt.Errorf("change pods: %w", err)
			}
			written.Add(perTransaction)
			return nil
		})
	}
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// ready returns a pod with the condition Ready set as given.
func ready(pod *corev1.Pod, is bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status = status
		}
	}
	return pod
}
