// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealth turns the silence and the conditions of nodes into taints, zone by zone. It replaces the tainting
// half of kube-controller-manager's node-lifecycle-controller. Package readiness decides what happens to a node and
// when; this one receives signs of life, and writes. The rules of both are on one page of docs/design.md.
//
//	leases.go       the watch of leases, which are signs of life
//	echo.go         our own renewals among them, and the clock that runs from one echo to the next, so that silence is
//	                counted by what could be heard
//	records.go      what is known of each node, under one lock: what comes in, and what follows from it
//	reconciler.go   keyed by node: plan, write the conditions, plan, write the taints, mark the pods of a silent node
//	metrics.go      metrics and events
package nodehealth

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/readiness"
)

// concurrentNodes is how many nodes are changed at the same time; upstream has as many workers.
const concurrentNodes = 8

// troubleAfter is how many failures in a row to change a node are worth a line in the log. The first few are ordinary.
const troubleAfter = 3

// GatherLeases is how long renewals of leases may be batched before they are read. Kubelets renew every ten seconds.
const GatherLeases = 100 * time.Millisecond

// Config configures a Controller.
type Config struct {
	// Client reads, watches and writes.
	Client kubernetes.Interface
	// LeaseClient watches the leases, and EventClient writes the events. If nil, Client does.
	LeaseClient, EventClient kubernetes.Interface
	// EchoClient renews our own lease. It must not wait for other calls or for a rate limit. The default is Client.
	EchoClient kubernetes.Interface
	// Reconnect closes the connection of LeaseClient, whose watch then restarts. It is nil if the connection cannot be
	// closed.
	Reconnect func()
	// Nodes and Pods are the nodes and the bound pods. The caller runs these caches, next to the Controller.
	Nodes *nodecache.Cache
	Pods  *podcache.Cache
	// Grace is how long nodes may be silent.
	Grace readiness.Grace
	// Policy is how fast nodes are tainted.
	Policy readiness.Policy
	// Clock is the timeline of the process. The default is a Clock of its own, which sees no Date headers.
	Clock *timeline.Clock
	// DryRun only reports what would be done about nodes.
	DryRun bool
	// Limiter bounds the rate of calls; nil means no limit.
	Limiter *rate.Limiter
	// Registerer takes the metrics; nil means none are registered.
	Registerer prometheus.Registerer
	// Logger defaults to one that discards.
	Logger logr.Logger
}

func (c *Config) complete() error {
	if c.Client == nil || c.Nodes == nil || c.Pods == nil {
		return errors.New("a Controller needs a Client, Nodes and Pods")
	}
	if c.LeaseClient == nil {
		c.LeaseClient = c.Client
	}
	if c.EventClient == nil {
		c.EventClient = c.Client
	}
	if c.EchoClient == nil {
		c.EchoClient = c.Client
	}
	if c.Reconnect == nil {
		c.Reconnect = func() {}
	}
	if c.Clock == nil {
		c.Clock = &timeline.Clock{}
	}
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	return nil
}

// Controller combines all parts of node health: the watch of leases, events and controllers.
type Controller struct {
	config   Config
	nodes    *nodecache.Cache
	pods     *podcache.Cache
	records  *records
	leases   *leases
	events   *events
	looks    requests
	markings requests
	parts    stage.Parts
}

// New assembles a Controller. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Controller, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	c := &Controller{
		config: config, nodes: config.Nodes, pods: config.Pods,
		records: newRecords(config.Grace, config.Policy, config.Clock.Now()),
		events:  newEvents(config.DryRun, config.EventClient),
	}
	c.leases = &leases{records: c.records, clock: config.Clock, follow: c.follow, synced: make(chan struct{})}
	echoes := &echoes{
		client: config.EchoClient, clock: config.Clock, records: c.records, reconnect: config.Reconnect,
		lease: ownLease(config.DryRun),
	}
	c.nodes.Subscribe(c.observe)
	c.parts.InEveryReplica(
		func(ctx context.Context) error { c.leases.watch(ctx, config.LeaseClient); return nil },
		func(ctx context.Context) error { c.watchBlindness(ctx); return nil },
		func(ctx context.Context) error {
			echoes.renewEachSecond(logr.NewContext(ctx, config.Logger))
			return nil
		},
		func(ctx context.Context) error { c.events.Run(ctx); return nil },
	)
	metrics := newMetrics()
	if err := metrics.register(config.Registerer, c.records, config.Clock); err != nil {
		return nil, err
	}
	return c, c.addControllers(metrics)
}

// Run runs the Controller alone, without a manager or an election, until the context ends.
func (c *Controller) Run(ctx context.Context) error { return c.parts.Run(ctx) }

