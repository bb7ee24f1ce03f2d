// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eviction evicts pods from nodes with NoExecute taints that they do not tolerate, or no longer tolerate.
//
// It has two stages:
//
//	decide    keyed by node: the node's NoExecute taints x its pods -> the pods that must leave, now or later, for the
//	          Backlog, which chooses the next eviction to try
//	evict     one goroutine per try: decide again with a live read of the node's taints, set the condition
//	          DisruptionTarget, decide again, delete. If a policy says Evict, it asks the Eviction API instead
//
// and two small controllers:
//
//	stamp     keyed by node: writes the timeAdded of NoExecute taints, so that deadlines survive this process
//	reclaim   keyed by pod: corrects a condition DisruptionTarget that is wrong
//
// It stores nothing else. When a pod is due follows from what the API server has, according to package verdict.
//
// The files, besides eviction.go, which puts everything together:
//
//	decide.go       which pods of a node must leave, and whether policies object
//	judge.go        the rule, over the nodes with NoExecute taints; also for shadow mode
//	queue.go        the Backlog, with a clock and a lock
//	evict.go        one try, from the first call to how it ended: it deletes the pod, or asks the Eviction API
//	mark.go         the condition DisruptionTarget, and whether the pod has ended
//	trouble.go      when a failed try is retried, and what refused it
//	live.go, api.go live reads of nodes, and all API calls
//	stamp.go, reclaim.go, keepalive.go
//	                what else is written: timeAdded, wrong conditions, tolerations of pods that stay
//	policies.go     what EvictionPolicies are asked
//	witness.go      what coexistence must know of the built-in controller
//	handback.go     what coexistence asks at the end
//	metrics.go      metrics, and events on pods
package eviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Mode says what an Evictor does with a due pod.
type Mode int

const (
	// Evict deletes it.
	Evict Mode = iota
	// DryRun logs and counts what would happen. It changes nothing in the cluster except for writing events, which are
	// marked as a dry run.
	DryRun
)

// DefaultConcurrentEvictions is how many evictions run at the same time by default. If the API server is the
// bottleneck, more do not end a storm sooner, and the first pod leaves later, because every worker's PATCH comes before
// any worker's DELETE.
const DefaultConcurrentEvictions = 16

// MaxConcurrentEvictions is the largest value allowed. Five times as many calls can be open then, which is more than
// the API server accepts from all controllers together by default.
const MaxConcurrentEvictions = 100

// concurrentWrites is how many nodes are stamped at the same time, how many marks are corrected, and how many pods are
// kept alive.
const concurrentWrites = 4

// Config configures an Evictor.
type Config struct {
	// Client reads, watches and writes. It must have no rate limit of its own.
	Client kubernetes.Interface
	// EventClient writes events; if nil, Client does. With a client of their own, events do not compete with evictions for
	// the connection.
	EventClient kubernetes.Interface
	// Nodes and Pods are the nodes and the bound pods. The caller runs these caches, next to the Evictor. The Config of
	// Nodes must say whether timeAdded is written.
	Nodes *nodecache.Cache
	Pods  *podcache.Cache
	// Policies may object to evictions. It may be nil. The caller runs them, next to the Evictor.
	Policies Policies
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Clock is the timeline of the process, shared with Nodes and Pods. The default is a Clock of its own, which sees
	// no Date headers.
	Clock *timeline.Clock
	// Mode is Evict or DryRun.
	Mode Mode
	// NeverStamp leaves NoExecute taints without timeAdded as they are. Their countdowns restart with the process.
	NeverStamp bool
	// BuiltIn records what the built-in controller is about to do, if it runs in the cluster and the admission policy
	// of config/coexistence.yaml keeps it from evicting. Its marks are rewritten then, too. nil means that it does not
	// run.
	BuiltIn BuiltIn
	// ConcurrentEvictions bounds the evictions that have been in flight for less than a quarter of a second. Four times as
	// many can be in flight for longer; see package backlog. Zero means DefaultConcurrentEvictions.
	ConcurrentEvictions int
	// Limiter bounds the rate of calls; nil means no limit. Set the limit here, not in Client, where decisions would grow
	// old while they wait for it.
	Limiter *rate.Limiter
	// Registerer takes the metrics; nil means none are registered.
	Registerer prometheus.Registerer
	// Logger defaults to one that discards.
	Logger logr.Logger
}

