// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/verdict"
)

const (
	latenessPods    = 5000
	latenessSeconds = 60
	// latenessPace is the time between the taints of two nodes. With twenty nodes the due instants fill every second
	// evenly, instead of all coming at once at its beginning.
	latenessPace = time.Second / stormNodes
)

// latenessResult says how long after their due instants deletes were accepted.
type latenessResult struct {
	P50    time.Duration `json:"p50"`
	P99    time.Duration `json:"p99"`
	P999   time.Duration `json:"p99_9"`
	Max    time.Duration `json:"max"`
	Early  int           `json:"early"` // pods that were deleted before they were due
	Memory memory        `json:"memory"`
	CPU    time.Duration `json:"cpu"`
}

// lateness makes pods become due over a minute. The built-in controller with its limit of 20 calls per second would
// take a quarter of an hour, so it is left out.
func (b *bench) lateness(ctx context.Context) error {
	if err := b.ensureNodes(ctx, stormNodes); err != nil {
		return err
	}
	b.say("\nlateness: %d pods are due at instants spread over a minute", latenessPods)
	err := b.inRounds(ctx, b.latenessOf, nil, []string{nameOurs, namePrevious, nameUnlimited})
	b.report.printLateness(b.out)
	return err
}

func (b *bench) latenessOf(ctx context.Context, c contestant) error {
	pods, err := b.createPods(ctx, latenessPodList())
	if err != nil {
		return err
	}
	p, err := b.launch(ctx, c)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := await.Pause(ctx, settleTime); err != nil {
		return err
	}
	result, err := b.minute(ctx, p, pods)
	if err != nil {
		return err
	}
	b.report.Lateness[c.name] = result
	b.say("  %s: p99 %s, load %s", c.name, milliseconds(result.P99), loadAverage())
	p.stop()
	return errors.Join(b.untaintAll(ctx, nodeNames(stormNodes)), b.removePods(ctx))
}

func latenessPodList() []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range latenessPods {
		pod := productionPod(partLateness, i, nodeName(i%stormNodes))
		pod.Spec.Tolerations = []corev1.Toleration{{
			Key: taintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(1 + i/stormNodes%latenessSeconds)),
		}}
		pods = append(pods, pod)
	}
	return pods
}

// minute plays the minute itself.
func (b *bench) minute(ctx context.Context, p *process, pods []*corev1.Pod) (result latenessResult, err error) {
	mark, err := b.audit.mark()
	if err != nil {
		return result, err
	}
	var calls []call
	used, err := b.measured(ctx, p, func(ctx context.Context) (err error) {
		for _, node := range nodeNames(stormNodes) {
			if err := errors.Join(b.taint(ctx, node), await.Pause(ctx, latenessPace)); err != nil {
				return err
			}
		}
		calls, err = b.audit.awaitDeletes(ctx, mark, len(pods), stormLimit)
		return err
	})
	if err != nil {
		return result, err
	}
	result = newLatenessResult(pods, calls)
	result.CPU = used.process
	result.Memory, err = p.memory()
	return result, err
}

// newLatenessResult compares the deletes with what package verdict says. A taint counts from the instant at which the
// API server accepted it, which is before a controller can have seen it: so lateness is slightly overestimated.
func newLatenessResult(pods []*corev1.Pod, calls []call) latenessResult {
	since := map[string]time.Time{}
	for _, t := range taintings(calls) {
		since[t.node] = t.at
	}
	accepted := deletes(calls)
	var result latenessResult
	var late []time.Duration
	for _, pod := range pods {
		lateness := accepted[pod.Name].Sub(due(pod, since[pod.Spec.NodeName]))
		if lateness < 0 {
			result.Early++
		}
		late = append(late, lateness)
	}
	result.P50, result.P99 = median(late), quantile(late, 0.99)
	result.P999, result.Max = quantile(late, 0.999), quantile(late, 1)
	return result
}

func due(pod *corev1.Pod, since time.Time) time.Time {
	taint := verdict.Taint{Taint: corev1.Taint{Key: taintKey, Effect: corev1.TaintEffectNoExecute}, Since: since}
	facts := verdict.Pod{Tolerations: pod.Spec.Tolerations, Bound: verdict.Bound(pod)}
	return verdict.Rule{}.Decide(facts, []verdict.Taint{taint}).Due
}
