// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationconfig "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Request is a request to an API server: "delete" of "pods", or "apply" of "leases".
type Request struct{ Verb, Resource, Name string }

// Hook may delay a request, and returns the error with which it fails, if it does.
type Hook func(ctx context.Context, r Request) error

// Slow is a clientset whose requests about nodes, pods and leases may take time, be refused, or be carried out and lose
// their answers. A reactor of the fake clientset cannot do that, because it blocks all other requests.
type Slow struct {
	*fake.Clientset

	// Before is called before a request is carried out, After once it was. Either may be nil.
	Before, After Hook
}

// Takes waits for the duration of a request.
func Takes(ctx context.Context, d time.Duration) error {
	if d == 0 { // timers of a bubble that end at once, on several threads, crash the race detector of Go 1.26
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// through carries out a request between the two hooks.
func through[T any](ctx context.Context, s *Slow, r Request, carryOut func() (T, error)) (answer T, err error) {
	var none T
	if s.Before != nil {
		if err := s.Before(ctx, r); err != nil {
			return none, err
		}
	}
	if answer, err = carryOut(); err != nil || s.After == nil {
		return answer, err
	}
	if err := s.After(ctx, r); err != nil {
		return none, err
	}
	return answer, nil
}

// CoreV1 implements kubernetes.Interface.
func (s *Slow) CoreV1() coreclient.CoreV1Interface { return slowCore{s.Clientset.CoreV1(), s} }

// CoordinationV1 implements kubernetes.Interface.
func (s *Slow) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return slowCoordination{s.Clientset.CoordinationV1(), s}
}

type slowCore struct {
	coreclient.CoreV1Interface

	slow *Slow
}

func (c slowCore) Pods(namespace string) coreclient.PodInterface {
	return slowPods{c.CoreV1Interface.Pods(namespace), c.slow}
}

func (c slowCore) Nodes() coreclient.NodeInterface {
	return slowNodes{c.CoreV1Interface.Nodes(), c.slow}
}

type slowPods struct {
	coreclient.PodInterface

	slow *Slow
}

func (p slowPods) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Pod, error) {
	return through(ctx, p.slow, Request{"get", "pods", name}, func() (*corev1.Pod, error) {
		return p.PodInterface.Get(ctx, name, options)
	})
}

func (p slowPods) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	_, err := through(ctx, p.slow, Request{"delete", "pods", name}, func() (any, error) {
		return nil, p.PodInterface.Delete(ctx, name, options)
	})
	return err
}

func (p slowPods) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte,
	options metav1.PatchOptions, subresources ...string,
) (*corev1.Pod, error) {
	return through(ctx, p.slow, Request{"patch", "pods", name}, func() (*corev1.Pod, error) {
		return p.PodInterface.Patch(ctx, name, kind, patch, options, subresources...)
	})
}

// EvictV1 implements coreclient.PodExpansion.
func (p slowPods) EvictV1(ctx context.Context, eviction *policyv1.Eviction) error {
	_, err := through(ctx, p.slow, Request{"evict", "pods", eviction.Name}, func() (any, error) {
		return nil, p.PodInterface.EvictV1(ctx, eviction)
	})
	return err
}

type slowNodes struct {
	coreclient.NodeInterface

	slow *Slow
}

func (n slowNodes) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Node, error) {
	return through(ctx, n.slow, Request{"get", "nodes", name}, func() (*corev1.Node, error) {
		return n.NodeInterface.Get(ctx, name, options)
	})
}

func (n slowNodes) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte,
	options metav1.PatchOptions, subresources ...string,
) (*corev1.Node, error) {
	return through(ctx, n.slow, Request{"patch", "nodes", name}, func() (*corev1.Node, error) {
		return n.NodeInterface.Patch(ctx, name, kind, patch, options, subresources...)
	})
}

type slowCoordination struct {
	coordinationclient.CoordinationV1Interface

	slow *Slow
}

func (c slowCoordination) Leases(namespace string) coordinationclient.LeaseInterface {
	return slowLeases{c.CoordinationV1Interface.Leases(namespace), c.slow}
}

type slowLeases struct {
	coordinationclient.LeaseInterface

	slow *Slow
}

func (l slowLeases) List(ctx context.Context, options metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return through(ctx, l.slow, Request{Verb: "list", Resource: "leases"}, func() (*coordinationv1.LeaseList, error) {
		return l.LeaseInterface.List(ctx, options)
	})
}

func (l slowLeases) Apply(ctx context.Context, lease *coordinationconfig.LeaseApplyConfiguration,
	options metav1.ApplyOptions,
) (*coordinationv1.Lease, error) {
	return through(ctx, l.slow, Request{"apply", "leases", *lease.Name}, func() (*coordinationv1.Lease, error) {
		return l.LeaseInterface.Apply(ctx, lease, options)
	})
}
