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
// and three small controllers:
//
//	stamp       keyed by node: writes the timeAdded of NoExecute taints, so that deadlines survive this process
//	reclaim     keyed by pod: corrects a condition DisruptionTarget that is wrong
//	keep-alive  keyed by pod: adds tolerations to due pods that stay, so that they survive a restart of their kubelet
//
// It stores nothing else. When a pod is due follows from what the API server has, according to package verdict.
//
// The files, besides eviction.go, which puts everything together:
//
//	decide.go       which pods of a node must leave, and whether policies object
//	queue.go        the Backlog, with a clock and a lock
//	evict.go        one try, from the first call to how it ended: it deletes the pod, or asks the Eviction API
//	live.go         what everything that writes shares, live reads of nodes, and what they confirm
//	keepalive.go, stamp.go
//	                what else is written: tolerations of pods that stay, wrong conditions, timeAdded
//	api.go          all API calls
//	trouble.go      what an error means
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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/backlog"
	"github.com/taintkeeper/taintkeeper/internal/instant"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/verdict"
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
	judge

	config  Config
	parts   stage.Parts
	queue   *queue
	decider *decider
}

// New assembles an Evictor. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Evictor, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	e := &Evictor{config: config, judge: judge{
		nodes: config.Nodes, pods: config.Pods, rule: config.Rule, clock: config.Clock, policies: config.Policies,
	}}
	calls := api{client: config.Client, limiter: config.Limiter, clock: config.Clock}
	w := writer{
		judge: e.judge, api: calls, live: newLiveNodes(calls, config.Clock), writers: &writers{},
		events: newEvents(config.Mode, config.EventClient, config.Clock), metrics: newMetrics(),
	}
	e.parts.InEveryReplica(func(ctx context.Context) error { w.events.Run(ctx); return nil })
	lanes := backlog.Lanes{backlog.Delete: backlog.LimitsFor(config.ConcurrentEvictions), backlog.Ask: backlog.AskLimits}
	e.queue = newQueue(lanes, config.Clock, e.there)
	e.decider = &decider{
		judge: e.judge, queue: e.queue, events: w.events, metrics: w.metrics, builtIn: config.BuiltIn,
		leaving: map[string]bool{}, held: map[string]map[types.UID]heldPod{},
	}
	if err := w.metrics.register(config.Registerer, backlogCollector{e.decider}); err != nil {
		return nil, err
	}
	if err := e.addControllers(w); err != nil {
		return nil, err
	}
	return e, nil
}

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
	if e.policies != nil {
		known = append(known, e.policies)
	}
	return known
}

// waitForKnown returns when HasSynced, or when the context ends.
func (e *Evictor) waitForKnown(ctx context.Context) error {
	cache.WaitFor(ctx, "", e.known()...)
	return ctx.Err()
}

// addControllers adds the controllers: what decides, what carries that out, and what writes marks, tolerations and
// timeAdded.
func (e *Evictor) addControllers(w writer) error {
	log, quiet := e.config.Logger, stage.QuietErrors(e.config.Logger)
	decides := e.nodesToDecide(0)
	begin := decides.To
	decides.To = func(queue workqueue.TypedRateLimitingInterface[NodeRequest]) {
		e.decider.requestFrom(queue)
		begin(queue)
	}
	err := stage.Add(&e.parts, log, "eviction-decide", controller.TypedOptions[NodeRequest]{
		NewQueue: func(string, workqueue.TypedRateLimiter[NodeRequest]) workqueue.TypedRateLimitingInterface[NodeRequest] {
			return priorityqueue.New[NodeRequest](nodeQueue)
		},
		Reconciler: e.decider,
	}, decides)
	x := &executor{
		writer: w, mode: e.config.Mode, queue: e.queue, decide: e.decider, builtIn: e.config.BuiltIn,
	}
	e.parts.InLeader(manager.RunnableFunc(func(ctx context.Context) error {
		return x.runTries(logr.NewContext(ctx, log.WithName("eviction-execute")))
	}))
	if e.config.Mode == DryRun {
		return err
	}
	onPods := func(by reconcile.TypedReconciler[PodRequest]) controller.TypedOptions[PodRequest] {
		return controller.TypedOptions[PodRequest]{
			MaxConcurrentReconciles: concurrentWrites, RateLimiter: apicall.RateLimiter[PodRequest](), Reconciler: by,
		}
	}
	if e.config.BuiltIn != nil || e.policies != nil {
		r := &reclaimer{writer: w, builtIn: e.config.BuiltIn != nil}
		err = cmp.Or(err, stage.Add(&e.parts, log, "eviction-reclaim", onPods(r), e.podsToReclaim(r)))
	}
	k := &keepAlive{writer: w, limiter: rate.NewLimiter(keptPerSecond, 1)}
	err = cmp.Or(err, stage.Add(&e.parts, quiet, "eviction-keep-alive", onPods(k), e.podsToKeepAlive()))
	if !e.config.NeverStamp {
		s := newStamper(w, e.config.BuiltIn != nil)
		err = cmp.Or(err, stage.Add(&e.parts, quiet, "eviction-stamp", controller.TypedOptions[NodeRequest]{
			MaxConcurrentReconciles: concurrentWrites, RateLimiter: apicall.Wait[NodeRequest](s.wait), Reconciler: s,
		}, e.nodesToDecide(stampAfter)))
	}
	return err
}

