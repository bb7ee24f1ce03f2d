// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// renewEvery is how often a kubelet of these tests renews its lease, and callTimeout how long it waits for
// an answer.
const (
	renewEvery  = time.Second
	callTimeout = 3 * time.Second
)

// kubelet is what a control plane sees of one: the status of its node, and a lease that it renews until
// it falls silent.
type kubelet struct {
	node *corev1.Node
	stop func() // ends the renewals and waits for their end

	mu   sync.Mutex
	last time.Time // just before the last renewal that was accepted was sent
}

// healthy are the conditions of a kubelet that has nothing to complain of.
var healthy = map[corev1.NodeConditionType]corev1.ConditionStatus{
	corev1.NodeReady:          corev1.ConditionTrue,
	corev1.NodeMemoryPressure: corev1.ConditionFalse,
	corev1.NodeDiskPressure:   corev1.ConditionFalse,
	corev1.NodePIDPressure:    corev1.ConditionFalse,
}

// startKubelet makes a node, and lets its kubelet live.
func startKubelet(t *testing.T, node *corev1.Node) *kubelet {
	t.Helper()
	created, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	await.Must(t, err)
	k := &kubelet{node: created, stop: func() {}}
	_, err = admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: new(int32(40))},
	}, metav1.CreateOptions{})
	await.Must(t, err)
	k.returns(t)
	return k
}

// live renews the lease until stop is called, whatever the API server answers.
func (k *kubelet) live(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var living sync.WaitGroup
	living.Go(func() {
		tick := time.NewTicker(renewEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = k.renew(context.WithoutCancel(ctx)) // an outage: it tries again
			}
		}
	})
	k.stop = sync.OnceFunc(func() { cancel(); living.Wait() })
}

func (k *kubelet) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sent := time.Now()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(sent)}})
	if err != nil {
		return err
	}
	_, err = admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, k.node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = sent
	return nil
}

// renewed returns the instant just before the last renewal that was accepted was sent.
func (k *kubelet) renewed() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// falls renews the lease once more and makes the kubelet silent. It returns an instant that is not later
// than its last sign of life, so that no grace period can have begun before.
func (k *kubelet) falls(t *testing.T) time.Time {
	t.Helper()
	k.stop()
	await.Must(t, k.renew(t.Context()))
	return k.renewed()
}

// returns lets the kubelet post that all is well, and renew its lease again. It returns the instant just
// before.
func (k *kubelet) returns(t *testing.T) time.Time {
	t.Helper()
	from := k.posts(t, healthy)
	await.Must(t, k.renew(t.Context()))
	k.live(t.Context())
	return from
}

// posts writes conditions as a kubelet does, and what there is room for. It returns the instant just before.
func (k *kubelet) posts(t *testing.T, conditions map[corev1.NodeConditionType]corev1.ConditionStatus) time.Time {
	t.Helper()
	now := metav1.Now()
	var posted []corev1.NodeCondition
	for kind, status := range conditions {
		posted = append(posted, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Posted", Message: "by its kubelet", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": posted, "capacity": room, "allocatable": room}})
	await.Must(t, err)
	from := time.Now()
	_, err = admin.CoreV1().Nodes().Patch(t.Context(), k.node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	await.Must(t, err)
	return from
}

// heardAfter waits until the kubelet has renewed its lease later than an instant.
func (k *kubelet) heardAfter(t *testing.T, at time.Time) {
	t.Helper()
	await.Eventually(t, "the kubelet of node "+k.node.Name+" reaches the API server", func(context.Context) error {
		if !k.renewed().After(at) {
			return errors.New("it does not")
		}
		return nil
	})
}
