// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"

	"github.com/taintkeeper/taintkeeper/internal/nodehealth"
)

// contestant looks after the nodes of a world, from its start until the context ends: one process of
// a controller.
type contestant func(ctx context.Context, w *world) error

// ours is Taintkeeper's node health, whole.
func ours(ctx context.Context, w *world) error {
	keeper, err := nodehealth.New(nodehealth.Config{Client: w.client, Grace: grace, Policy: policy})
	if err != nil {
		return fmt.Errorf("assemble the Keeper: %w", err)
	}
	return keeper.Run(ctx)
}