// AddTo adds the Controller to a manager. The watch of leases and events run in every replica, so that a standby has
// received signs of life itself. The controllers run only in the leader.
func (c *Controller) AddTo(mgr manager.Manager) error { return c.parts.AddTo(mgr) }

// HasSynced reports whether the watches have brought their first lists.
func (c *Controller) HasSynced() bool {
	return c.nodes.HasSynced() && cache.IsDone(c.leases) && c.pods.HasSynced()
}

// observe notes a change of a node.
func (c *Controller) observe(change nodecache.Change) {
	seen := c.config.Clock.See()
	if change.After == nil {
		gone := change.Before.Node
		c.follow(c.records.forgetNode(gone.Name, seen.At))
		if c.acts() {
			c.events.removed(gone)
		}
		return
	}
	node := change.After.Node
	c.follow(c.records.put(node, seen))
	if change.Before == nil || concerns(change.Before.Node, node) {
		c.looks.add(node.Name)
	}
	if change.Before == nil && !change.Initial && c.acts() {
		c.events.registered(node)
	}
}

// acts reports whether this replica acts.
func (c *Controller) acts() bool { return c.looks.started() && !c.config.DryRun }

// lead begins to act. Every node is counted before the first one is planned.
func (c *Controller) lead(ctx context.Context) error {
	all, err := c.known(ctx)
	if err != nil {
		return err
	}
	c.follow(c.records.lead(all, c.config.Clock.See()))
	for _, node := range all {
		c.looks.add(node.Name)
	}
	return nil
}

// mark begins to mark pods.
func (c *Controller) mark(ctx context.Context) error {
	all, err := c.known(ctx)
	for _, node := range all {
		c.markings.add(node.Name)
	}
	return err
}

// known waits for the first lists, and returns all nodes.
func (c *Controller) known(ctx context.Context) ([]*corev1.Node, error) {
	cache.WaitFor(ctx, "", c.nodes, c.leases, c.pods)
	var all []*corev1.Node
	for _, known := range c.nodes.All() {
		all = append(all, known.Node)
	}
	return all, ctx.Err()
}

// follow logs what has changed, and requests the nodes whose plans may have changed.
func (c *Controller) follow(told readiness.News) {
	log := c.config.Logger
	for _, is := range told.States {
		log.Info("Zone state changed", "zone", is.Name, "state", is.State, "before", is.Before,
			"nodes", is.Size, "notReady", is.NotReady, "nodesPerSecond", is.Rate)
	}
	if told.Disrupted {
		log.Info("Every zone is fully disrupted, so the control plane is the more likely cause: " +
			"NoExecute taints for readiness are removed, and none are added")
	}
	if told.Recovered {
		log.Info("Some nodes are ready again: every node gets its full grace period again, and nodes are tainted at the rates of their zones")
	}
	c.looks.add(told.Wake...)
}

func (c *Controller) addControllers(metrics *metrics) error {
	backoff := apicall.RateLimiter[NodeRequest]()
	log := stage.QuietErrors(c.config.Logger)
	err := stage.Add(&c.parts, log, "node-health-taint", controller.TypedOptions[NodeRequest]{
		MaxConcurrentReconciles: concurrentNodes,
		RateLimiter:             backoff,
		Reconciler: &reconciler{
			dryRun: c.config.DryRun, clock: c.config.Clock, nodes: c.nodes, records: c.records,
			client: c.config.Client, limiter: c.config.Limiter, events: c.events, metrics: metrics,
			looks: &c.looks, unready: &c.markings, backoff: backoff,
		},
	}, c.looks.from(c.lead))
	if err != nil || c.config.DryRun {
		return err
	}
	marker := &marker{
		nodes: c.nodes, pods: c.pods, clock: c.config.Clock,
		client: c.config.Client, limiter: c.config.Limiter, events: c.events,
	}
	c.pods.Subscribe(func(change podcache.Change) {
		pod := change.After
		if pod == nil || change.Before != nil && change.Before.Node == pod.Node { // its kubelet may be alive, and know better
			return
		}
		if pod.Flags.Has(podcache.Ready) && marker.silent(pod.Node) {
			c.markings.add(pod.Node)
		}
	})
	return stage.Add(&c.parts, log, "node-health-mark", controller.TypedOptions[NodeRequest]{
		MaxConcurrentReconciles: concurrentNodes,
		RateLimiter:             apicall.Wait[NodeRequest](func(NodeRequest) time.Duration { return apicall.FirstBackoff }),
		Reconciler:              marker,
	}, c.markings.from(c.mark))
}
