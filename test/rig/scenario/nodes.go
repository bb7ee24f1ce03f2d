// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// The steps about nodes with kubelets. They want a stage whose contestant is configured with the following. Zones are a
// matter of all nodes there are, so such a scenario has the stage to itself.
const (
	// NodeGrace is how long a node may be silent, and NodeStartupGrace how long one that was never heard from may be.
	NodeGrace        = 6 * time.Second
	NodeStartupGrace = 8 * time.Second
	// NodeTokenEvery is the time between the NoExecute taints of two nodes of a zone.
	NodeTokenEvery = 2 * time.Second

	// extraGrace is how long a contestant that has just started gives silent nodes more time.
	extraGrace  = 20 * time.Second
	renewEvery  = time.Second
	callTimeout = 3 * time.Second
)

// ExcludeDisruption is the label of nodes that do not count when the disruption of a zone is determined.
const ExcludeDisruption = "node.kubernetes.io/exclude-disruption"

// Conditions are conditions of a node with their statuses.
type Conditions = map[corev1.NodeConditionType]corev1.ConditionStatus

// healthy are the conditions of a kubelet that has nothing to complain of.
var healthy = Conditions{
	corev1.NodeReady:          corev1.ConditionTrue,
	corev1.NodeMemoryPressure: corev1.ConditionFalse,
	corev1.NodeDiskPressure:   corev1.ConditionFalse,
	corev1.NodePIDPressure:    corev1.ConditionFalse,
}

// kubelet is what a control plane sees of one: the status of its node, and a lease that it renews until it falls
// silent.
type kubelet struct {
	name        string    // of its node, in the scenario
	changed     time.Time // just before the latest change of it
	due         time.Time // before which the contestant must not answer that change
	untaintedAt time.Time // when the node had no taint; its story begins then
	told        int       // how many writes of the contestant the promises to pods know of
	checked     int       // how many since then were found right
	stop        func()    // ends the renewals and waits for their end

	mu      sync.Mutex
	renewed time.Time // just before the last renewal that was accepted was sent
}

// Kubelet makes a node with a healthy kubelet in a zone.
func Kubelet(name, zone string, labels ...string) Step {
	return func(ctx context.Context, p *Play) error {
		k, err := p.addKubelet(ctx, name, zone, labels, healthy)
		if err != nil {
			return err
		}
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: p.NodeName(name)},
			Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(40))},
		}
		leases := p.Admin.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		if _, err := leases.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
			return err
		}
		p.Finally(func(ctx context.Context) error {
			k.stop()
			return leases.Delete(ctx, lease.Name, metav1.DeleteOptions{})
		})
		if err := k.live(ctx, p); err != nil {
			return err
		}
		return k.awaitUntainted(ctx, p)
	}
}

// Kubelets makes the given number of such nodes in a zone, named after the zone.
func Kubelets(zone string, count int) Step {
	var all []Step
	for i := range count {
		all = append(all, Kubelet(fmt.Sprintf("%s-%d", zone, i), zone))
	}
	return Steps(all...)
}

// Mute makes a node whose kubelet never says anything.
func Mute(name, zone string) Step {
	return func(ctx context.Context, p *Play) error {
		k, err := p.addKubelet(ctx, name, zone, nil, nil)
		if err != nil {
			return err
		}
		return k.awaitUntainted(ctx, p)
	}
}

func (p *Play) addKubelet(ctx context.Context, name, zone string, labels []string, says Conditions,
) (*kubelet, error) {
	from := time.Now()
	_, err := p.Node(ctx, name, func(node *corev1.Node) {
		node.Labels[corev1.LabelHostname] = node.Name
		node.Labels[corev1.LabelTopologyRegion] = localcluster.Region
		node.Labels[corev1.LabelTopologyZone] = zone
		for _, label := range labels {
			node.Labels[label] = "true"
		}
		room := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
			corev1.ResourcePods: resource.MustParse("110"),
		}
		node.Status = corev1.NodeStatus{Conditions: posted(says), Capacity: room, Allocatable: room}
	})
	k := &kubelet{name: name, due: from.Truncate(time.Second).Add(NodeStartupGrace), stop: func() {}}
	p.kubelets[name] = k
	return k, err
}

// awaitUntainted waits until the node has no taint: the API server gives each new node one.
func (k *kubelet) awaitUntainted(ctx context.Context, p *Play) error {
	err := await.Poll(ctx, func(ctx context.Context) error {
		node, err := p.Admin.CoreV1().Nodes().Get(ctx, p.NodeName(k.name), metav1.GetOptions{})
		if err == nil && len(node.Spec.Taints) > 0 {
			err = fmt.Errorf("node %s has taints from the start: %v", k.name, node.Spec.Taints)
		}
		return err
	})
	k.untaintedAt = time.Now()
	k.changed = k.untaintedAt
	return err
}

