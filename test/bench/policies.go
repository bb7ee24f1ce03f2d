// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// policyPods is how many pods are created for each figure.
	policyPods = 2000
	// policyCreators is how many are created at the same time: enough to keep two processors busy, but few enough that
	// creates do not mainly wait.
	policyCreators = 8
	// policyWarmUp is how many pods are created before those that count.
	policyWarmUp = 200

	ordinaryNamespace  = "ordinary"
	concernedNamespace = "concerned"
	// concernedResource is the resource that the pods that concern every policy request.
	concernedResource = "bench.taintkeeper.dev/gpu"
)

// policies creates pods without the admission policies for tolerations and with all of them. Ordinary pods have
// requests, as nearly all pods do, and nothing else that concerns a policy. The others are in a namespace with every
// label and annotation, and request an extended resource.
func (b *bench) policies(ctx context.Context) error {
	b.say("\npolicies: %d pods are created, %d at a time, without policies and with all of them", policyPods, policyCreators)
	if err := b.createPolicyNamespaces(ctx); err != nil {
		return err
	}
	for range b.rounds {
		err := b.createAlike(ctx, "no policy")
		for _, step := range []func() error{
			func() error { return b.cluster.InstallPolicies(ctx) },
			func() error { return b.awaitPolicies(ctx, allAdded) },
			func() error { return b.createAlike(ctx, "every policy") },
			func() error { return b.cluster.RemovePolicies(ctx) },
			func() error { return b.awaitPolicies(ctx, addedByServer) },
		} {
			if err == nil {
				err = step()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) createPolicyNamespaces(ctx context.Context) error {
	const prefix = "taintkeeper.dev/"
	concerned := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: concernedNamespace,
		Labels: map[string]string{
			prefix + "not-ready-seconds": "30", prefix + "unreachable-seconds": "30",
			prefix + "dedicated": "bench", prefix + "tolerations": "",
		},
		Annotations: map[string]string{
			"scheduler.alpha.kubernetes.io/defaultTolerations":   `[{"key":"spot","operator":"Exists","effect":"NoSchedule"},{"key":"pool","operator":"Equal","value":"batch"}]`,
			"scheduler.alpha.kubernetes.io/tolerationsWhitelist": `[{"key":"spot","operator":"Exists"},{"key":"pool","operator":"Exists"},{"operator":"Exists"}]`,
		},
	}}
	ordinary := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ordinaryNamespace}}
	for _, namespace := range []*corev1.Namespace{ordinary, concerned} {
		if _, err := b.admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
		}
	}
	return nil
}

// createAlike creates pods of each kind, one kind after the other, and removes them.
func (b *bench) createAlike(ctx context.Context, policies string) error {
	for _, pod := range []func(int) *corev1.Pod{ordinaryPod, concernedPod} {
		measured, err := b.createMeasured(ctx, pod)
		if err != nil {
			return err
		}
		b.note("policies", pod(0).Namespace+" pods, "+policies, measured)
	}
	return nil
}

func ordinaryPod(i int) *corev1.Pod {
	pod := productionPod("policies", i, "")
	pod.Namespace = ordinaryNamespace
	return pod
}

// concernedPod makes a pod that concerns every policy.
func concernedPod(i int) *corev1.Pod {
	pod := ordinaryPod(i)
	pod.Namespace = concernedNamespace
	pod.Labels["taintkeeper.dev/daemon"] = "true"
	resources := &pod.Spec.Containers[0].Resources
	resources.Requests[concernedResource] = resource.MustParse("1")
	resources.Limits[concernedResource] = resource.MustParse("1")
	return pod
}

func (b *bench) createMeasured(ctx context.Context, pod func(i int) *corev1.Pod) (figures, error) {
	namespace := pod(0).Namespace
	if _, err := b.createTimed(ctx, policyWarmUp, pod); err != nil {
		return nil, err
	}
	if err := b.removePodsIn(ctx, namespace); err != nil {
		return nil, err
	}
	before, err := b.serverCPU(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	took, err := b.createTimed(ctx, policyPods, pod)
	if err != nil {
		return nil, err
	}
	passed := time.Since(began)
	after, err := b.serverCPU(ctx)
	return figures{
		{"pods a second", policyPods / passed.Seconds()},
		{"p50 of a create, ms", median(took)}, {"p99 of a create, ms", quantile(took, 0.99)},
		{"CPU time of the API server for each pod, ms", (after - before) / policyPods * 1000},
	}, errors.Join(err, b.removePodsIn(ctx, namespace))
}

// createTimed creates the given number of pods and returns how many milliseconds each took.
func (b *bench) createTimed(ctx context.Context, number int, pod func(i int) *corev1.Pod) ([]float64, error) {
	var lock sync.Mutex
	var took []float64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(policyCreators)
	for i := range number {
		group.Go(func() error {
			made := pod(i)
			began := time.Now()
			if _, err := b.admin.CoreV1().Pods(made.Namespace).Create(ctx, made, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create pod %s: %w", made.Name, err)
			}
			passed := time.Since(began)
			lock.Lock()
			defer lock.Unlock()
			took = append(took, passed.Seconds()*1000)
			return nil
		})
	}
	return took, group.Wait()
}

// awaitPolicies waits until every policy is in force, or none: until a pod that concerns all of them gets the given
// number of tolerations, and a pod that tolerates other teams' nodes is refused, or is not.
func (b *bench) awaitPolicies(ctx context.Context, tolerations int) error {
	probe := concernedPod(0)
	stranger := ordinaryPod(0)
	stranger.Spec.Tolerations = []corev1.Toleration{{
		Key: "taintkeeper.dev/dedicated", Operator: corev1.TolerationOpExists,
	}}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	inForce := func(ctx context.Context) (bool, error) {
		made, err := b.admin.CoreV1().Pods(probe.Namespace).Create(ctx, probe, dryRun)
		if err != nil {
			return false, fmt.Errorf("create a pod that every policy changes: %w", err)
		}
		_, err = b.admin.CoreV1().Pods(stranger.Namespace).Create(ctx, stranger, dryRun)
		if err != nil && !apierrors.IsForbidden(err) {
			return false, fmt.Errorf("create a pod that a policy refuses: %w", err)
		}
		refused := err != nil
		return len(made.Spec.Tolerations) == tolerations && refused == (tolerations > addedByServer), nil
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, inForce)
}

const (
	// addedByServer is how many tolerations the API server adds to each pod by itself, and allAdded how many there are
	// with every policy: those, the daemon's four for pressure and cordoned nodes, the resource's, the group's, and two by
	// default.
	addedByServer = 2
	allAdded      = addedByServer + 4 + 1 + 1 + 2
)
