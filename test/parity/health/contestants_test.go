// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/internal/controller/nodehealth"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
	rig "github.com/taintkeeper/taintkeeper/test/rig/world"
)

// contestant looks after the nodes of a world, from its start until the context ends: one process of
// a controller.
type contestant func(ctx context.Context, w *world) error

// ours is Taintkeeper's complete node health.
func ours(ctx context.Context, w *world) error { return oursWith(ctx, w, func(*nodehealth.Config) {}) }

// oursWith is ours, set up differently. It knows the API server's clock.
func oursWith(ctx context.Context, w *world, change func(*nodehealth.Config)) error {
	clock := &timeline.Clock{}
	bubble.Tell(clock)
	go bubble.KeepTelling(ctx, clock)
	caches := rig.NewCaches(w.client, clock, false)
	config := nodehealth.Config{
		Client: w.client, Nodes: caches.Nodes, Pods: caches.Pods, Clock: clock, Grace: grace, Policy: policy,
	}
	change(&config)
	health, err := nodehealth.New(config)
	if err != nil {
		return fmt.Errorf("assemble the Controller: %w", err)
	}
	return caches.With(health.Run)(ctx)
}
