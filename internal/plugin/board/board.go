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
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// updateEvery is how long changes are gathered: pages are sent four updates a second at most.
const updateEvery = time.Second / 4

// quiet is for how long nothing is rendered if nothing changes.
const quiet = time.Hour

// Config says what a board shows.
type Config struct {
	// Cluster names the cluster for people.
	Cluster string
	// Namespace is the namespace whose pods are shown. If it is empty, all are.
	Namespace string
	// Clients and Rules list and watch; they have no timeout.
	Clients kubernetes.Interface
	Rules   dynamic.Interface
	// Policies tells again and again until the context ends what the EvictionPolicies are, with what they ask for.
	Policies func(ctx context.Context, tell func(*plan.Cluster, error))
	// Ping asks the API server for anything, and fails if it does not answer.
	Ping func(context.Context) error
	// Now is the API server's clock.
	Now func() time.Time
}

// Board is what is known of a cluster, for all pages that show it.
type Board struct {
	config   Config
	cluster  *cluster
	follower *follow.Follower

	mu   sync.Mutex
	news chan struct{} // closed when there is something new for pages
}

// New returns a board. Run makes it live.
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

// Run watches the cluster until the context ends, and returns when nothing of it runs any more.
func (b *Board) Run(ctx context.Context) {
	b.follower.Feeds = b.cluster.feeds(b.config.Clients, b.config.Rules, b.config.Namespace)
	for _, feed := range b.follower.Feeds {
		b.cluster.source(feed.Kind) // which the page says is being read
	}
	_ = b.follower.Run(ctx) // nothing stops it with an error
}

func (b *Board) followPolicies(ctx context.Context) {
	b.config.Policies(ctx, func(read *plan.Cluster, err error) {
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

// next returns what a page lacks, and a channel that is closed when there is more.
func (b *Board) next(p *page) (update, <-chan struct{}) {
	b.mu.Lock()
	news := b.news
	b.mu.Unlock()
	return b.cluster.changesFor(p), news
}
