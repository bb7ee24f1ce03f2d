// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

const (
	// updateEvery is how long changes are collected: pages get at most four updates a second.
	updateEvery = time.Second / 4
	// quiet is how long nothing is rendered if nothing changes.
	quiet = time.Hour
	// pingEvery is how often the API server is pinged, and pingTimeout how long it may take to respond.
	pingEvery   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// Config says what a board shows.
type Config struct {
	// Cluster names the cluster for people.
	Cluster string
	// Namespace is the namespace whose pods are shown. If it is empty, all pods are shown.
	Namespace string
	// Clients and Rules list and watch. They have no timeout.
	Clients kubernetes.Interface
	Rules   dynamic.Interface
	// Policies calls tell repeatedly until the context ends, with the EvictionPolicies and the objects that they need.
	Policies func(ctx context.Context, tell func(*state.Cluster, error))
	// Ping sends any request to the API server, and fails if it does not respond.
	Ping func(context.Context) error
	// Now returns the API server's time.
	Now func() time.Time
}

// Board is the known state of a cluster, for all pages that show it. One set of watches feeds it. Each open page
// receives what has changed since it last received something. Therefore a slow page skips intermediate states and
// delays nobody, and a page that reconnects receives everything.
type Board struct {
	config   Config
	follower *follow.Follower
	rows     *rows

	// Everything below belongs to the goroutine of the follower.
	live      state.Live
	pending   plan.Pending
	held      map[string]string // why node health does not taint nodes, by their names
	changed   map[string]bool   // the nodes whose rows may have changed
	waiting   map[types.UID]nodeEvent
	evictions []types.UID // those that are listed, newest last
	counted   map[types.UID]bool
	head      headRow
	sources   map[string]*currency
}

// headRow has everything that exists only once. Idle says that Taintkeeper does not evict, and what that means. It is
// empty if Taintkeeper evicts, or if that is not known.
type headRow struct {
	Evictions int    `json:"evictions"`
	Idle      string `json:"idle,omitempty"`
}

// New returns a board. Run starts it.
func New(config Config) *Board {
	b := &Board{
		config: config, follower: follow.New(updateEvery), rows: newRows(), pending: plan.Pending{Owner: (&state.Cluster{}).Owner},
		held: map[string]string{}, changed: map[string]bool{}, waiting: map[types.UID]nodeEvent{}, counted: map[types.UID]bool{},
		sources: map[string]*currency{},
	}
	b.follower.Also = []func(context.Context){b.pingServer, b.followPolicies}
	b.follower.Called, b.follower.Listed, b.follower.Act = b.called, b.listed, b.update
	return b
}

// Run watches the cluster until the context ends, and returns when everything has stopped.
func (b *Board) Run(ctx context.Context) {
	b.follower.Feeds = b.feeds()
	for _, feed := range b.follower.Feeds {
		b.source(feed.Kind) // the page says that it is being read
	}
	_ = b.follower.Run(ctx) // it never fails
}

// feeds are all watches.
func (b *Board) feeds() []follow.Feed {
	clients := b.config.Clients
	// client-go's recorder writes events on objects without a namespace there.
	nodeEvents := clients.CoreV1().Events(metav1.NamespaceDefault)
	warnings := fields.Set{"involvedObject.kind": "Node", "type": corev1.EventTypeWarning}.AsSelector()
	rules := b.config.Rules.Resource(v1alpha1.GroupVersion.WithResource(kindRules))
	rule := &unstructured.Unstructured{}
	rule.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeTaintRule"))
	return append(follow.ClusterFeeds(clients, b.config.Namespace, nil, b),
		follow.Feed{
			Kind: kindEvents, Client: clients, Object: &corev1.Event{},
			Calls: follow.CallsOf(nodeEvents.List, nodeEvents.Watch, warnings),
			Set:   follow.Only(b.setEvent), Gone: b.deleteEvent,
		},
		follow.Feed{
			Kind: kindRules, Client: b.config.Rules, Object: rule,
			Calls: follow.CallsOf(rules.List, rules.Watch, fields.Everything()),
			Set: follow.Only(func(rule *unstructured.Unstructured) {
				b.rows.put(tableRules+string(rule.GetUID()), map[string]any{
					"name": rule.GetName(), "spec": rule.Object["spec"], "status": rule.Object["status"],
				})
			}),
			Gone: func(uid types.UID, _ string, _ metav1.Object) { b.rows.remove(tableRules + string(uid)) },
		})
}

func (b *Board) followPolicies(ctx context.Context) {
	b.config.Policies(ctx, func(read *state.Cluster, err error) {
		b.follower.Do(ctx, func() { b.setPolicies(read, err) })
	})
}

// setPolicies updates who evicts, and the policies. Policies change what the board says about pods, but not which pods
// must leave.
func (b *Board) setPolicies(read *state.Cluster, err error) {
	if err == nil && b.live.Evictor != read.Evictor {
		b.live.Evictor, b.head.Idle = read.Evictor, read.Idle
		b.markAllChanged()
	}
	set := read.PoliciesOf()
	news := set != nil || b.pending.Policies != nil || len(read.Unread()) > 0 || b.sources[kindPolicies] != nil
	if !news || !b.policiesCalled(read.Unread(), err) {
		return
	}
	b.pending.Policies = set
	b.markAllChanged()
}

// pingServer pings until the context ends, because a watch can hang without an error.
func (b *Board) pingServer(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		at := b.config.Now()
		asking, cancel := context.WithTimeout(ctx, pingTimeout)
		err := b.config.Ping(asking)
		cancel()
		b.follower.Do(ctx, func() { b.pinged(at, err) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// update renders what has changed, and wakes all pages.
func (b *Board) update() time.Duration {
	b.renderHeld()
	if len(b.changed) > 0 {
		for name := range b.changed {
			b.renderNode(name)
		}
		clear(b.changed)
		b.renderZones()
	}
	b.renderSources()
	b.rows.put(tableHead, b.head)
	b.rows.notify()
	return quiet
}

// servedPage is the page that shows the board.
func (b *Board) servedPage() Page {
	return Page{
		Kind: board, Title: "Board: " + b.config.Cluster, Answer: "Reading the cluster.",
		Facts: []Fact{
			{Name: "Cluster", Value: b.config.Cluster, ID: "cluster"}, {Name: "Pods of", Value: cmp.Or(b.config.Namespace, "all namespaces")},
			{Name: "API server's clock", ID: "clock"},
		},
		Footer: "The board only reads, with your own rights. Press Ctrl-C in its terminal to stop it.",
	}
}