// BuiltIn follows what the built-in controller is about to do, and records it in the cluster; see coexist.Account. It
// is called concurrently.
type BuiltIn interface {
	// Decided is called before a decision about a node takes effect. It returns at once, with the instant at which the
	// node must be decided about again because a timer of the built-in fires; zero if there is none.
	Decided(node string) time.Time
	// Recorded returns once what the built-in does is recorded in the cluster, including what it does because pods of a
	// node have been due since an instant. None of these may be evicted before then: if this process is killed, only the
	// record keeps the built-in from deleting pods that took the names of evicted ones. If it returns an error, the
	// built-in is left to evict.
	Recorded(ctx context.Context, node string, since time.Time) error
}

func (c *Config) complete() error {
	if c.Client == nil || c.Nodes == nil || c.Pods == nil {
		return errors.New("an Evictor needs a Client, Nodes and Pods")
	}
	if c.ConcurrentEvictions < 0 || c.ConcurrentEvictions > MaxConcurrentEvictions {
		return fmt.Errorf("%d concurrent evictions: choose 1 to %d", c.ConcurrentEvictions, MaxConcurrentEvictions)
	}
	if c.ConcurrentEvictions == 0 {
		c.ConcurrentEvictions = DefaultConcurrentEvictions
	}
	if c.Clock == nil {
		c.Clock = &timeline.Clock{}
	}
	if c.EventClient == nil {
		c.EventClient = c.Client
	}
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	return nil
}

// Evictor combines everything that evicts: events and controllers.
type Evictor struct {
	config Config
	nodes  nodes
	pods   *podcache.Cache
	events *events
	parts  stage.Parts

	queue   *queue
	decider *decider
}

// New assembles an Evictor. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Evictor, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	e := &Evictor{
		config: config, nodes: nodes{config.Nodes}, pods: config.Pods,
		events: newEvents(config.Mode, config.EventClient, config.Clock),
	}
	e.parts.InEveryReplica(func(ctx context.Context) error { e.events.Run(ctx); return nil })
	there := func(pod types.UID) bool {
		_, ok := e.pods.There(pod)
		return ok
	}
	lanes := backlog.Lanes{backlog.Delete: backlog.LimitsFor(config.ConcurrentEvictions), backlog.Ask: asksLimits()}
	e.queue = newQueue(lanes, config.Clock, there)
	metrics := newMetrics()
	e.decider = &decider{
		judge: e.judge(), nodes: e.nodes, pods: e.pods, queue: e.queue, events: e.events, metrics: metrics,
		builtIn: config.BuiltIn, leaving: map[string]bool{}, held: map[string]map[types.UID]heldPod{},
	}
	if config.Registerer != nil {
		backlog := backlogCollector{
			nodes: e.nodes, stats: e.queue.stats, clock: config.Clock, decider: e.decider, policies: config.Policies,
		}
		if err := metrics.register(config.Registerer, backlog); err != nil {
			return nil, fmt.Errorf("register the metrics: %w", err)
		}
	}
	if err := e.addControllers(metrics); err != nil {
		return nil, err
	}
	return e, nil
}

func (c *Config) neverStamps() bool { return c.NeverStamp || c.Mode == DryRun }

// Run runs the Evictor alone, without a manager or an election, until the context ends.
func (e *Evictor) Run(ctx context.Context) error { return e.parts.Run(ctx) }

// AddTo adds the Evictor to a manager. Events run in every replica, as the caches must, so that a standby is warm and
// has seen when taints came. The controllers run only in the leader.
func (e *Evictor) AddTo(mgr manager.Manager) error { return e.parts.AddTo(mgr) }

// HasSynced reports whether everything that decisions need is known, so that the Evictor is ready to act or to stand
// by.
func (e *Evictor) HasSynced() bool {
	return !slices.ContainsFunc(e.known(), func(one cache.DoneChecker) bool { return !cache.IsDone(one) })
}

func (e *Evictor) known() []cache.DoneChecker {
	known := []cache.DoneChecker{e.nodes, e.pods}
	if e.config.Policies != nil {
		known = append(known, e.config.Policies)
	}
	return known
}

func (e *Evictor) judge() judge {
	return judge{rule: e.config.Rule, clock: e.config.Clock, policies: e.config.Policies}
}

