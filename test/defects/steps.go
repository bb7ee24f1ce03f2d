// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// stageOf is the stage on which a scenario is played, with what is particular to this program.
func stageOf(p *Play) *stage { return p.Stage.(*stage) }

// every takes steps, with a pause of the given length after each.
func every(d time.Duration, steps ...Step) Step {
	var all []Step
	for _, step := range steps {
		all = append(all, step, After(d))
	}
	return Steps(all...)
}

// goneAtOnce lets a pod be gone when it is deleted.
func goneAtOnce(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64) }

// waits wants a pod not to be evicted yet: otherwise the queue ahead of it was too short.
func waits(pod string) Step {
	return func(_ context.Context, p *Play) error {
		if _, left := p.Seen().Left(p.Named(pod).UID); left {
			return errors.New("the pod was evicted before it could be replaced: the queue ahead of it was too short")
		}
		return nil
	}
}

// mirrorPod makes a pod like the one with which a kubelet represents a static pod.
var mirrorPod = On("tainted", "mirror", goneAtOnce, Mirror)

// mirrorStays plays the kubelet for a mirror pod: whenever it is gone, it comes back a moment later.
func mirrorStays(ctx context.Context, p *Play) (Finding, error) {
	const watched = 10 * time.Second
	until := time.Now().Add(watched)
	went := 0
	for ; ; went++ {
		left, err := p.Seen().Await(ctx, until, p.Named("mirror").Pod)
		if err != nil {
			return Finding{}, err
		}
		if left > 0 {
			break
		}
		if err := Steps(After(time.Second), mirrorPod)(ctx, p); err != nil {
			return Finding{}, err
		}
	}
	seen := fmt.Sprintf("mirror pod %s in %.0f s; completed pod ", Deleted(went), watched.Seconds())
	if _, left := p.Seen().Left(p.Named("completed").UID); left {
		return Finding{Seen: seen + "deleted", Right: went == 0}, nil
	}
	return Finding{Seen: seen + "left alone", Right: went == 0}, nil
}

// comparing lets a pod tolerate a value greater than some integers, and everything else indefinitely.
func comparing(key string, count int) Edit {
	return func(pod *corev1.Pod) {
		for i := range count {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpGt, Value: fmt.Sprint(i), Effect: corev1.TaintEffectNoExecute,
			})
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	}
}

// swaps lets the node-lifecycle controller swap the taints of a sick node the given number of times, every few seconds,
// the last time so late that a countdown that began again would end well after the one that began with the first taint.
func swaps(name string, times int) Scenario {
	const between = 5 * time.Second
	node := fmt.Sprintf("swapped-%d", times)
	when := []Step{unwell(node)}
	for i := range times {
		when = append(when, At(node, time.Duration(i+1)*between), []func(string) Step{unheard, unwell}[i%2](node))
	}
	tolerated := int64(times)*int64(between.Seconds()) + 3
	return Scenario{
		Name: name, Given: []Step{Alone(node, scene.ToleratingNotReady(tolerated)...)}, When: when, Watched: 20 * time.Second,
	}
}

func unwell(node string) Step { return sicken(node, corev1.ConditionFalse, corev1.TaintNodeNotReady) }

func unheard(node string) Step {
	return sicken(node, corev1.ConditionUnknown, corev1.TaintNodeUnreachable)
}

// sicken changes the condition Ready of a node, as its kubelet and the controller that misses it do, and returns when
// the node-lifecycle controller has tainted it accordingly. The taint counts from its timeAdded, which is before it can
// be seen and is written to the second; but not from before the condition was changed.
func sicken(node string, ready corev1.ConditionStatus, taint string) Step {
	return func(ctx context.Context, p *Play) error {
		took, name := scene.Span{From: time.Now()}, p.NodeName(node)
		if err := setReady(ctx, p, name, ready); err != nil {
			return err
		}
		found, err := awaitTaints(ctx, p, name, func(all []corev1.Taint) bool {
			return len(all) == 1 && all[0].Key == taint && all[0].TimeAdded != nil
		})
		if err != nil {
			return err
		}
		took.To = time.Now()
		if added := found[0].TimeAdded.Time; added.After(took.From) {
			took.From = added
		}
		p.Tainted(node, took, found)
		return nil
	}
}

func setReady(ctx context.Context, p *Play, name string, status corev1.ConditionStatus) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := p.Admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, Reason: "Played", LastTransitionTime: metav1.Now(),
		}}
		_, err = p.Admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("set the condition Ready of node %s to %s: %w", name, status, err)
	}
	return nil
}

// awaitTaints returns the NoExecute taints of a node once they are as wanted.
func awaitTaints(ctx context.Context, p *Play, name string, wanted func([]corev1.Taint) bool) ([]corev1.Taint, error) {
	var found []corev1.Taint
	err := await.Poll(ctx, func(ctx context.Context) error {
		node, err := p.Admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if found = taints.NoExecute(node.Spec.Taints); !wanted(found) {
			return fmt.Errorf("node %s has the taints %v", name, found)
		}
		return nil
	})
	return found, err
}

// clockError is by how much the clock of a contestant is ahead.
const clockError = 5 * time.Minute

// clockAhead sets the contestant's clock ahead until the scenario is over.
func clockAhead(_ context.Context, p *Play) error {
	clock := stageOf(p).clock
	clock.Set(clockError)
	p.Finally(func(context.Context) error { clock.Set(0); return nil })
	return nil
}

// stampedTaint sets a taint with its timeAdded.
func stampedTaint(node string) Step {
	return ChangeTaints(node, func(all []corev1.Taint) []corev1.Taint {
		taint := scene.NoExecute("gone")
		taint.TimeAdded = new(metav1.Now())
		return append(all, taint)
	})
}

// clockIsWrong waits for an event that shows that the contestant's clock is.
func clockIsWrong(ctx context.Context, p *Play) (Finding, error) {
	err := await.Poll(ctx, func(ctx context.Context) error {
		events, err := p.Admin.CoreV1().Events(p.Namespace).List(ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(events.Items, func(event corev1.Event) bool {
			return time.Until(event.LastTimestamp.Time) > clockError/2
		}) {
			err = errors.New("no event shows the wrong clock")
		}
		return err
	})
	return Finding{Right: true}, err
}

// untainted waits until the node-lifecycle controller, who is the same user as upstream's evictor, has removed the
// taint with which every node begins.
func untainted(name string) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(ctx context.Context) error {
			node, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(name), metav1.GetOptions{})
			if err == nil && len(node.Spec.Taints) > 0 {
				err = fmt.Errorf("node %s has the taints %v", node.Name, node.Spec.Taints)
			}
			return err
		})
	}
}

// unstamped plays somebody who manages the taints of a node from a template without timeAdded, and removes it whenever
// it is there.
func unstamped(name string, length time.Duration) Step {
	isStamped := func(taint corev1.Taint) bool { return taint.TimeAdded != nil }
	return func(ctx context.Context, p *Play) error {
		for until := time.Now().Add(length); time.Now().Before(until); {
			node, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(name), metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("read node %s: %w", name, err)
			}
			if slices.ContainsFunc(node.Spec.Taints, isStamped) {
				_, err = scene.ChangeTaints(ctx, p.Admin, node.Name, func(all []corev1.Taint) []corev1.Taint {
					for i := range all {
						all[i].TimeAdded = nil
					}
					return all
				})
			}
			if err := errors.Join(err, await.Pause(ctx, 50*time.Millisecond)); err != nil {
				return err
			}
		}
		return nil
	}
}
