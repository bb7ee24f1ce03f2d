// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/taintkeeper/taintkeeper/internal/stage"
)

// togetherWithin is how long changes of nodes are gathered before the rules are planned again.
const togetherWithin = 250 * time.Millisecond

// addRules adds the watch of the rules and their controller.
func (k *Keeper) addRules(calls api, metrics *metrics) error {
	requests := &ruleRequests{nodes: k.nodes.cache, orphans: k.wakeOwners}
	watch, err := newRuleWatch(k.config.Rules, k.config.Logger, requests.ruleChanged)
	if err != nil {
		return fmt.Errorf("prepare the watch of rules: %w", err)
	}
	requests.watch = watch
	k.rules.exists, k.rules.listed, k.rules.replan = watch.exists, watch.listed, requests.again
	k.ruleRequests = requests
	k.play.Everywhere(func(ctx context.Context) error { watch.run(ctx); return nil })
	plan, err := stage.New(k.config.Logger, "node-health-rule", controller.TypedOptions[RuleRequest]{
		Reconciler: &ruler{
			dryRun: k.config.DryRun, nodes: k.nodes, watch: watch, book: k.rules, api: calls, client: k.config.Rules,
			events: k.events, metrics: metrics, wake: k.looks.add,
			backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[RuleRequest](firstBackoff, lastBackoff),
		},
	}, requests)
	if err != nil {
		return err
	}
	k.play.Leading(plan)
	return nil
}

// wakeOwners makes all nodes be looked at that have a taint from a rule.
func (k *Keeper) wakeOwners() {
	for _, node := range k.nodes.all() {
		if len(ownedBy(node)) > 0 {
			k.looks.add(node.Name)
		}
	}
}

// ruleRequests is the way of rules into the queue of their controller. What comes before it starts needs
// not be kept: all rules are asked for then.
type ruleRequests struct {
	nodes   cache.DoneChecker
	watch   *ruleWatch
	orphans func() // is called when all rules are known

	mu        sync.Mutex
	queue     workqueue.TypedRateLimitingInterface[RuleRequest]
	gathering bool // changes of nodes
}

// String names the source in the log.
func (r *ruleRequests) String() string { return "rules that changed, or whose nodes did" }

// Start implements source.TypedSource.
func (r *ruleRequests) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[RuleRequest]) error {
	r.mu.Lock()
	r.queue = queue
	r.mu.Unlock()
	go func() {
		if cache.WaitFor(ctx, "", r.watch.handler.HasSyncedChecker(), r.nodes) {
			r.everyRule()
			r.orphans()
		}
	}()
	return nil
}

// WaitForSync implements source.TypedSyncingSource: nothing is planned before the nodes are known.
func (r *ruleRequests) WaitForSync(ctx context.Context) error {
	cache.WaitFor(ctx, "", r.nodes)
	return ctx.Err()
}

// ruleChanged asks for a plan of every rule: what becomes of one can decide about another with its taint.
func (r *ruleRequests) ruleChanged(name string) {
	r.add(name, 0)
	r.everyRule()
}

// nodesChanged asks for plans of all rules within a short while, once for all nodes that change in it.
func (r *ruleRequests) nodesChanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gathering || r.queue == nil {
		return
	}
	r.gathering = true
	time.AfterFunc(togetherWithin, func() {
		r.mu.Lock()
		r.gathering = false
		r.mu.Unlock()
		r.everyRule()
	})
}

// again asks for another plan of one rule within a short while.
func (r *ruleRequests) again(name string) { r.add(name, togetherWithin) }

func (r *ruleRequests) everyRule() {
	for _, name := range r.watch.informer.GetStore().ListKeys() {
		r.add(name, 0)
	}
}

func (r *ruleRequests) add(name string, in time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		r.queue.AddAfter(RuleRequest{name}, in)
	}
}