func (e *Evictor) addControllers(metrics *metrics) error {
	calls := api{client: e.config.Client, limiter: e.config.Limiter, clock: e.config.Clock, writers: &writers{}}
	live := newLiveNodes(calls, e.config.Clock)
	judge := e.judge()
	x := &executor{
		judge: judge, mode: e.config.Mode, nodes: e.nodes, pods: e.pods, live: live, api: calls,
		queue: e.queue, decide: e.decider, events: e.events, metrics: metrics,
		builtIn: e.config.BuiltIn,
	}
	execute := manager.RunnableFunc(func(ctx context.Context) error {
		return x.run(logr.NewContext(ctx, e.config.Logger.WithName("eviction-execute")))
	})
	decide, err := stage.New(e.config.Logger, "eviction-decide", controller.TypedOptions[NodeRequest]{
		NewQueue: func(string, workqueue.TypedRateLimiter[NodeRequest]) workqueue.TypedRateLimitingInterface[NodeRequest] {
			return priorityqueue.New[NodeRequest](nodeQueue)
		},
		Reconciler: e.decider,
	}, nodeChanges{e: e})
	if err != nil {
		return err
	}
	e.parts.InLeader(decide, execute)
	return e.addWriters(judge, calls, live, metrics)
}

// addWriters adds the controllers that write marks, tolerations and timeAdded.
func (e *Evictor) addWriters(judge judge, calls api, live *liveNodes, metrics *metrics) error {
	err := cmp.Or(e.addReclaim(judge, calls), e.addKeeper(judge, calls, metrics))
	if err != nil || e.config.neverStamps() {
		return err
	}
	stamper := newStamper(judge, e.nodes, e.pods, live, calls, metrics)
	stamper.sparing = e.config.BuiltIn != nil
	stamp, err := stage.New(stage.QuietErrors(e.config.Logger), "eviction-stamp", controller.TypedOptions[NodeRequest]{
		MaxConcurrentReconciles: concurrentWrites,
		RateLimiter:             apicall.Wait[NodeRequest](stamper.wait),
		Reconciler:              stamper,
	}, nodeChanges{e: e, after: stampAfter})
	if err != nil {
		return err
	}
	e.parts.InLeader(stamp)
	return nil
}

func (e *Evictor) addReclaim(judge judge, calls api) error {
	if e.config.BuiltIn == nil && e.config.Policies == nil || e.config.Mode == DryRun {
		return nil
	}
	r := &reclaimer{judge: judge, nodes: e.nodes, pods: e.pods, api: calls, builtIn: e.config.BuiltIn != nil}
	reclaim, err := stage.New(e.config.Logger, "eviction-reclaim", controller.TypedOptions[PodRequest]{
		MaxConcurrentReconciles: concurrentWrites,
		RateLimiter:             apicall.RateLimiter[PodRequest](),
		Reconciler:              r,
	}, marks{e, r})
	if err != nil {
		return err
	}
	e.parts.InLeader(reclaim)
	return nil
}

func (e *Evictor) addKeeper(judge judge, calls api, metrics *metrics) error {
	if e.config.Mode == DryRun {
		return nil
	}
	keep, err := stage.New(stage.QuietErrors(e.config.Logger), "eviction-keep-alive", controller.TypedOptions[PodRequest]{
		MaxConcurrentReconciles: concurrentWrites,
		RateLimiter:             apicall.RateLimiter[PodRequest](),
		Reconciler: &keeper{
			judge: judge, nodes: e.nodes, pods: e.pods, api: calls, events: e.events, metrics: metrics,
			limiter: rate.NewLimiter(keptPerSecond, 1),
		},
	}, stays{e.decider})
	if err != nil {
		return err
	}
	e.parts.InLeader(keep)
	return nil
}

// nodeQueue is the name of the queue of nodes in the workqueue metrics: upstream's.
const nodeQueue = "noexec_taint_node"

// nodeChanges is the source of nodes to decide about: nodes whose taints change, and tainted nodes whose pods change or
// about whose pods policies give another answer.
type nodeChanges struct {
	e     *Evictor
	after time.Duration // the change
}

// String names the source in the log.
func (s nodeChanges) String() string {
	return "changes of NoExecute taints and of pods on tainted nodes"
}

// Start implements source.TypedSource.
func (s nodeChanges) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[NodeRequest]) error {
	s.e.pods.Subscribe(func(change podcache.Change) {
		if !concerns(change) {
			return
		}
		for _, pod := range []*podcache.Pod{change.Before, change.After} {
			if pod == nil {
				continue
			}
			if _, tainted := s.e.nodes.get(pod.Node); tainted {
				queue.AddAfter(NodeRequest{pod.Node}, s.after)
			}
		}
	})
	if policies := s.e.config.Policies; policies != nil {
		policies.Subscribe(func(node string) { queue.AddAfter(NodeRequest{node}, s.after) })
	}
	s.e.nodes.subscribe(func(name string) { queue.AddAfter(NodeRequest{name}, s.after) })
	return nil
}

// WaitForSync implements source.TypedSyncingSource.
func (s nodeChanges) WaitForSync(ctx context.Context) error {
	cache.WaitFor(ctx, "", s.e.known()...)
	return ctx.Err()
}