// nodeQueue is the name of the queue of nodes in the workqueue metrics: upstream's.
const nodeQueue = "noexec_taint_node"

// nodesToDecide is the source of nodes to decide about, some time after the change: nodes whose taints change, and
// tainted nodes whose pods change or about whose pods policies give another answer.
func (e *Evictor) nodesToDecide(after time.Duration) stage.Source[NodeRequest] {
	begin := func(queue workqueue.TypedRateLimitingInterface[NodeRequest]) {
		add := func(node string) { queue.AddAfter(NodeRequest{node}, after) }
		e.pods.Subscribe(func(change podcache.Change) {
			if !concerns(change) {
				return
			}
			for _, pod := range []*podcache.Pod{change.Before, change.After} {
				if pod == nil {
					continue
				}
				if _, tainted := e.nodes.Tainted(pod.Node); tainted {
					add(pod.Node)
				}
			}
		})
		if e.policies != nil {
			e.policies.Subscribe(add)
		}
		e.nodes.SubscribeTaints(add)
	}
	return stage.Source[NodeRequest]{
		Of: "changes of NoExecute taints and of pods on tainted nodes", To: begin, Wait: e.waitForKnown,
	}
}

// Overdue are the pods of a node that are due, not held by a policy, and still there.
type Overdue struct {
	Pods  int
	Since time.Time // the first of them is due, on the timeline
}

// Overdue returns the pods that are due, not held by a policy, and still there, by the names of their nodes. It
// includes pods that became due after the Evictor was stopped.
func (e *Evictor) Overdue() map[string]Overdue {
	all := map[string]Overdue{}
	for node, leaving := range e.queue.due() {
		var on Overdue
		for _, l := range leaving {
			pod, ok := e.pods.There(l.UID)
			if !ok {
				continue
			}
			if _, held, _ := e.held(pod); !held {
				on = Overdue{Pods: on.Pods + 1, Since: instant.Next(on.Since, l.Due)}
			}
		}
		if on.Pods > 0 {
			all[node] = on
		}
	}
	return all
}

// Spares reports whether a pod may stay on a node as the API server shows it now, although, as far as the Evictor last
// knew, the pod was due. A taint that the Evictor did not know counts from now on.
func (e *Evictor) Spares(live *corev1.Node) bool {
	at := e.config.Clock.Now()
	var known []verdict.Taint
	if state, ok := e.nodes.Tainted(live.Name); ok && state.UID == live.UID {
		known = state.NoExecute
	}
	var all []verdict.Taint
	for _, taint := range taints.NoExecute(live.Spec.Taints) {
		is := verdict.Taint{Taint: taint, Since: at}
		same := func(k verdict.Taint) bool { return k.Key == taint.Key && k.Value == taint.Value }
		if i := slices.IndexFunc(known, same); i >= 0 {
			is = known[i]
		}
		all = append(all, is)
	}
	for _, l := range e.queue.dueOn(live.Name) {
		if pod, ok := e.pods.There(l.UID); ok && !e.config.Rule.Decide(pod.Rule(), all).DueAt(at) {
			return true
		}
	}
	return false
}

// Stalled reports whether a pod that was never tried has been due for longer than the given time, and nothing else was
// tried in that time either. In that case, something is wrong with this process.
func (e *Evictor) Stalled(after time.Duration) bool {
	s, now := e.queue.stats()
	return !s.Untried.IsZero() && now.Sub(s.Untried) > after && now.Sub(s.Begun) > after
}

// Versions returns the resourceVersions that the watches of nodes and of pods have reached. If the watches work, these
// change about once a minute, with bookmarks, though the first comes only after two minutes.
func (e *Evictor) Versions() []string {
	return []string{e.nodes.LastSyncResourceVersion(), e.pods.LastSyncResourceVersion()}
}
