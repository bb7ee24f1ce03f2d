// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package who

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/duration"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/builtin"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// WhyNot says why Taintkeeper does not evict, or why that is not known, as the beginning of a sentence. It is empty if
// Taintkeeper evicts.
func (a *Answer) WhyNot() string {
	p, evicts := &a.Process, &a.Eviction.Taintkeeper
	switch {
	case evicts.State == Running:
		return ""
	case p.Mode == cliv1alpha1.ModeShadow:
		return "Taintkeeper runs in shadow mode"
	case p.Mode == cliv1alpha1.ModeDryRun:
		return "Taintkeeper runs in dry-run mode"
	case p.State == Running && evicts.State == NotRunning:
		return "Taintkeeper runs without the eviction controller"
	case p.State == Running:
		return "It is not known whether Taintkeeper evicts (" + evicts.Why + ")"
	case p.State == Unknown && p.Why != "":
		return "It is not known whether Taintkeeper is running (" + p.Why + ")"
	case p.State == Unknown:
		return "It is not known whether Taintkeeper is running"
	case p.Lease == nil:
		return "Taintkeeper is not running, or runs without leader election"
	case holder(p.Lease) == "":
		return fmt.Sprintf("Taintkeeper is not running (no replica holds Lease %s/%s)", p.Lease.Namespace, p.Lease.Name)
	}
	ago := duration.HumanDuration(max(a.At.Sub(p.Lease.Spec.RenewTime.Time), 0))
	return fmt.Sprintf("Taintkeeper is not running (Lease %s/%s was last renewed %s ago)", p.Lease.Namespace, p.Lease.Name, ago)
}

// NoHolds says that policies hold no pods because Taintkeeper does not evict. It is empty if Taintkeeper evicts.
func (a *Answer) NoHolds() string {
	const exception = "except those with ifDown: Hold, if the admission policy taintkeeper-held is in force"
	switch why := a.WhyNot(); {
	case why == "":
		return ""
	case a.Eviction.Taintkeeper.State != Unknown:
		return why + ", so EvictionPolicies hold no pod, " + exception + "."
	case a.Process.State == Running:
		return why + ". If it does not, EvictionPolicies hold no pod, " + exception + "."
	default:
		return why + ". If it is not, EvictionPolicies hold no pod, " + exception + "."
	}
}

// Idle says that Taintkeeper does not evict, and what that means for due pods in a cluster with or without policies. It
// is empty if Taintkeeper evicts. If that is not known, it says only what it means for policies.
func (a *Answer) Idle(policies int) string {
	known := a.Eviction.Taintkeeper.State != Unknown
	says := a.WhyNot()
	switch {
	case says == "" || !known && policies == 0:
		return ""
	case policies > 0:
		says = a.NoHolds()
	default:
		says += "."
	}
	switch {
	case known && a.Eviction.Who() == cliv1alpha1.WhoBuiltIn:
		says += " " + builtin.Program + " evicts due pods, by its own rule."
	case known:
		says += " Due pods leave only if the built-in controller evicts them."
	}
	return says
}

// Evictor says by whose rule commands decide in a cluster with or without policies.
func (a *Answer) Evictor(policies int) state.Evictor {
	is := state.Evictor{Who: a.Eviction.Who(), Idle: a.Idle(policies)}
	if lease := a.BuiltInLease; is.IsBuiltIn() && lease != nil && lease.Spec.AcquireTime != nil {
		is.Began = lease.Spec.AcquireTime.Time
	}
	return is
}
