// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/taintkeeper/taintkeeper/internal/cluster/listwatch"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// leases watches the leases of kubelets and our own, and remembers only when renewals were seen. 15,000 nodes renew
// 1,500 leases a second, so there is no informer and no store in between.
type leases struct {
	records *records
	clock   *timeline.Clock
	follow  func(readiness.News) // called after an echo
	synced  chan struct{}
	once    sync.Once
}

// watch watches until the context ends. Errors are logged and retried with backoff, indefinitely.
func (l *leases) watch(ctx context.Context, client kubernetes.Interface) {
	api := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	watches := listwatch.Bounded(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return api.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, options)
		},
	}, client)
	cache.NewReflectorWithOptions(watches, &coordinationv1.Lease{}, l, cache.ReflectorOptions{
		Name:            "nodehealth",
		TypeDescription: "leases of nodes",
	}).RunWithContext(ctx)
}

// Name and Done make it a cache.DoneChecker: the channel is closed when the first list is complete.
func (l *leases) Name() string          { return "leases of nodes" }
func (l *leases) Done() <-chan struct{} { return l.synced }

var (
	_ cache.DoneChecker    = (*leases)(nil)
	_ cache.ReflectorStore = (*leases)(nil)
)

// Add is called for a lease that appeared.
func (l *leases) Add(object any) error { return l.Update(object) }

// Update is called for a lease that appeared or changed.
func (l *leases) Update(object any) error {
	lease, err := asLease(object)
	if err != nil {
		return err
	}
	l.follow(l.records.brought(lease, l.clock.Now()))
	return nil
}

// isOwn reports whether a lease is Taintkeeper's, of this or another process, and belongs to no node.
func isOwn(lease *coordinationv1.Lease) bool {
	return lease.Name == OwnLease || lease.Name == DryRunLease
}

// renewTime returns when a kubelet last renewed its lease, on the kubelet's clock, or zero if the lease does not say.
func renewTime(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

// Delete is called for a lease that is gone.
func (l *leases) Delete(object any) error {
	lease, err := asLease(object)
	if err != nil {
		return err
	}
	l.records.forgetLease(lease.Name)
	return nil
}

// Replace is called with a complete list. Our own lease in it is an echo for all others.
func (l *leases) Replace(objects []any, _ string) error {
	all := make([]*coordinationv1.Lease, 0, len(objects))
	there := make(map[string]bool, len(objects))
	for _, object := range objects {
		lease, err := asLease(object)
		if err != nil {
			return err
		}
		there[lease.Name] = true
		all = append(all, lease)
	}
	l.records.listed(there)
	slices.SortStableFunc(all, func(a, b *coordinationv1.Lease) int { return cmp.Compare(place(a), place(b)) })
	now := l.clock.Now()
	for _, lease := range all {
		l.follow(l.records.brought(lease, now))
	}
	l.once.Do(func() { close(l.synced) })
	return nil
}

// place puts our own lease behind all others.
func place(lease *coordinationv1.Lease) int {
	if isOwn(lease) {
		return 1
	}
	return 0
}

// Resync has no meaning here.
func (l *leases) Resync() error { return nil }

func asLease(object any) (*coordinationv1.Lease, error) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return nil, fmt.Errorf("the watch of leases delivered a %T", object)
	}
	return lease, nil
}
