// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ownScheduler is the name by which pods ask for the scheduler below.
const ownScheduler = "chaos"

// scheduler binds pods to nodes at random, tainted or not. kube-scheduler exits if a pod was replaced by one with the
// same name while it could not watch; a StatefulSet would then get no more pods.
type scheduler struct {
	client kubernetes.Interface
	random *rand.Rand
	nodes  []string
}

// run binds pods until the context ends.
func (s *scheduler) run(ctx context.Context) error {
	const every = 200 * time.Millisecond
	for ctx.Err() == nil {
		if err := s.bindAll(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		pause(ctx, every)
	}
	return nil
}

func (s *scheduler) bindAll(ctx context.Context) error {
	var waiting corev1.PodList
	err := persist(ctx, "list the pods that have no node", func(ctx context.Context) error {
		list, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "spec.nodeName=,spec.schedulerName=" + ownScheduler,
		})
		if err == nil {
			waiting = *list
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range waiting.Items {
		if err := s.bind(ctx, &waiting.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *scheduler) bind(ctx context.Context, pod *corev1.Pod) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: pick(s.random, s.nodes...)},
	}
	return persist(ctx, fmt.Sprintf("bind pod %s", pod.Name), func(ctx context.Context) error {
		return s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	})
}
