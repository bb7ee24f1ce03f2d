// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/stage"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// Path is where the report is served, next to the metrics.
const Path = "/shadow"

// Config configures a Comparison.
type Config struct {
	// EventClient writes the events.
	EventClient kubernetes.Interface
	// Nodes and Pods are the nodes and the bound pods. The caller runs these caches, next to the Comparison.
	Nodes *nodecache.Cache
	Pods  *podcache.Cache
	// Rule decides; the zero value is Kubernetes' default.
	Rule verdict.Rule
	// Clock is the timeline of the process, shared with Nodes and Pods. The default is a Clock of its own, which sees no
	// Date headers.
	Clock *timeline.Clock
	// Registerer takes the metrics; nil means none are registered.
	Registerer prometheus.Registerer
	// Logger defaults to one that discards.
	Logger logr.Logger
}

func (c *Config) complete() error {
	if c.EventClient == nil || c.Nodes == nil || c.Pods == nil {
		return errors.New("a Comparison needs an EventClient, Nodes and Pods")
	}
	if c.Clock == nil {
		c.Clock = &timeline.Clock{}
	}
	if c.Logger.GetSink() == nil {
		c.Logger = logr.Discard()
	}
	return nil
}

// Comparison combines all parts of shadow mode: events and a controller.
type Comparison struct {
	clock    *timeline.Clock
	verdicts *eviction.Verdicts
	nodes    *nodecache.Cache
	pods     *podcache.Cache
	promises *promises
	parts    stage.Parts
}

// New assembles a Comparison. Nothing runs before Run is called or a manager to which it was added starts.
func New(config Config) (*Comparison, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	c := &Comparison{clock: config.Clock, nodes: config.Nodes, pods: config.Pods}
	teller := newTeller(config.Logger, config.EventClient)
	c.parts.InEveryReplica(func(ctx context.Context) error { teller.Run(ctx); return nil })
	c.verdicts = eviction.NewVerdicts(eviction.VerdictsConfig{Nodes: c.nodes, Rule: config.Rule, Clock: config.Clock})
	c.promises = newPromises(c.clock, c.verdicts, c.pods, newReport(), teller)
	if config.Registerer != nil {
		backlog := func() (int, int) { return c.promises.backlog(c.clock.Now()) }
		if err := c.promises.report.metrics.register(config.Registerer, backlog); err != nil {
			return nil, fmt.Errorf("register the metrics: %w", err)
		}
	}
	compare, err := stage.New(config.Logger, "shadow-compare", controller.TypedOptions[eviction.NodeRequest]{
		Reconciler: c,
	}, changes{c})
	if err != nil {
		return nil, err
	}
	c.parts.InLeader(compare)
	return c, nil
}

// Run runs the Comparison alone, without a manager, until the context ends.
func (c *Comparison) Run(ctx context.Context) error { return c.parts.Run(ctx) }

// AddTo adds the Comparison to a manager, and its report to the manager's server of metrics.
func (c *Comparison) AddTo(mgr manager.Manager) error {
	if err := mgr.AddMetricsServerExtraHandler(Path, c.Handler()); err != nil {
		return fmt.Errorf("serve the report: %w", err)
	}
	return c.parts.AddTo(mgr)
}

// HasSynced reports whether the caches are complete.
func (c *Comparison) HasSynced() bool { return c.nodes.HasSynced() && c.pods.HasSynced() }

// Report returns the result of the comparison so far.
func (c *Comparison) Report() Report {
	at := c.clock.Now()
	report := Report{
		TypeMeta: metav1.TypeMeta{APIVersion: reportAPIVersion, Kind: reportKind},
		Time:     metav1.NewTime(c.clock.Shown(at)),
	}
	c.promises.fill(&report, at)
	return report
}

// Reconcile compares for one node, and requeues it for when there can be something new to report.
func (c *Comparison) Reconcile(_ context.Context, req eviction.NodeRequest) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: c.promises.examine(req.Name, c.clock.Now())}, nil
}

// changes is the source of nodes to look at: nodes whose NoExecute taints change, and nodes on which a pod that must
// leave, or had to, changes.
type changes struct{ c *Comparison }

// String names the source in the log.
func (s changes) String() string { return "changes of NoExecute taints and of pods that must leave" }

// Start implements source.TypedSource.
func (s changes) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[eviction.NodeRequest]) error {
	s.c.pods.Subscribe(func(change podcache.Change) {
		s.c.promises.observe(change, s.c.clock.See())
		for _, pod := range []*podcache.Pod{change.Before, change.After} {
			if pod != nil && (len(s.c.verdicts.Taints(pod.Node)) > 0 || s.c.promises.knows(pod.Node)) {
				queue.Add(eviction.NodeRequest{Name: pod.Node})
			}
		}
	})
	s.c.verdicts.Subscribe(func(node string) { queue.Add(eviction.NodeRequest{Name: node}) })
	return nil
}

// WaitForSync implements source.TypedSyncingSource. The comparison begins when everything is seen.
func (s changes) WaitForSync(ctx context.Context) error {
	cache.WaitFor(ctx, "", s.c.nodes, s.c.pods)
	if ctx.Err() == nil {
		s.c.promises.begin(s.c.clock.Now())
	}
	return ctx.Err()
}
