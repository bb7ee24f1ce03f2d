// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/kubernetes/pkg/features"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// contestant works in a world, from its start until the context ends: one process of a controller.
type contestant func(ctx context.Context, w *world) error

// ours is Taintkeeper's complete controller of evictions. It knows the API server's clock.
func ours(ctx context.Context, w *world) error {
	clock := toldClock(ctx)
	caches := caches.New(w.client, clock, false)
	evictor, err := eviction.New(eviction.Config{Client: w.client, Clock: clock, Rule: matching(), Nodes: caches.Nodes, Pods: caches.Pods})
	if err != nil {
		return fmt.Errorf("assemble the Evictor: %w", err)
	}
	return caches.With(evictor.Run)(ctx)
}

// matching is the rule with the feature gates of upstream's controller.
func matching() verdict.Rule {
	return verdict.Rule{Matcher: taints.Matcher{ComparisonOperators: comparisonOperators()}}
}

// comparisonOperators reports whether the operators Gt and Lt are on.
func comparisonOperators() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
}

func toldClock(ctx context.Context) *timeline.Clock {
	clock := &timeline.Clock{}
	bubble.Tell(clock)
	go bubble.KeepTelling(ctx, clock)
	return clock
}

// upstream is kube-controller-manager's taint-eviction controller, with the index that it needs and that there the
// node-lifecycle controller or the daemonset controller adds.
func upstream(ctx context.Context, w *world) error {
	factory := informers.NewSharedInformerFactory(w.client, 0)
	defer factory.Shutdown()
	pods, nodes := factory.Core().V1().Pods(), factory.Core().V1().Nodes()
	index := cache.Indexers{"spec.nodeName": func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}}
	if err := pods.Informer().AddIndexers(index); err != nil {
		return fmt.Errorf("add the index: %w", err)
	}
	controller, err := tainteviction.New(ctx, w.client, pods, nodes, "taint-eviction-controller")
	if err != nil {
		return fmt.Errorf("make upstream's controller: %w", err)
	}
	factory.StartWithContext(ctx)
	cache.WaitFor(ctx, "", pods.Informer().HasSyncedChecker(), nodes.Informer().HasSyncedChecker())
	controller.Run(ctx)
	return nil
}

// How both contestants of node health are set up. The rates and the threshold are such that they make a difference even
// in small zones; the rest are kube-controller-manager's defaults.
var (
	grace  = readiness.Grace{Monitor: readiness.DefaultMonitorGrace, Startup: readiness.DefaultStartupGrace}
	policy = readiness.Policy{
		Rate: readiness.DefaultRate, SecondaryRate: 0.05, FullDisruptionRate: readiness.DefaultRate,
		LargeZone: 4, UnhealthyShare: readiness.DefaultUnhealthyShare,
	}
)

// period is how often upstream looks at all nodes (--node-monitor-period), and tick how often at the nodes that wait for
// a NoExecute taint.
const (
	period = 5 * sec
	tick   = 100 * ms
)

// oursOfNodes is Taintkeeper's complete node health.
var oursOfNodes = oursChanged(func(*nodehealth.Config) {})

// oursChanged is ours, set up differently from upstream. It knows the API server's clock.
func oursChanged(change func(*nodehealth.Config)) contestant {
	return func(ctx context.Context, w *world) error {
		clock := toldClock(ctx)
		caches := caches.New(w.client, clock, false)
		config := nodehealth.Config{
			Client: w.client, Nodes: caches.Nodes, Pods: caches.Pods, Clock: clock, Grace: grace, Policy: policy,
		}
		change(&config)
		health, err := nodehealth.New(config)
		if err != nil {
			return fmt.Errorf("assemble the Controller: %w", err)
		}
		return caches.With(health.Run)(ctx)
	}
}

// upstreamOfNodes is kube-controller-manager's node-lifecycle controller. It is upstream's own code; what it is given
// makes its order certain where that is a matter of luck: see orderly.
var upstreamOfNodes = upstreamAtRates(policy)

