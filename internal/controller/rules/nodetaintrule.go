// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules turns conditions of nodes into taints, according to NodeTaintRules. In reading order:
//
//	nodetaintrule.go  the watches of nodes and rules, and what requests a plan
//	reconciler.go     one work item per rule: plan, write the nodes, report in the rule's status
//	view.go           what the watches have shown: the nodes, and for each rule those that concern it, with its newest
//	                  plan; and what a write changes on a node that was read live
//	plan.go           pure: which nodes should have the taint, and until when that holds
//	rule.go           which rules are accepted, and which continue others
//	report.go         status, finalizer, events and metrics
//
// The reconciler is the only writer of the taints of rules and of the labels that say which rule owns them. It writes
// each node with one patch, with the node's resourceVersion as a precondition. What it wrote is not remembered. Before
// a rule with maxTainted adds a taint, a live list of the nodes with its label shows how many have it. Only an
// unanswered write is remembered, until its call has ended in the API server, because it can still take effect after
// that list.
//
// Two rules with one taint key and effect. The newer is refused, and its status names the older. When the older leaves,
// the newer continues it if the whole taint is the same, value included: the nodes keep the taint, only the label
// changes, as if the older rule had been edited. Users rename rules that way, and a gap would let pods onto broken
// nodes for as long as it takes to write all nodes twice. If the value differs, the older rule removes its taint first,
// as it does when one rule is deleted and another created, which is how users change a taint.
package rules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/custom"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
)

// togetherWithin is how long changes of nodes are batched before a rule is planned again.
const togetherWithin = 250 * time.Millisecond

// Config configures a Controller.
type Config struct {
	// Client reads and writes nodes.
	Client kubernetes.Interface
	// EventClient writes the events; Client does when it is nil.
	EventClient kubernetes.Interface
	// Rules reads, watches and writes NodeTaintRules, and lists the metadata of nodes.
	Rules client.WithWatch
	// Nodes are the nodes. The caller runs the cache.
	Nodes *nodecache.Cache
	// Clock is the timeline of the process.
	Clock *timeline.Clock
	// DryRun only reports what would be done.
	DryRun bool
	// Limiter bounds the rate of calls; nil means no limit.
	Limiter *rate.Limiter
	// Registerer takes the metrics; nil means none are registered.
	Registerer prometheus.Registerer
	// Logger defaults to one that discards.
	Logger logr.Logger
}

func (c *Config) complete() error {
	if c.Client == nil || c.Rules == nil || c.Nodes == nil || c.Clock == nil {
		return errors.New("a Controller needs a Client, Rules, Nodes and a Clock")
	}
	if c.EventClient == nil {
		c.EventClient = c.Client
	}
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	return nil
}

var resource = custom.Resource[*v1alpha1.NodeTaintRule]{
	Kind: "NodeTaintRule", Object: &v1alpha1.NodeTaintRule{},
	List:    func() client.ObjectList { return &v1alpha1.NodeTaintRuleList{} },
	Without: "so no node is tainted according to rules; to use rules, apply config/crd.yaml",
}

// Controller combines all parts of the rules: their watch, their events and their reconciler.
type Controller struct {
	nodes *nodecache.Cache
	parts stage.Parts
}

// New assembles a Controller. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Controller, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	c := &Controller{nodes: config.Nodes}
	view, events := newView(config.DryRun), apicall.NewRecorder("taintkeeper", config.EventClient)
	retries, err := newRetries(config.Registerer, view)
	if err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	requests := &requests{view: view, nodes: config.Nodes}
	watch := custom.New(config.Rules, resource, config.Logger, func(all []*v1alpha1.NodeTaintRule, _ bool) {
		view.setRules(all, config.Clock.See())
		requests.enqueue(0, view.requests()...)
	})
	requests.rules = watch.Checker()
	config.Nodes.Subscribe(func(change nodecache.Change) {
		if change.After == nil {
			requests.enqueue(togetherWithin, view.dropNode(change.Before.Name)...)
			return
		}
		is := sighting{node: change.After.Object(), seen: config.Clock.See(), gap: change.Gap}
		requests.enqueue(togetherWithin, view.setNode(is)...)
	})
	c.parts.InEveryReplica(
		watch.Run,
		func(ctx context.Context) error { events.Run(ctx); return nil },
	)
	err = stage.Add(&c.parts, config.Logger, "node-taint-rule", controller.TypedOptions[Request]{
		RateLimiter: apicall.RateLimiter[Request](),
		Reconciler: &reconciler{
			dryRun: config.DryRun, clock: config.Clock, watch: watch, view: view,
			events: events, retries: retries, requests: requests,
			api:   api{client: config.Client, rules: config.Rules, limiter: config.Limiter},
			notes: map[types.UID]*note{},
		},
	}, stage.Source[Request]{Of: "NodeTaintRules and nodes that they concern", To: requests.connect, Wait: requests.begin})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Run runs the Controller alone, without a manager or an election, until the context ends.
func (c *Controller) Run(ctx context.Context) error { return c.parts.Run(ctx) }

// AddTo adds the Controller to a manager. The watch and the events run in every replica, so that a standby has seen
// when conditions changed. The reconciler runs only in the leader.
func (c *Controller) AddTo(mgr manager.Manager) error { return c.parts.AddTo(mgr) }

// HasSynced reports whether the nodes are known. Rules need not be: there may be no such resource.
func (c *Controller) HasSynced() bool { return c.nodes.HasSynced() }

// requests feeds the reconciler. Requests from before it starts are dropped, because it then plans everything.
type requests struct {
	view         *view
	nodes, rules cache.DoneChecker

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[Request]
}

// connect connects the queue of the reconciler.
func (r *requests) connect(queue workqueue.TypedRateLimitingInterface[Request]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = queue
}

// begin requests plans of all rules once they and the nodes are known.
func (r *requests) begin(ctx context.Context) error {
	if cache.WaitFor(ctx, "", r.rules, r.nodes) {
		r.enqueue(0, r.view.requests()...)
	}
	return ctx.Err()
}

// enqueue requests plans of rules within some time.
func (r *requests) enqueue(in time.Duration, rules ...Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue == nil {
		return
	}
	for _, rule := range rules {
		r.queue.AddAfter(rule, in)
	}
}
