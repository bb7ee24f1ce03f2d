// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

const (
	changedPods      = 50_000
	changedNodes     = 1_667
	changesPerSecond = 5_000
	changesFor       = time.Minute
	// changesBefore is how long pods change before the minute that counts.
	changesBefore = 10 * time.Second
)

// changesResult is what it costs to follow changing pods.
type changesResult struct {
	Changes   int           `json:"changes"` // in the minute; fewer than asked for if the machine is too slow
	CPU       time.Duration `json:"cpu"`
	ServerCPU time.Duration `json:"serverCPU"`
	Memory    memory        `json:"memory"`
}

// perChange is the CPU time for each change.
func (c changesResult) perChange() time.Duration { return c.CPU / time.Duration(max(c.Changes, 1)) }

// changes makes pods become ready and unready on nodes without taints. The changes are written directly to etcd,
// because sending them to watches is enough work for the API server.
func (b *bench) changes(ctx context.Context) error {
	b.say("\nchanges: creating %d slim pods on %d nodes", changedPods, changedNodes)
	slim, err := b.fillSlim(ctx, changedNodes, changedPods)
	if err != nil {
		return err
	}
	changesOf := func(ctx context.Context, c contestant) error { return b.changesOf(ctx, c, slim) }
	err = b.inRounds(ctx, changesOf, []string{nameOurs, namePrevious, nameBuiltIn}, nil)
	b.report.printChanges(b.out)
	return errors.Join(err, b.removeSlim(ctx, slim(changedPods-1)))
}

func (b *bench) changesOf(ctx context.Context, c contestant, slim func(i int) *corev1.Pod) error {
	p, err := b.launch(ctx, c)
	if err != nil {
		return err
	}
	result, err := b.changingMinute(ctx, p, slim)
	p.stop()
	if err := errors.Join(err, b.removePodsIn(ctx, canaryNamespace)); err != nil {
		return err
	}
	b.report.Changes[c.name] = append(b.report.Changes[c.name], result)
	b.say("  %s: %d changes in a minute for %s of CPU time, load %s",
		c.name, result.Changes, seconds(result.CPU), loadAverage())
	return nil
}

// changingMinute plays the minute itself.
func (b *bench) changingMinute(ctx context.Context, p *process, slim func(i int) *corev1.Pod,
) (r changesResult, err error) {
	changing, stop := context.WithCancel(ctx)
	var written atomic.Int64
	var group errgroup.Group
	group.Go(func() error { return b.change(changing, slim, &written) })
	defer func() {
		stop()
		err = errors.Join(err, group.Wait())
	}()
	if err := await.Pause(ctx, changesBefore); err != nil {
		return r, err
	}
	var changed int64
	used, err := b.measured(ctx, p, func(ctx context.Context) error {
		first := written.Load()
		defer func() { changed = written.Load() - first }()
		return await.Pause(ctx, changesFor)
	})
	if err != nil {
		return r, err
	}
	r = changesResult{Changes: int(changed), CPU: used.process, ServerCPU: used.server}
	r.Memory, err = p.memory()
	return r, err
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
