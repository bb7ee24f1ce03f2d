// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
)

// upstream is kube-controller-manager's node-lifecycle controller. It is upstream's own code; what it
// is given makes its order certain where that is a matter of luck: see orderly.
func upstream(ctx context.Context, w *world) error {
	return runUpstream(ctx, w, policy.Rate)
}

func runUpstream(ctx context.Context, w *world, rate float32) error {
	factory := informers.NewSharedInformerFactory(w.client, 0)
	defer factory.Shutdown()
	core, order := factory.Core().V1(), &orderly{world: w}
	nodes, leases := core.Nodes(), factory.Coordination().V1().Leases()
	daemonSets := factory.Apps().V1().DaemonSets()
	controller, err := nodelifecycle.NewNodeLifecycleController(ctx,
		orderedLeases{leases, order}, core.Pods(), orderedNodes{nodes, order}, daemonSets,
		arena.WithEvents(w.client, w.takeEvent), period, grace.Startup, grace.Monitor,
		rate, policy.SecondaryRate, int32(policy.LargeZone), policy.UnhealthyShare)
	if err != nil {
		return fmt.Errorf("make upstream's controller: %w", err)
	}
	factory.StartWithContext(ctx)
	cache.WaitFor(ctx, "", nodes.Informer().HasSyncedChecker(), leases.Informer().HasSyncedChecker(), core.Pods().Informer().HasSyncedChecker(), daemonSets.Informer().HasSyncedChecker())
	controller.Run(ctx)
	return nil
}

// orderly makes certain what upstream leaves to luck. The pass over all nodes and the tick that sets
// NoExecute taints begin at the same moment, and each comes back at multiples of its period, so that
// they race forever: here the first pass lists its nodes a little later. And a pass looks at eight
// nodes at a time, in the order of a Go map: here they look up their leases in the order of their names.
type orderly struct {
	world *world

	mu    sync.Mutex
	began time.Duration // the latest pass
	rank  map[string]int
}

const (
	passAfter = 20 * ms               // the first pass, after the first tick
	turnTakes = 20 * time.Microsecond // of a node in a pass
)

func (o *orderly) list(nodes []*corev1.Node) {
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began, o.rank = arena.Now(), map[string]int{}
	for i, node := range nodes {
		o.rank[node.Name] = i
	}
	o.world.locked(func() { o.world.passes = append(o.world.passes, o.began) })
}

func (o *orderly) wait(name string) {
	o.mu.Lock()
	turn := o.began + time.Duration(o.rank[name])*turnTakes
	o.mu.Unlock()
	arena.Sleep(turn - arena.Now())
}

type orderedNodes struct {
	coreinformers.NodeInformer

	order *orderly
}

func (n orderedNodes) Lister() corelisters.NodeLister {
	return &nodeLister{NodeLister: n.NodeInformer.Lister(), order: n.order}
}

type nodeLister struct {
	corelisters.NodeLister

	order *orderly
	late  sync.Once
}

func (l *nodeLister) List(selector labels.Selector) ([]*corev1.Node, error) {
	l.late.Do(func() { arena.Sleep(passAfter) })
	nodes, err := l.NodeLister.List(selector)
	l.order.list(nodes)
	return nodes, err
}

type orderedLeases struct {
	coordinationinformers.LeaseInformer

	order *orderly
}

func (l orderedLeases) Lister() coordinationlisters.LeaseLister {
	return leaseLister{l.LeaseInformer.Lister(), l.order}
}

type leaseLister struct {
	coordinationlisters.LeaseLister

	order *orderly
}

func (l leaseLister) Leases(namespace string) coordinationlisters.LeaseNamespaceLister {
	return leasesOf{l.LeaseLister.Leases(namespace), l.order}
}

type leasesOf struct {
	coordinationlisters.LeaseNamespaceLister

	order *orderly
}

func (l leasesOf) Get(name string) (*coordinationv1.Lease, error) {
	l.order.wait(name)
	return l.LeaseNamespaceLister.Get(name)
}

func (w *world) takeEvent(event *corev1.Event) {
	w.locked(func() { w.events = append(w.events, event) })
}
