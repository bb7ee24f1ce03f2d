// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// creators is how many pods are created at the same time.
const creators = 16

// scene is a namespace and some nodes that one scenario has for itself.
type scene struct {
	*stage
	namespace string
	attend    func() // the meeting of its act; to do it again does nothing
}

func (s *stage) newScene(ctx context.Context, name string) (*scene, error) {
	return &scene{stage: s, namespace: name, attend: sync.OnceFunc(s.meeting.leave)}, s.createNamespace(ctx, name)
}

// restart restarts the contestant, once for all scenarios that are played now.
func (s *scene) restart(ctx context.Context) error {
	s.attend()
	return s.meeting.together(ctx, s.contestant.restart)
}

// clear removes what the scenario has made. The pods go first: nobody else shall take an interest in them.
func (s *scene) clear(ctx context.Context) error {
	if err := s.admin.CoreV1().Pods(s.namespace).DeleteCollection(ctx, atOnce(), metav1.ListOptions{}); err != nil {
		return fmt.Errorf("remove the pods of %s: %w", s.namespace, err)
	}
	its := metav1.ListOptions{LabelSelector: sceneLabel + "=" + s.namespace}
	if err := s.admin.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, its); err != nil {
		return fmt.Errorf("remove the nodes of %s: %w", s.namespace, err)
	}
	return nil
}

// sceneLabel is a label of nodes, with the namespace of their scene.
const sceneLabel = "scene"

func atOnce() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64)} }

// node makes a node without a kubelet. It is a zone of its own, so that the node-lifecycle controller, which taints the
// nodes of a zone one after the other, has no reason to wait.
func (s *scene) node(ctx context.Context, name string) (string, error) {
	name = s.namespace + "-" + name
	node := newNode(name)
	node.Labels = map[string]string{sceneLabel: s.namespace, corev1.LabelTopologyZone: name}
	if _, err := s.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create node %s: %w", name, err)
	}
	return name, nil
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		}}},
	}
}

// pod makes a pod that is bound to a node from the start. Without a kubelet it stays there, terminating, when it is deleted.
func (s *scene) pod(ctx context.Context, name, node string, edits ...func(*corev1.Pod)) (*corev1.Pod, error) {
	pod, err := s.admin.CoreV1().Pods(s.namespace).Create(ctx, localcluster.NewPod(name, node, edits...), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create pod %s: %w", name, err)
	}
	return pod, nil
}

// lonelyPod makes a pod with a node of its own.
func (s *scene) lonelyPod(ctx context.Context, name string, edits ...func(*corev1.Pod)) (*corev1.Pod, error) {
	node, err := s.node(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.pod(ctx, name, node, edits...)
}

func (s *scene) pods(ctx context.Context, count int, node string, edits ...func(*corev1.Pod)) ([]*corev1.Pod, error) {
	pods := make([]*corev1.Pod, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range pods {
		group.Go(func() (err error) {
			pods[i], err = s.pod(ctx, fmt.Sprintf("pod-%d", i), node, edits...)
			return err
		})
	}
	return pods, group.Wait()
}

// tolerating lets a pod tolerate the NoExecute taints with a key for some seconds.
func tolerating(key string, seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
}

// goneAtOnce lets a pod be gone when it is deleted.
func goneAtOnce(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64) }

func noExecute(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
}

// taint adds taints to a node as `kubectl taint` does, without a timeAdded, and returns the instant just before.
func (s *scene) taint(ctx context.Context, node string, taints ...corev1.Taint) (time.Time, error) {
	return s.changeTaints(ctx, node, func(all []corev1.Taint) []corev1.Taint { return append(all, taints...) })
}

// untaint takes the taints with a key from a node. The instant that it returns is just after it.
func (s *scene) untaint(ctx context.Context, node, key string) (time.Time, error) {
	_, err := s.changeTaints(ctx, node, func(all []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(all, func(taint corev1.Taint) bool { return taint.Key == key })
	})
	return time.Now(), err
}

func (s *scene) changeTaints(ctx context.Context, name string, change func([]corev1.Taint) []corev1.Taint) (time.Time, error) {
	var before time.Time
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := s.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		before = time.Now()
		_, err = s.admin.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return before, fmt.Errorf("change the taints of node %s: %w", name, err)
	}
	return before, nil
}

// remove deletes a pod for good, as somebody else than the contestant.
func (s *scene) remove(ctx context.Context, pod *corev1.Pod) error {
	if err := s.admin.CoreV1().Pods(s.namespace).Delete(ctx, pod.Name, atOnce()); err != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return nil
}

// calls returns what the contestant has called in the scene's namespace so far.
func (s *scene) calls() ([]call, error) {
	return s.audit.Events(auditlog.By(s.contestant.user()), auditlog.In(s.namespace))
}
