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

	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
	"github.com/taintkeeper/taintkeeper/internal/plugin/who"
)

// evictors says why no controller has begun to evict some pods, and what to do. A missing Lease shows nothing, because
// a managed control plane may elect its leader elsewhere.
func (o *obstacles) evictors(ctx context.Context) error {
	known, err := o.reader.Who(ctx)
	if err != nil {
		return fmt.Errorf("cannot tell whether a controller evicts here: %w", err)
	}
	switch ours, builtIn := known.Eviction.Taintkeeper, known.Eviction.BuiltIn; {
	case ours.State == who.Running:
		return evicting(state.Taintkeeper)
	case ours.State == who.Unknown && known.Process.Held:
		return leading(known, known.Process.Lease, state.Taintkeeper, who.Eviction)
	case builtIn.State != who.NotRunning && known.BuiltInLease != nil:
		return leading(known, known.BuiltInLease, builtin.Program, builtin.TaintEviction[0])
	case !known.LeasesKnown:
		return errors.New("cannot tell whether a controller evicts here: you may not list leases; ask for the right to list them in all namespaces")
	case builtIn.State == who.Running:
		return evicting(builtin.Program)
	case ours.Why != "":
		return fmt.Errorf("cannot tell whether a controller evicts here: %s", ours.Why)
	}
	return noneEvicts(known)
}

// noneEvicts says why no controller evicts, as far as is known.
func noneEvicts(known *who.Answer) error {
	var stopped []string
	if known.Eviction.Taintkeeper.State == who.NotRunning {
		stopped = append(stopped, reason(known, known.Process.Lease, known.WhyNot()))
	}
	if known.Eviction.BuiltIn.State == who.NotRunning {
		without := builtin.Program + " runs without its " + builtin.TaintEviction[0]
		stopped = append(stopped, reason(known, known.BuiltInLease, without))
	}
	if len(stopped) > 0 {
		return fmt.Errorf("no running controller was found that evicts: %s; see the logs of the controller that should evict", strings.Join(stopped, ", and "))
	}
	return errors.New("no lease of taintkeeper or kube-controller-manager was found in any namespace; a managed control plane may hide its Lease: 'kubectl taintkeeper check' looks for other signs of which controller evicts")
}

// evicting is for a program that evicts, but not these pods.
func evicting(program string) error {
	return fmt.Errorf("%s evicts here, but it has not begun to evict these pods: check that no EvictionPolicy holds them, and that its clock is right", program)
}

// leading is for a program that runs, and perhaps evicts.
func leading(known *who.Answer, lease *coordinationv1.Lease, program, controller string) error {
	return fmt.Errorf("according to its Lease, %s is running, but it has not begun to evict these pods: %s; check that no EvictionPolicy holds them, that its --controllers include %s, and that its clock is right", program, renewed(lease, known.At), controller)
}

// reason says why a program does not evict: its Lease if that is the reason, or else why.
func reason(known *who.Answer, lease *coordinationv1.Lease, why string) string {
	if lease != nil && !state.IsHeld(lease, known.At) {
		return renewed(lease, known.At)
	}
	return why
}

// renewed says when a Lease was last renewed.
func renewed(lease *coordinationv1.Lease, now time.Time) string {
	ago := max(now.Sub(lease.Spec.RenewTime.Time), 0)
	return fmt.Sprintf("Lease %s/%s was last renewed %s ago", lease.Namespace, lease.Name, duration.HumanDuration(ago))
}
