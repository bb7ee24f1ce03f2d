// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// warmUp is how long a contestant has before the minute begins, so that its first looks at all nodes do not count.
const warmUp = 70 * time.Second

// heartbeats makes all nodes renew their leases, as kubelets do, and measures the contestants that monitor them.
func (b *bench) heartbeats(ctx context.Context) error {
	b.say("\nheartbeats: %d nodes renew a lease every %s", b.nodes, b.renewEvery)
	if err := b.createHealthyNodes(ctx); err != nil {
		return err
	}
	renewing, stop := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error { b.renew(renewing); return nil })
	defer func() { stop(); _ = group.Wait() }()
	return b.take(ctx, turns{
		once: []string{nameOurs, namePrevious, nameBuiltIn},
		controllers: map[string]string{
			nameOurs: "node-health", namePrevious: "node-health", nameBuiltIn: "node-lifecycle-controller",
		},
		play: func(ctx context.Context, p *process) error {
			if err := await.Pause(ctx, warmUp); err != nil {
				return err
			}
			used, err := b.measured(ctx, p, func(ctx context.Context) error { return await.Pause(ctx, time.Minute) })
			if err != nil {
				return err
			}
			memory, err := p.memory()
			b.note(fmt.Sprintf("a minute of heartbeats of %d nodes", b.nodes), p.name, append(used, memory...))
			return err
		},
	})
}

// createHealthyNodes creates nodes that are ready and not tainted, with a lease each.
func (b *bench) createHealthyNodes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range b.nodes {
		group.Go(func() error {
			if err := b.createHealthyNode(ctx, leasedNode(i), fmt.Sprintf("zone-%d", i%3)); err != nil {
				return fmt.Errorf("create node %s: %w", leasedNode(i), err)
			}
			return nil
		})
	}
	return group.Wait()
}

func leasedNode(i int) string { return fmt.Sprintf("leased-%05d", i) }

func (b *bench) createHealthyNode(ctx context.Context, name, zone string) error {
	object := node(name)
	object.Labels[corev1.LabelTopologyZone] = zone
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		condition := corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse}
		object.Status.Conditions = append(object.Status.Conditions, condition)
	}
	if _, err := b.admin.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.patchNode(ctx, name, `{"spec":{"taints":null}}`); err != nil { // the API server taints every new node
		return err
	}
	_, err := b.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &name, LeaseDurationSeconds: new(int32(40)),
			RenewTime: &metav1.MicroTime{Time: time.Now()},
		},
	}, metav1.CreateOptions{})
	return err
}

// renew renews all leases evenly until the context ends. A failed renewal is like one that a kubelet skips.
func (b *bench) renew(ctx context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	tick := time.NewTicker(b.renewEvery / time.Duration(b.nodes))
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i = (i + 1) % b.nodes {
		select {
		case <-ctx.Done():
		case <-tick.C:
			group.Go(func() error {
				patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
				_, _ = b.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).
					Patch(ctx, leasedNode(i), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				return nil
			})
		}
	}
	_ = group.Wait()
}

// awaitCordon returns once the process has tainted a node that is cordoned: then it does its work.
func (b *bench) awaitCordon(ctx context.Context, p *process) error {
	b.serial++
	name := fmt.Sprintf("cordoned-%03d", b.serial)
	object := node(name)
	object.Spec.Unschedulable = true
	if _, err := b.admin.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a cordoned node: %w", err)
	}
	tainted := func(ctx context.Context) (bool, error) {
		if _, err := p.memory(); err != nil {
			return false, err
		}
		found, err := b.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("read the cordoned node: %w", err)
		}
		cordoned := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }
		return slices.ContainsFunc(found.Spec.Taints, cordoned), nil
	}
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, startLimit, true, tainted)
}