// posted are conditions as a kubelet posts them.
func posted(conditions Conditions) (all []corev1.NodeCondition) {
	now := metav1.Now()
	for kind, status := range conditions {
		all = append(all, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Posted", Message: "by its kubelet",
			LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	return all
}

// live renews the lease now and until stop is called, whatever the API server answers.
func (k *kubelet) live(ctx context.Context, p *Play) error {
	if err := k.renew(ctx, p); err != nil {
		return err
	}
	lives, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var living sync.WaitGroup
	living.Go(func() {
		for await.Pause(lives, renewEvery) == nil {
			_ = k.renew(context.WithoutCancel(lives), p) // an outage: it tries again
		}
	})
	k.stop = sync.OnceFunc(func() { cancel(); living.Wait() })
	return nil
}

func (k *kubelet) renew(ctx context.Context, p *Play) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sent := time.Now()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(sent)}})
	if err != nil {
		return err
	}
	_, err = p.Admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).
		Patch(ctx, p.NodeName(k.name), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewed = sent
	return nil
}

// heard is just before the last renewal that was accepted was sent.
func (k *kubelet) heard() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.renewed
}

// Heard waits until kubelets have renewed their leases since the step began.
func Heard(nodes ...string) Step {
	return func(ctx context.Context, p *Play) error {
		from := time.Now()
		return await.Poll(ctx, func(context.Context) error {
			for _, name := range nodes {
				if !p.kubelets[name].heard().After(from) {
					return errors.New("the kubelet of node " + name + " has not renewed its lease")
				}
			}
			return nil
		})
	}
}

// FallSilent lets kubelets renew their leases once more, and then never again.
func FallSilent(nodes ...string) Step {
	return func(ctx context.Context, p *Play) error {
		for _, name := range nodes {
			k := p.kubelets[name]
			k.stop()
			if err := k.renew(ctx, p); err != nil {
				return err
			}
			k.changed = k.heard()
			k.due = k.changed.Add(NodeGrace)
		}
		return nil
	}
}

// Return lets kubelets post that all is well, and renew their leases again.
func Return(nodes ...string) Step {
	return func(ctx context.Context, p *Play) error {
		for _, name := range nodes {
			if err := Post(name, healthy)(ctx, p); err != nil {
				return err
			}
			k := p.kubelets[name]
			k.stop()
			if err := k.live(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// Post lets a kubelet post conditions.
func Post(node string, conditions Conditions) Step {
	return changeNode(node, func() any {
		return map[string]any{"status": map[string]any{"conditions": posted(conditions)}}
	}, "status")
}

// Cordon sets whether a node is unschedulable.
func Cordon(node string, unschedulable bool) Step {
	return changeNode(node, func() any { return map[string]any{"spec": map[string]any{"unschedulable": unschedulable}} })
}

// Label gives a node a label without a value.
func Label(node, key string) Step {
	return changeNode(node, func() any {
		return map[string]any{"metadata": map[string]any{"labels": map[string]string{key: ""}}}
	})
}

func changeNode(node string, change func() any, subresource ...string) Step {
	return func(ctx context.Context, p *Play) error {
		if err := FromNow(node)(ctx, p); err != nil {
			return err
		}
		patch, err := json.Marshal(change())
		if err != nil {
			return err
		}
		_, err = p.Admin.CoreV1().Nodes().
			Patch(ctx, p.NodeName(node), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, subresource...)
		return err
	}
}

// regrant gives a new grace period to kubelets whose grace period is not over yet, because the contestant restarts.
func (p *Play) regrant(from time.Time) {
	for _, k := range p.kubelets {
		if k.due.After(from) && !k.heard().IsZero() {
			k.due = from.Add(NodeGrace)
		}
	}
}

// ExtraGraceOver waits until the contestant, which may have been started just before the scenario or the latest
// [Restart], gives silent nodes no more time than their grace periods.
func ExtraGraceOver(ctx context.Context, p *Play) error {
	return await.Pause(ctx, time.Until(p.started.Add(extraGrace)))
}

// FromNow requires changes of some nodes to be on time only from now on.
func FromNow(nodes ...string) Step {
	return func(_ context.Context, p *Play) error {
		for _, name := range nodes {
			k := p.kubelets[name]
			k.changed = time.Now()
			k.due = k.changed
		}
		return nil
	}
}

// PostReady lets a kubelet say of a pod that it runs and is ready.
func PostReady(pod string) Step {
	return func(ctx context.Context, p *Play) error {
		ready := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","reason":"Posted"}]}}`)
		_, err := p.Admin.CoreV1().Pods(p.Namespace).
			Patch(ctx, pod, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")
		return err
	}
}
