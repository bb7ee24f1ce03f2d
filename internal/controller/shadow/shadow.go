// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shadow compares, pod by pod, when a pod must leave, according to taints and tolerations, with what
// Kubernetes' built-in taint eviction does. It changes nothing but its report.
//
// What the built-in does is read from the pods: it sets the condition DisruptionTarget with the reason
// DeletionByTaintManager, and then deletes. A pod that leaves without that mark was deleted by another client, and says
// nothing about the built-in.
//
//	comparison   one record for each pod that must leave, by UID: when, why, what happened to it, and the outcome
//	why          the sentence that explains a difference, from what was seen and what package builtin knows
//	report       the counts and the newest differences, as metrics, events, log and ConfigMap
//
// Both clocks are read to the second, so a difference of up to [Tolerance] does not count.
package shadow

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Config configures a Comparison.
type Config struct {
	// Client writes the report into Namespace. EventClient writes the events.
	Client, EventClient kubernetes.Interface
	Namespace           string
	// Nodes and Pods are the nodes and the bound pods. The caller runs these caches, next to the Comparison.
	Nodes *nodecache.Cache
	Pods  *podcache.Cache
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Clock is the timeline of the process, shared with Nodes and Pods.
	Clock *timeline.Clock
	// Registerer takes the metrics; nil means none are registered.
	Registerer prometheus.Registerer
	Logger     logr.Logger
}

// Comparison is shadow mode. Its memory follows what is tainted: a record is dropped when its pod left on time, or
// [remembered] after the comparison of the pod ended in another way.
type Comparison struct {
	config   Config
	timers   builtin.Timers
	events   *apicall.Recorder
	lateness prometheus.Histogram
	parts    stage.Parts

	mu        sync.Mutex
	began     time.Time // since when everything has been seen; earlier evictions are not judged
	byNode    map[string]map[types.UID]*expected
	overdue   int    // pods that are due and still exist
	evictions uint64 // all evictions by the built-in that were seen
	// predecessors are pods that had to leave and are gone, by name, because the built-in deletes by name.
	predecessors map[types.NamespacedName]*expected

	counts      map[v1alpha1.ShadowOutcome]int
	differences []v1alpha1.ShadowDifference // oldest first
	// announced is when there was an event of a kind on a node.
	announced map[string]time.Time
}

// New assembles a Comparison. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Comparison, error) {
	c := &Comparison{
		config: config, timers: builtin.Timers{Rule: config.Rule}, lateness: newLateness(),
		events:       apicall.NewRecorder("taintkeeper", config.EventClient),
		byNode:       map[string]map[types.UID]*expected{},
		predecessors: map[types.NamespacedName]*expected{},
		counts:       map[v1alpha1.ShadowOutcome]int{}, announced: map[string]time.Time{},
	}
	if err := c.register(); err != nil {
		return nil, err
	}
	c.parts.InEveryReplica(func(ctx context.Context) error { c.events.Run(ctx); return nil })
	c.parts.InLeader(manager.RunnableFunc(c.publish))
	options := controller.TypedOptions[string]{Reconciler: c}
	if err := stage.Add(&c.parts, config.Logger, "shadow-compare", options, c.nodesToExamine()); err != nil {
		return nil, err
	}
	return c, nil
}

// Run runs the Comparison alone, without a manager, until the context ends.
func (c *Comparison) Run(ctx context.Context) error { return c.parts.Run(ctx) }

// AddTo adds the Comparison to a manager.
func (c *Comparison) AddTo(mgr manager.Manager) error { return c.parts.AddTo(mgr) }

// HasSynced reports whether the caches are complete.
func (c *Comparison) HasSynced() bool { return c.config.Nodes.HasSynced() && c.config.Pods.HasSynced() }

// Reconcile compares for one node, and requeues it for when there can be something new to report.
func (c *Comparison) Reconcile(_ context.Context, node string) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: c.examine(node, c.config.Clock.Now())}, nil
}

// nodesToExamine is the source of nodes whose NoExecute taints change, and of nodes on which a pod that must leave, or
// had to, changes. The comparison begins when everything is seen.
func (c *Comparison) nodesToExamine() stage.Source[string] {
	begin := func(queue workqueue.TypedRateLimitingInterface[string]) {
		c.config.Pods.Subscribe(func(change podcache.Change) {
			c.observe(change, c.config.Clock.See())
			for _, pod := range []*podcache.Pod{change.Before, change.After} {
				if pod != nil && c.concerns(pod.Node) {
					queue.Add(pod.Node)
				}
			}
		})
		c.config.Nodes.SubscribeTaints(queue.Add)
	}
	wait := func(ctx context.Context) error {
		if cache.WaitFor(ctx, "", c.config.Nodes, c.config.Pods) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.began = c.config.Clock.Now()
		}
		return ctx.Err()
	}
	return stage.Source[string]{Of: "changes of NoExecute taints and of pods that must leave", To: begin, Wait: wait}
}

// concerns reports whether a node has a NoExecute taint, or a pod that had to leave.
func (c *Comparison) concerns(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byNode[node]) > 0 || len(c.taints(node)) > 0
}
