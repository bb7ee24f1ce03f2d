// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/tainteviction"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/eviction"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	rig "github.com/taintkeeper/taintkeeper/test/rig/world"
	"github.com/taintkeeper/taintkeeper/verdict"
)

// contestant evicts, from its start until the context ends: one process of a controller.
type contestant func(ctx context.Context, client *fake.Clientset) error

// ours is Taintkeeper's complete controller.
func ours(ctx context.Context, client *fake.Clientset) error { return oursWith(ctx, client) }

// oursWith is our controller, which knows the API server's clock.
func oursWith(ctx context.Context, client kubernetes.Interface) error {
	clock := &timeline.Clock{}
	bubble.Tell(clock)
	go bubble.KeepTelling(ctx, clock)
	return runEvictor(ctx, eviction.Config{
		Client: client, Clock: clock,
		Rule: verdict.Rule{Matcher: taints.Matcher{ComparisonOperators: comparisonOperators()}},
	})
}

// runEvictor runs an Evictor with caches of its own.
func runEvictor(ctx context.Context, config eviction.Config) error {
	if config.Clock == nil {
		config.Clock = &timeline.Clock{}
	}
	caches := rig.NewCaches(config.Client, config.Clock, false)
	config.Nodes, config.Pods = caches.Nodes, caches.Pods
	evictor, err := eviction.New(config)
	if err != nil {
		return fmt.Errorf("assemble the Evictor: %w", err)
	}
	return caches.With(evictor.Run)(ctx)
}

// upstream is kube-controller-manager's controller, with the index that it needs and that there
// the node-lifecycle controller or the daemonset controller adds.
func upstream(ctx context.Context, client *fake.Clientset) error { return upstreamWith(ctx, client) }

func upstreamWith(ctx context.Context, client kubernetes.Interface) error {
	return runUpstream(ctx, client, cache.Indexers{"spec.nodeName": func(object any) ([]string, error) {
		if pod, ok := object.(*corev1.Pod); ok {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
}

func runUpstream(ctx context.Context, client kubernetes.Interface, index cache.Indexers) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	defer factory.Shutdown()
	pods, nodes := factory.Core().V1().Pods(), factory.Core().V1().Nodes()
	if err := pods.Informer().AddIndexers(index); err != nil {
		return fmt.Errorf("add the index: %w", err)
	}
	controller, err := tainteviction.New(ctx, client, pods, nodes, "taint-eviction-controller")
	if err != nil {
		return fmt.Errorf("make upstream's controller: %w", err)
	}
	factory.StartWithContext(ctx)
	cache.WaitFor(ctx, "", pods.Informer().HasSyncedChecker(), nodes.Informer().HasSyncedChecker())
	controller.Run(ctx)
	return nil
}
