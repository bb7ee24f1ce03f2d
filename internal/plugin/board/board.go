// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

// updateEvery is how long changes are gathered: pages are sent four updates a second at most.
const updateEvery = time.Second / 4

// Config says what a board shows.
type Config struct {
	// Cluster names the cluster for people.
	Cluster string
	// Namespace is the one whose pods are shown; empty: all.
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
	config  Config
	cluster *cluster

	mu   sync.Mutex
	news chan struct{} // closed when there is something new for pages
}

// New returns a board. Run makes it live.
func New(config Config) *Board {
	return &Board{
		config:  config,
		cluster: newCluster(headRow{Cluster: config.Cluster, Namespace: config.Namespace}, config.Now),
		news:    make(chan struct{}),
	}
}

// Run watches the cluster until the context ends, and returns when nothing of it runs any more.
func (b *Board) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.Discard()) // of a watch that breaks the page tells
	var running sync.WaitGroup
	defer running.Wait()
	for _, f := range b.cluster.feeds(b.config.Clients, b.config.Rules, b.config.Namespace) {
		b.cluster.begin(f.kind)
		running.Go(func() { b.cluster.run(ctx, f) })
	}
	running.Go(func() { b.cluster.pingServer(ctx, b.config.Ping) })
	running.Go(func() { b.config.Policies(ctx, b.cluster.setPolicies) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.cluster.news:
		}
		b.cluster.render()
		b.notify()
		select {
		case <-ctx.Done():
			return
		case <-time.After(updateEvery):
		}
	}
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
