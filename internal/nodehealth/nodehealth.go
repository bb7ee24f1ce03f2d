// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/internal/podcache"
	"github.com/taintkeeper/taintkeeper/internal/stage"
)

// The defaults of kube-controller-manager's flags (pkg/controller/nodelifecycle/config, cmd/kube-controller-manager).
const (
	DefaultMonitorGrace   = 50 * time.Second
	DefaultStartupGrace   = 60 * time.Second
	DefaultRate           = 0.1
	DefaultSecondaryRate  = 0.01
	DefaultLargeZone      = 50
	DefaultUnhealthyShare = 0.55
)

// concurrentNodes is how many nodes are changed at the same time, as upstream's workers.
const concurrentNodes = 8

// The backoff between tries to change a node, and after how many a line is logged.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 30 * time.Second
	troubleAfter = 3
)

// GatherLeases is for how long renewals of leases may be gathered before they are read. Kubelets renew every ten
// seconds.
const GatherLeases = 100 * time.Millisecond

// Config configures a Keeper.
type Config struct {
	// Client reads, watches and changes.
	Client kubernetes.Interface
	// LeaseClient watches the leases, and EventClient writes the events; Client does when they are nil.
	LeaseClient, EventClient kubernetes.Interface
	// Pods are the bound pods, if they are watched already; whoever made the cache runs it. nil: a cache
	// of its own.
	Pods *podcache.Cache
	// Grace is for how long nodes may be silent.
	Grace Grace
	// Policy is how fast nodes are tainted.
	Policy Policy
	// DryRun only says what would be done about nodes.
	DryRun bool
	// Limiter bounds the rate of calls; nil means no limit.
	Limiter *rate.Limiter
	// Registerer takes the metrics; nil means none are registered.
	Registerer prometheus.Registerer
	// Logger defaults to one that discards.
	Logger logr.Logger
}

func (c *Config) complete() error {
	if c.Client == nil {
		return errors.New("a Keeper needs a Client")
	}
	if c.LeaseClient == nil {
		c.LeaseClient = c.Client
	}
	if c.EventClient == nil {
		c.EventClient = c.Client
	}
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	return nil
}

// Keeper is the whole of node health: watches, events and controllers.
type Keeper struct {
	config   Config
	pods     *podcache.Cache
	probes   *probes
	leases   *leases
	nodes    *nodes
	zones    *zones
	events   *events
	looks    requests
	markings requests
	play     stage.Play
}

// New assembles a Keeper. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Keeper, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	k := &Keeper{config: config, pods: config.Pods, probes: newProbes(config.Grace), events: newEvents(config.DryRun), zones: newZones(config.Policy, config.Logger)}
	k.leases = newLeases(k.probes)
	var err error
	k.nodes, err = newNodes(config.Client, k.probes, observers{changed: k.looks.add, came: k.came, went: k.went})
	if err != nil {
		return nil, fmt.Errorf("prepare the watch of nodes: %w", err)
	}
	k.play.Everywhere(
		func(ctx context.Context) error { k.nodes.informer.RunWithContext(ctx); return nil },
		func(ctx context.Context) error { k.leases.run(ctx, config.LeaseClient); return nil },
		func(ctx context.Context) error { k.events.run(ctx, config.EventClient); return nil },
	)
	if k.pods == nil {
		k.pods = podcache.New(config.Client)
		k.play.Everywhere(k.pods.Run)
	}
	k.zones.silent, k.zones.wake, k.zones.recovered = k.silent, k.looks.add, k.probes.restart
	metrics := newMetrics()
	if config.Registerer != nil {
		if err := metrics.register(config.Registerer, k.zones); err != nil {
			return nil, fmt.Errorf("register the metrics: %w", err)
		}
	}
	return k, k.addControllers(metrics)
}

// Run runs the Keeper alone, without a manager or an election, until the context ends.
func (k *Keeper) Run(ctx context.Context) error { return k.play.Run(ctx) }

// AddTo adds the Keeper to a manager: watches and events run in every replica, so that a standby has
// heard for itself when nodes gave signs of life; the controllers run in the leader.
func (k *Keeper) AddTo(mgr manager.Manager) error { return k.play.AddTo(mgr) }

// Nodes returns the informer of the nodes, which the Keeper runs. It has of each what an assessment needs.
func (k *Keeper) Nodes() cache.SharedIndexInformer { return k.nodes.informer }

// HasSynced reports whether the watches have brought their first lists.
func (k *Keeper) HasSynced() bool {
	return k.nodes.handler.HasSynced() && cache.IsDone(k.leases) && k.pods.HasSynced()
}

// came and went tell of nodes, if this replica is the one that acts.
func (k *Keeper) came(node *corev1.Node) {
	if k.looks.started() && !k.config.DryRun {
		k.events.registered(node)
	}
}

func (k *Keeper) went(node *corev1.Node) {
	k.looks.drop(node.Name)
	k.markings.drop(node.Name)
	if k.looks.started() && !k.config.DryRun {
		k.events.removed(node)
	}
}

// silent reports whether the grace period of a node is over, also when its conditions say so already, or it only has
// more time since then.
func (k *Keeper) silent(name string, now time.Time) bool {
	node, ok := k.nodes.get(name)
	if !ok || !k.probes.knows(node) {
		return false
	}
	return k.probes.isExcused(name) || Assess(node, k.probes.of(name, now), k.config.Grace, now).Ready == corev1.ConditionUnknown
}

func (k *Keeper) addControllers(metrics *metrics) error {
	calls := api{client: k.config.Client, limiter: k.config.Limiter}
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[NodeRequest](firstBackoff, lastBackoff)
	taint, err := stage.New(k.config.Logger, "node-health-taint", controller.TypedOptions[NodeRequest]{
		MaxConcurrentReconciles: concurrentNodes,
		Reconciler: &tainter{
			dryRun: k.config.DryRun, grace: k.config.Grace,
			nodes: k.nodes, probes: k.probes, zones: k.zones,
			api: calls, events: k.events, metrics: metrics, unready: k.markings.add, backoff: backoff,
		},
	}, begin{k})
	if err != nil {
		return err
	}
	k.play.Leading(taint)
	if k.config.DryRun {
		return nil
	}
	marker := &marker{nodes: k.nodes, pods: k.pods, api: calls, events: k.events}
	mark, err := stage.New(k.config.Logger, "node-health-mark", controller.TypedOptions[NodeRequest]{
		MaxConcurrentReconciles: concurrentNodes,
		Reconciler:              marker,
	}, &k.markings)
	if err != nil {
		return err
	}
	k.play.Leading(mark)
	k.pods.Subscribe(func(change podcache.Change) {
		pod := change.After
		if pod == nil || change.Before != nil && change.Before.Node == pod.Node { // its kubelet may live, and know better
			return
		}
		if pod.Flags.Has(podcache.Ready) && marker.silent(pod.Node) {
			k.markings.add(pod.Node)
		}
	})
	return nil
}
