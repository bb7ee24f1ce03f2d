// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scene makes what a scenario on a real API server is played with: nodes, pods and taints in a namespace of its
// own, policies that refuse, and accounts that read.
package scene

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// creators is how many pods are created at the same time.
const creators = 16

// label is a label of nodes, with the namespace of their scene.
const label = "scene"

// Scene is a namespace and some nodes that only one scenario uses.
type Scene struct {
	Admin     kubernetes.Interface
	Namespace string
}

// New makes a scene with a new namespace.
func New(ctx context.Context, admin kubernetes.Interface, namespace string) (Scene, error) {
	s := Scene{Admin: admin, Namespace: namespace}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := admin.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return s, fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	return s, nil
}

// Clear removes what was put on the scene. The pods go first, so that no controller reacts to what happens to their
// nodes. The API server of a busy machine may give up on many at once, but each try leaves fewer.
func (s Scene) Clear(ctx context.Context) error {
	pods := await.Poll(ctx, func(ctx context.Context) error {
		return s.Admin.CoreV1().Pods(s.Namespace).DeleteCollection(ctx, AtOnce(), metav1.ListOptions{})
	})
	its := metav1.ListOptions{LabelSelector: label + "=" + s.Namespace}
	nodes := s.Admin.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, its)
	if err := errors.Join(pods, nodes); err != nil {
		return fmt.Errorf("remove what is on scene %s: %w", s.Namespace, err)
	}
	return nil
}

// NodeName is what a node of the scene is called in the cluster.
func (s Scene) NodeName(name string) string { return s.Namespace + "-" + name }

// Labels of the nodes of the scene, with which [Scene.Clear] finds them.
func (s Scene) Labels() map[string]string { return map[string]string{label: s.Namespace} }

// Node makes a node without a kubelet, and returns its name: a pod on it that is deleted keeps terminating.
func (s Scene) Node(ctx context.Context, name string, edits ...func(*corev1.Node)) (string, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.NodeName(name), Labels: s.Labels()}}
	for _, edit := range edits {
		edit(node)
	}
	if _, err := s.Admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create node %s: %w", node.Name, err)
	}
	return node.Name, nil
}

// Pod makes a pod that is bound to a node from the start.
func (s Scene) Pod(ctx context.Context, name, node string, edits ...func(*corev1.Pod)) (*corev1.Pod, error) {
	bound := localcluster.NewPod(name, node, edits...)
	pod, err := s.Admin.CoreV1().Pods(s.Namespace).Create(ctx, bound, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create pod %s: %w", name, err)
	}
	return pod, nil
}

// Pods makes the given number of pods on a node.
func (s Scene) Pods(ctx context.Context, count int, node string, edits ...func(*corev1.Pod)) ([]*corev1.Pod, error) {
	pods := make([]*corev1.Pod, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range pods {
		group.Go(func() (err error) {
			pods[i], err = s.Pod(ctx, fmt.Sprintf("pod-%d", i), node, edits...)
			return err
		})
	}
	return pods, group.Wait()
}

// Remove deletes a pod for good, as a client other than an evictor does.
func (s Scene) Remove(ctx context.Context, name string) error {
	if err := s.Admin.CoreV1().Pods(s.Namespace).Delete(ctx, name, AtOnce()); err != nil {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// IsReady reports whether the kubelet says that a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// AtOnce deletes without a grace period.
func AtOnce() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64)} }

// Tolerating lets a pod tolerate the NoExecute taints with a key for some seconds.
func Tolerating(key string, seconds int64) func(*corev1.Pod) { return tolerating(key, &seconds) }

// Indefinitely lets a pod tolerate the NoExecute taints with a key, or all of them if the key is empty, forever.
func Indefinitely(key string) func(*corev1.Pod) { return tolerating(key, nil) }

// ToleratingNotReady lets a pod tolerate for some seconds that its node is not ready or silent.
func ToleratingNotReady(seconds int64) []func(*corev1.Pod) {
	return []func(*corev1.Pod){
		Tolerating(corev1.TaintNodeNotReady, seconds), Tolerating(corev1.TaintNodeUnreachable, seconds),
	}
}

func tolerating(key string, seconds *int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds,
		})
	}
}

// NoExecute is the taint that evicts.
func NoExecute(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

// Span is the two instants between which something took effect: just before the call, and just after its answer.
type Span struct{ From, To time.Time }

// Taint adds taints to a node as kubectl taint does, without a timeAdded.
func Taint(ctx context.Context, admin kubernetes.Interface, node string, taints ...corev1.Taint) (Span, error) {
	return ChangeTaints(ctx, admin, node, func(all []corev1.Taint) []corev1.Taint { return append(all, taints...) })
}

// Untaint takes the taints with a key from a node.
func Untaint(ctx context.Context, admin kubernetes.Interface, node, key string) (Span, error) {
	return ChangeTaints(ctx, admin, node, func(all []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(all, func(taint corev1.Taint) bool { return taint.Key == key })
	})
}

// ChangeTaints replaces the taints of a node, under an optimistic lock: what another client, such as Taintkeeper
// itself, has written in between is not undone.
func ChangeTaints(ctx context.Context, admin kubernetes.Interface, node string,
	change func([]corev1.Taint) []corev1.Taint,
) (Span, error) {
	edit := func(all []corev1.Taint) ([]corev1.Taint, error) { return change(all), nil }
	took, _, err := EditTaints(ctx, admin, node, edit)
	return took, err
}

// EditTaints is [ChangeTaints] by a change that may be refused. It returns what the node has then.
func EditTaints(ctx context.Context, admin kubernetes.Interface, name string,
	change func([]corev1.Taint) ([]corev1.Taint, error),
) (took Span, after []corev1.Taint, err error) {
	nodes := admin.CoreV1().Nodes()
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if node.Spec.Taints, err = change(node.Spec.Taints); err != nil {
			return err
		}
		took.From = time.Now()
		node, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		took.To = time.Now()
		if err != nil {
			return err
		}
		after = node.Spec.Taints
		return nil
	})
	if err != nil {
		return took, nil, fmt.Errorf("change the taints of node %s: %w", name, err)
	}
	return took, after, nil
}
