// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// leases watches the leases that kubelets renew, and keeps nothing of them but when that was seen.
// 15,000 nodes renew 1,500 leases a second, so there is no informer and no store between the watch and
// the probes.
type leases struct {
	probes *probes
	synced chan struct{}
	once   sync.Once
}

func newLeases(probes *probes) *leases { return &leases{probes: probes, synced: make(chan struct{})} }

// run watches until the context ends. Errors are logged and retried with backoff, for ever.
func (l *leases) run(ctx context.Context, client kubernetes.Interface) {
	cache.NewReflectorWithOptions(l.listerWatcher(client), &coordinationv1.Lease{}, l, cache.ReflectorOptions{
		Name:            "nodehealth",
		TypeDescription: "leases of nodes",
	}).RunWithContext(ctx)
}

// listerWatcher notes when leases cannot be seen: from a call that failed, or the end of a watch, to the next
// call that succeeds. After an outage a watch may be opened and end at once, because it asks for what the
// API server no longer has; the next try can be a minute away.
func (l *leases) listerWatcher(client kubernetes.Interface) cache.ListerWatcher {
	seen := func(err error) {
		if err != nil {
			l.probes.cannotSee(time.Now())
			return
		}
		l.probes.canSee(time.Now())
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, options)
			seen(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			stream, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Watch(ctx, options)
			seen(err)
			if err != nil {
				return nil, err
			}
			return leaseStream{Interface: stream, ended: func() { l.probes.cannotSee(time.Now()) }}, nil
		},
	}, client)
}

// leaseStream is a watch that tells of its end: the reflector stops each watch that it does not go on with,
// before it begins another.
type leaseStream struct {
	watch.Interface

	ended func()
}

// Stop implements watch.Interface.
func (s leaseStream) Stop() {
	s.ended()
	s.Interface.Stop()
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
	l.probes.renewed(lease.Name, renewTime(lease), time.Now())
	return nil
}

// renewTime returns when a kubelet last renewed its lease, by its clock; zero: it does not say.
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
	l.probes.forgetLease(lease.Name)
	return nil
}

// Replace is called with a complete list.
func (l *leases) Replace(objects []any, _ string) error {
	listed := make(map[string]bool, len(objects))
	for _, object := range objects {
		lease, err := asLease(object)
		if err != nil {
			return err
		}
		listed[lease.Name] = true
	}
	for _, name := range l.probes.leases() {
		if !listed[name] {
			l.probes.missLease(name, time.Now())
		}
	}
	for _, object := range objects {
		if err := l.Update(object); err != nil {
			return err
		}
	}
	l.once.Do(func() { close(l.synced) })
	return nil
}

// Resync has no meaning here.
func (l *leases) Resync() error { return nil }

func asLease(object any) (*coordinationv1.Lease, error) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return nil, fmt.Errorf("the watch of leases brought a %T", object)
	}
	return lease, nil
}
