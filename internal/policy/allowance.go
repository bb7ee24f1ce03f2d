// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// asksPerBudget is how many pods of one budget the Eviction API is asked about at the same time. It evicts 15 to 33
	// pods of one budget a second, however many requests there are
	// (k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go sleeps when another has changed the budget).
	asksPerBudget = 2
	// ProbeEvery is how often the Eviction API is asked about a budget that allows nothing according to the watch.
	ProbeEvery = 5 * time.Minute
)

// Allowance is what a PodDisruptionBudget allows. Its pods wait for it in line, so a budget that allows nothing costs
// no calls, and one that allows some costs few. It is not safe for concurrent use.
type Allowance struct {
	taken

	allowed int
	asked   time.Time // when the last pod was asked about, or since when the budget has been known
	exact   bool      // see [Engine]
}

// NewAllowance returns the allowance of a budget that is not known to allow anything at an instant.
func NewAllowance(now time.Time) *Allowance { return &Allowance{taken: taken{}, asked: now} }

// Allow sets how many disruptions the budget allows.
func (a *Allowance) Allow(disruptions int) { a.allowed = disruptions }

// Begin implements [Places].
func (a *Allowance) Begin(pod types.UID, at time.Time) { a.taken[pod], a.asked = Later, at }

// Left implements [Places]. The budget itself says what it allows then.
func (a *Allowance) Left(pod types.UID, _ time.Time) { delete(a.taken, pod) }

// Lacks returns why there is no room, Budget or BudgetBusy; empty if there is room.
func (a *Allowance) Lacks(now time.Time) Why {
	switch {
	case !a.room(now).After(now):
		return ""
	case a.allowed > 0:
		return BudgetBusy
	}
	return Budget
}

func (a *Allowance) room(now time.Time) time.Time {
	next := a.expire(now)
	places, probe := min(a.allowed, asksPerBudget), a.asked.Add(ProbeEvery)
	switch {
	case len(a.taken) < places:
		return time.Time{}
	case a.allowed > 0 || len(a.taken) > 0:
		return next
	case a.exact:
		return Later
	}
	return probe
}
