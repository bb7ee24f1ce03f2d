// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// Edit is a property of a pod.
type Edit = func(*corev1.Pod)

// Steps are some steps in a row.
func Steps(all ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		for _, step := range all {
			if err := step(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// After lets time pass since the step before.
func After(d time.Duration) Step {
	return func(ctx context.Context, _ *Play) error { return await.Pause(ctx, d) }
}

// At waits until the given time after the first change of a node's taints.
func At(node string, d time.Duration) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Pause(ctx, time.Until(p.nodes[node][0].At.From.Add(d)))
	}
}

// Node makes a node without a kubelet, so that a pod on it that is deleted keeps terminating. It is ready and in a zone
// of its own: a node-lifecycle controller has nothing to taint, and no reason to wait.
func Node(name string) Step {
	return func(ctx context.Context, p *Play) error {
		_, err := p.Node(ctx, name, Ready, func(node *corev1.Node) { node.Labels[corev1.LabelTopologyZone] = node.Name })
		return err
	}
}

// Ready lets a node be ready without a kubelet that says so.
func Ready(node *corev1.Node) {
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
	}}
}

// Alone makes a pod with a node of its own, which has its name.
func Alone(name string, edits ...Edit) Step { return Steps(Node(name), On(name, name, edits...)) }

// On makes a pod that is bound to a node from the start.
func On(node, name string, edits ...Edit) Step {
	return func(ctx context.Context, p *Play) error {
		from := time.Now()
		made, err := p.Pod(ctx, name, p.NodeName(node), edits...)
		p.add(node, from, made)
		return err
	}
}

// Crowd makes the given number of pods on a node.
func Crowd(node string, count int, edits ...Edit) Step {
	return func(ctx context.Context, p *Play) error {
		from := time.Now()
		all, err := p.Pods(ctx, count, p.NodeName(node), edits...)
		p.add(node, from, all...)
		return err
	}
}

// Taint adds NoExecute taints to a node as kubectl taint does, without a timeAdded.
func Taint(node string, keys ...string) Step {
	var taints []corev1.Taint
	for _, key := range keys {
		taints = append(taints, scene.NoExecute(key))
	}
	return AddTaints(node, taints...)
}

// AddTaints adds taints to a node.
func AddTaints(node string, taints ...corev1.Taint) Step {
	return ChangeTaints(node, func(all []corev1.Taint) []corev1.Taint { return append(all, taints...) })
}

// Untaint takes the taints with a key from a node.
func Untaint(node, key string) Step {
	return ChangeTaints(node, func(all []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(all, func(taint corev1.Taint) bool { return taint.Key == key })
	})
}

// ChangeTaints replaces the taints of a node.
func ChangeTaints(node string, change func([]corev1.Taint) []corev1.Taint) Step {
	return func(ctx context.Context, p *Play) error {
		edit := func(all []corev1.Taint) ([]corev1.Taint, error) { return change(all), nil }
		took, after, err := scene.EditTaints(ctx, p.Admin, p.NodeName(node), edit)
		if err == nil {
			p.Tainted(node, took, after)
		}
		return err
	}
}

// Tolerate changes the tolerationSeconds of a pod's first toleration.
func Tolerate(pod string, seconds int64) Step { return tolerate(pod, &seconds) }

// TolerateIndefinitely takes the tolerationSeconds off a pod's first toleration.
func TolerateIndefinitely(pod string) Step { return tolerate(pod, nil) }

func tolerate(name string, seconds *int64) Step {
	return func(ctx context.Context, p *Play) error {
		from, pods := time.Now(), p.Admin.CoreV1().Pods(p.Namespace)
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			found, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			found.Spec.Tolerations[0].TolerationSeconds = seconds
			changed, err := pods.Update(ctx, found, metav1.UpdateOptions{})
			if err == nil {
				p.became(p.Named(name), from, func(s *oracle.State) { s.Tolerations = changed.Spec.Tolerations })
			}
			return err
		})
	}
}

// Finish gives a pod a phase.
func Finish(pod string, phase corev1.PodPhase) Step {
	return func(ctx context.Context, p *Play) error {
		finished := p.Named(pod).DeepCopy()
		finished.Status.Phase = phase
		_, err := p.Admin.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, finished, metav1.UpdateOptions{})
		return err
	}
}

// Delete deletes a pod for good, as a client other than an evictor does. After that, nothing is promised to the pod.
func Delete(pod string) Step { return deletePod(pod, scene.AtOnce()) }

// Terminate deletes a pod with its grace period. Where no kubelet ends it, it keeps terminating. The contestant gets a
// second to see that: watches of pods and of nodes are in no order, so what comes next might be seen first.
func Terminate(pod string) Step {
	return Steps(deletePod(pod, metav1.DeleteOptions{}), After(time.Second))
}

func deletePod(name string, options metav1.DeleteOptions) Step {
	return func(ctx context.Context, p *Play) error {
		from := time.Now()
		err := p.Admin.CoreV1().Pods(p.Namespace).Delete(ctx, name, options)
		p.end(p.Named(name), from)
		return err
	}
}

// DeleteNode deletes a node. Its pods are left to the pod garbage collector.
func DeleteNode(name string) Step {
	return func(ctx context.Context, p *Play) error {
		from := time.Now()
		err := p.Admin.CoreV1().Nodes().Delete(ctx, p.NodeName(name), metav1.DeleteOptions{})
		p.Tainted(name, scene.Span{From: from, To: time.Now()}, nil)
		return err
	}
}

// Mirror makes a pod look like the mirror pod of a static pod.
func Mirror(pod *corev1.Pod) {
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "of-a-file"}
}

// Restart restarts the contestant.
func Restart(ctx context.Context, p *Play) error {
	p.restarted = true
	p.regrant(time.Now())
	err := p.Restart(ctx)
	p.started = time.Now()
	return err
}

// Lag holds back what the contestant's watches of nodes bring until the scenario is over.
func Lag(_ context.Context, p *Play) error {
	release := p.Lag()
	p.Finally(func(context.Context) error { release(); return nil })
	return nil
}

// WhileRefused makes the API server refuse deletes of the scene's pods during some steps.
func WhileRefused(steps ...Step) Step {
	return func(ctx context.Context, p *Play) error {
		from := time.Now()
		allow, err := p.Refuse(ctx, p.Scene, p.pods[0].Pod)
		if err != nil {
			return err
		}
		err = errors.Join(Steps(steps...)(ctx, p), allow())
		p.Excuse(time.Now().Add(time.Since(from))) // a backoff that doubles ends after as long again
		return err
	}
}

// Gone waits until a pod has left: it shows that the contestant has seen what came before.
func Gone(pod string) Step {
	const limit = time.Minute
	return func(ctx context.Context, p *Play) error {
		left, err := p.Seen().Await(ctx, time.Now().Add(limit), p.Named(pod).Pod)
		if err == nil && left > 0 {
			err = fmt.Errorf("pod %s was not evicted within %s", pod, limit)
		}
		return err
	}
}
