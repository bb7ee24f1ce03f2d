// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/internal/plugin/follow"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// updateEvery is how long changes are collected: pages get at most four updates a second.
const updateEvery = time.Second / 4

// quiet is how long nothing is rendered if nothing changes.
const quiet = time.Hour

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

// Board is the known state of a cluster, for all pages that show it.
type Board struct {
	config   Config
	cluster  *cluster
	follower *follow.Follower

	mu   sync.Mutex
	news chan struct{} // closed when there is something new for pages
}

// New returns a board. Run starts it.
func New(config Config) *Board {
	b := &Board{
		config:   config,
		cluster:  newCluster(headRow{Cluster: config.Cluster, Namespace: config.Namespace}, config.Now),
		follower: follow.New(updateEvery),
		news:     make(chan struct{}),
	}
	b.follower.Also = []func(context.Context){b.pingServer, b.followPolicies}
	b.follower.Called, b.follower.Listed, b.follower.Act = b.cluster.called, b.cluster.listed, b.update
	return b
}

// Run watches the cluster until the context ends, and returns when everything has stopped.
func (b *Board) Run(ctx context.Context) {
	b.follower.Feeds = b.cluster.feeds(b.config.Clients, b.config.Rules, b.config.Namespace)
	for _, feed := range b.follower.Feeds {
		b.cluster.source(feed.Kind) // the page says that it is being read
	}
	_ = b.follower.Run(ctx) // it never fails
}

func (b *Board) followPolicies(ctx context.Context) {
	b.config.Policies(ctx, func(read *state.Cluster, err error) {
		b.follower.Do(ctx, func() { b.cluster.setPolicies(read, err) })
	})
}

// update renders what has changed, and wakes all pages.
func (b *Board) update() time.Duration {
	b.cluster.render()
	b.notify()
	return quiet
}

// notify wakes all pages.
func (b *Board) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.news)
	b.news = make(chan struct{})
}

// next returns what a page has not received yet, and a channel that is closed when there is more.
func (b *Board) next(p *page) (update, <-chan struct{}) {
	b.mu.Lock()
	news := b.news
	b.mu.Unlock()
	return b.cluster.changesFor(p), news
}
