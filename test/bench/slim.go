// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slimNamespace has the slim pods, so that others can be removed without them.
const slimNamespace = "slim"

// The keys of the labels of slim pods.
const (
	slimAppLabel  = "app.kubernetes.io/name"
	slimTeamLabel = "example.com/team"
	slimTierLabel = "example.com/tier"
)

// slimLabels are the labels of a slim pod: of one of 2,000 apps, each of which is one team's and in one tier.
func slimLabels(i int) map[string]string {
	app := i % 2000
	return map[string]string{
		slimAppLabel: slimApp(app), slimTeamLabel: slimTeam(app % 40), slimTierLabel: slimTier(app % 3),
	}
}

func slimApp(i int) string  { return fmt.Sprintf("app-%04d", i) }
func slimTeam(i int) string { return fmt.Sprintf("team-%02d", i) }
func slimTier(i int) string { return fmt.Sprintf("tier-%d", i) }

// slimPod has what every pod that runs has, and nothing else, so that an API server has room for a million of them.
func slimPod(nodes int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "slim-template", Namespace: slimNamespace,
		},
		Spec: corev1.PodSpec{
			NodeName:   scaleNodeName(nodes - 1),
			Containers: []corev1.Container{{Name: "application", Image: "registry.example.com/application:2026.11.3"}},
		},
	}
}

// anotherSlimPod is a copy under a name of its own, without the managed fields, which are most of a small object. The
// same number gives the same pod.
func anotherSlimPod(pod *corev1.Pod, i, nodes int) *corev1.Pod {
	another := pod.DeepCopy()
	another.ManagedFields = nil
	another.Name = fmt.Sprintf("slim-%07d", i)
	another.UID = types.UID(fmt.Sprintf("%08x-71c1-4e8f-9d3a-%012x", uint32(i)*2654435761, i))
	another.Spec.NodeName = scaleNodeName(i % nodes)
	another.Labels = slimLabels(i)
	return another
}

// fillSlim fills the cluster up to a number of nodes, and adds slim pods. It returns a function that makes each pod.
func (b *bench) fillSlim(ctx context.Context, nodes, pods int) (slim func(i int) *corev1.Pod, err error) {
	began := time.Now()
	if err := b.fillNodes(ctx, nodes); err != nil {
		return nil, err
	}
	template, err := b.storedPod(ctx, slimPod(nodes))
	if err != nil {
		return nil, err
	}
	slim = func(i int) *corev1.Pod { return anotherSlimPod(template, i, nodes) }
	b.report.SlimPodBytes = slim(0).Size()
	if err := b.fillPods(ctx, 0, pods, slim); err != nil {
		return nil, err
	}
	b.sayCreated(began, b.report.SlimPodBytes)
	return slim, nil
}

// removeSlim removes the slim pods from etcd directly, and waits until the API server has noticed that the last one is
// gone.
func (b *bench) removeSlim(ctx context.Context, last *corev1.Pod) error {
	if err := b.etcd.remove(ctx, path.Join(registry, "pods", slimNamespace)+"/"); err != nil {
		return err
	}
	return b.awaitPod(ctx, last, false)
}