func upstreamAtRates(p readiness.Policy) contestant {
	return func(ctx context.Context, w *world) error {
		factory := informers.NewSharedInformerFactory(w.client, 0)
		defer factory.Shutdown()
		core, order := factory.Core().V1(), &orderly{world: w}
		nodes, leases := core.Nodes(), factory.Coordination().V1().Leases()
		daemonSets := factory.Apps().V1().DaemonSets()
		controller, err := nodelifecycle.NewNodeLifecycleController(ctx, orderedLeases{LeaseInformer: leases, order: order}, core.Pods(),
			&orderedNodes{NodeInformer: nodes, order: order}, daemonSets, withEvents{w.client, w}, period, grace.Startup, grace.Monitor,
			p.Rate, p.SecondaryRate, int32(p.LargeZone), p.UnhealthyShare)
		if err != nil {
			return fmt.Errorf("make upstream's controller: %w", err)
		}
		factory.StartWithContext(ctx)
		cache.WaitFor(ctx, "", nodes.Informer().HasSyncedChecker(), leases.Informer().HasSyncedChecker(),
			core.Pods().Informer().HasSyncedChecker(), daemonSets.Informer().HasSyncedChecker())
		controller.Run(ctx)
		return nil
	}
}

// orderly makes certain what upstream leaves to luck. The pass over all nodes and the tick that sets NoExecute taints
// begin at the same moment, and each comes back at multiples of its period, so that they race forever: here the first
// pass lists its nodes a little later. And a pass looks at eight nodes at a time, in the order of a Go map: here they
// look up their leases in the order of their names.
type orderly struct {
	world *world
	late  sync.Once

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
	o.began, o.rank = now(), map[string]int{}
	for i, node := range nodes {
		o.rank[node.Name] = i
	}
	o.world.locked(func() { o.world.passes = append(o.world.passes, o.began) })
}

func (o *orderly) wait(name string) {
	o.mu.Lock()
	turn := o.began + time.Duration(o.rank[name])*turnTakes
	o.mu.Unlock()
	sleepUntil(turn)
}

// orderedNodes is an informer and its lister.
type orderedNodes struct {
	coreinformers.NodeInformer
	corelisters.NodeLister

	order *orderly
}

func (n *orderedNodes) Lister() corelisters.NodeLister {
	n.NodeLister = n.NodeInformer.Lister()
	return n
}

func (n *orderedNodes) List(selector labels.Selector) ([]*corev1.Node, error) {
	n.order.late.Do(func() { pass(passAfter) })
	nodes, err := n.NodeLister.List(selector)
	n.order.list(nodes)
	return nodes, err
}

type orderedLeases struct {
	coordinationinformers.LeaseInformer
	coordinationlisters.LeaseLister

	order *orderly
}

func (l orderedLeases) Lister() coordinationlisters.LeaseLister {
	l.LeaseLister = l.LeaseInformer.Lister()
	return l
}

func (l orderedLeases) Leases(namespace string) coordinationlisters.LeaseNamespaceLister {
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

// withEvents is client-go's fake clientset with what the events of upstream's node-lifecycle controller need: a REST
// client, which creates nothing but events.
type withEvents struct {
	*fake.Clientset

	world *world
}

func (c withEvents) CoreV1() typedcorev1.CoreV1Interface {
	return coreWithEvents{c.Clientset.CoreV1(), &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(), GroupVersion: corev1.SchemeGroupVersion, VersionedAPIPath: "/api/v1",
		Client: restfake.CreateHTTPClient(func(request *http.Request) (*http.Response, error) {
			event := &corev1.Event{}
			if err := json.NewDecoder(request.Body).Decode(event); err != nil {
				return nil, err
			}
			c.world.locked(func() { c.world.events = append(c.world.events, event) })
			return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		}),
	}}
}

type coreWithEvents struct {
	typedcorev1.CoreV1Interface

	client rest.Interface
}

func (c coreWithEvents) RESTClient() rest.Interface { return c.client }
