// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

// Stalls measures, from its first call until the cluster stops, for how long this machine and the API server stall.
// Measurements of speed do without it, because it reads a Lease all the time.
func (c *Cluster) Stalls() *stall.Meter { return c.stalls() }

// prepareMeter lets the first call of Stalls start a meter.
func (c *Cluster) prepareMeter(ctx context.Context) {
	ctx, c.endMeter = context.WithCancel(context.WithoutCancel(ctx))
	c.stalls = sync.OnceValue(func() *stall.Meter {
		leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		return stall.Start(ctx, func(ctx context.Context) error {
			_, err := leases.Get(ctx, "stall-meter", metav1.GetOptions{}) // it need not exist
			return err
		})
	})
}
