// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/caches"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
)

// evictor is an Evictor that runs in this process.
type evictor struct {
	faults  *proxy.Faults
	metrics *prometheus.Registry
	synced  func() bool
	// stop stops the Evictor, as SIGTERM stops the process, and waits until it has ended.
	stop func() error
}

// newEvictor starts an Evictor as the binary would, except for the faults in its transport.
func newEvictor(ctx context.Context, faults *proxy.Faults, configure ...func(*eviction.Config)) (*evictor, error) {
	e := &evictor{faults: faults, metrics: prometheus.NewRegistry()}
	clock := &timeline.Clock{}
	config := clock.Listen(userConfig)
	config.Wrap(faults.Over)
	client, err := kubernetes.NewForConfig(apicall.Config(config))
	if err != nil {
		return nil, err
	}
	caches := caches.New(client, clock, false)
	settings := eviction.Config{Client: client, Nodes: caches.Nodes, Pods: caches.Pods, Clock: clock, Registerer: e.metrics}
	for _, change := range configure {
		change(&settings)
	}
	running, err := eviction.New(settings)
	if err != nil {
		return nil, err
	}
	e.synced = running.HasSynced
	e.stop = background(ctx, caches.With(running.Run))
	return e, nil
}

// background runs something until the function that it returns is called, which waits for its end
// and returns its error. That may be called again.
func background(ctx context.Context, run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}

// alone starts an Evictor that is the only one in the cluster until the test ends or stops it.
// Tests that use it must not be parallel.
func alone(t *testing.T, faults *proxy.Faults, configure ...func(*eviction.Config)) *evictor {
	t.Helper()
	if theResident != nil {
		t.Fatal("the parallel tests' Evictor runs already: a test with parallel subtests must be parallel itself")
	}
	e, err := newEvictor(context.WithoutCancel(t.Context()), faults, configure...)
	await.Must(t, err)
	t.Cleanup(func() {
		if err := e.stop(); err != nil {
			t.Errorf("the Evictor ended with an error: %v", err)
		}
	})
	ready(t, e)
	return e
}

// The Evictor that the parallel tests share. They begin when all others are over.
var (
	residentOnce sync.Once
	residentErr  error
	theResident  *evictor
)

// resident makes the test parallel and returns the Evictor that it shares with others. A test whose
// subtests use it must use it too: otherwise they would begin before the tests that run alone.
func resident(t *testing.T) *evictor {
	t.Helper()
	t.Parallel()
	residentOnce.Do(func() { theResident, residentErr = newEvictor(context.WithoutCancel(t.Context()), &proxy.Faults{}) })
	await.Must(t, residentErr)
	ready(t, theResident)
	return theResident
}

// stopResident ignores how the Evictor ended: that is up to the tests that use it.
func stopResident() error {
	if theResident != nil {
		_ = theResident.stop()
	}
	return nil
}

func ready(t *testing.T, e *evictor) {
	t.Helper()
	await.Eventually(t, "the caches are complete", func(context.Context) error {
		if !e.synced() {
			return errors.New("they are not")
		}
		return nil
	})
}
