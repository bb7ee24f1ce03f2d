// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taintcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

// evictors says, judging by the Leases of both controllers, why neither has probably begun to evict, and what to do. A
// renewed Lease shows that a program runs, but not that it evicts. A missing Lease shows nothing, because a managed
// control plane may elect its leader elsewhere.
func (o *obstacles) evictors(ctx context.Context) error {
	var stopped []string
	var unknown error
	for _, program := range []string{plan.Taintkeeper, plan.ControllerManager} {
		newest, err := o.newestLease(ctx, program)
		switch {
		case err != nil:
			unknown = errors.Join(unknown, err)
		case newest == nil:
		case plan.IsRenewed(newest, o.now()):
			return fmt.Errorf("according to its Lease, %s is running, but it has not begun to evict these pods: %s; check that no EvictionPolicy holds them, that its --controllers include %s, and that its clock is right", program, renewed(newest, o.now()), controllers[program])
		default:
			stopped = append(stopped, renewed(newest, o.now()))
		}
	}
	switch {
	case source.IsUnreadable(unknown):
		return errors.New("cannot tell whether a controller evicts here: you may not list leases; ask for the right to list them in all namespaces")
	case unknown != nil:
		return fmt.Errorf("cannot tell whether a controller evicts here: %w", unknown)
	case len(stopped) > 0:
		return fmt.Errorf("no running controller was found that evicts: %s; see the logs of the controller that should evict", strings.Join(stopped, ", and "))
	}
	return errors.New("no lease of taintkeeper or kube-controller-manager was found in any namespace; a managed control plane may hide its Lease: 'kubectl taintkeeper check' looks for other signs of which controller evicts")
}

// controllers are the names by which each program's --controllers lists the controller that evicts.
var controllers = map[string]string{
	plan.Taintkeeper:       "eviction",
	plan.ControllerManager: "taint-eviction-controller",
}

// newestLease returns the Lease of a program that was renewed last, or nil if there is none.
func (o *obstacles) newestLease(ctx context.Context, program string) (*coordinationv1.Lease, error) {
	var found plan.Signs
	err := o.reader.Lease(ctx, program, found.AddLease)
	return found.NewestLease(o.reader.Cluster.Election(program)), err
}

// renewed says when a Lease was last renewed.
func renewed(lease *coordinationv1.Lease, now time.Time) string {
	ago := max(now.Sub(lease.Spec.RenewTime.Time), 0)
	return fmt.Sprintf("Lease %s/%s was last renewed %s ago", lease.Namespace, lease.Name, duration.HumanDuration(ago))
}
