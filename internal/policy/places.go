// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"maps"
	"time"
)

// paced is a policy's pace in all its scopes.
type paced struct {
	pace    Pace
	since   time.Time // since when departures have been known, or zero if all are
	windows map[string]*Window
}

// followPaces applies the policies. Windows continue when a pace changes, unless its scope does. The windows of a
// changed scope count as full at first, and so do those of a pace that may be older than this Engine.
func (e *Engine) followPaces(all []*Policy, now time.Time, isNew bool) {
	next := map[string]*paced{}
	for _, p := range all {
		if p.pace == nil {
			continue
		}
		known := e.paces[p.Name]
		if known != nil && known.pace.Scope == p.pace.Scope {
			known.change(*p.pace, now)
			next[p.Name] = known
			continue
		}
		next[p.Name] = &paced{pace: *p.pace, windows: map[string]*Window{}}
		if known != nil || !isNew {
			next[p.Name].since = now
		}
	}
	e.paces = next
}

// change changes a pace. Its scope stays as it is.
func (p *paced) change(pace Pace, now time.Time) {
	p.since = p.pace.KnownSince(pace, p.since, now)
	for _, w := range p.windows {
		w.Change(pace, now)
	}
	p.pace = pace
}

// SetBudget sets how many disruptions a PodDisruptionBudget, NAMESPACE/NAME, allows.
func (e *Engine) SetBudget(name string, disruptions int, now time.Time) {
	is := e.budgets[name]
	if is == nil {
		is = NewAllowance(now)
		is.exact = e.Exact
		e.budgets[name] = is
	}
	if is.allowed != disruptions {
		is.Allow(disruptions)
		e.pending = true
	}
}

// DropBudget forgets a PodDisruptionBudget that is gone.
func (e *Engine) DropBudget(name string) {
	delete(e.budgets, name)
	e.pending = true
}

// WaitingFor returns the nodes of the pods that wait for a place in a budget.
func (e *Engine) WaitingFor(budget string) []string {
	if is := e.budgets[budget]; is != nil {
		return e.line.NodesOf(is)
	}
	return nil
}

// windows returns the windows in which policies count a pod that leaves.
func (e *Engine) windows(pod *Leaver, all []*Policy) (windows []Places) {
	for _, p := range all {
		of := e.paces[p.Name]
		if of == nil {
			continue
		}
		scope := of.pace.In(pod.Node, pod.Zone)
		if of.windows[scope] == nil {
			of.windows[scope] = NewWindow(of.pace, of.since)
		}
		windows = append(windows, of.windows[scope])
	}
	return windows
}

// places returns the places of needs. A budget that has just gone allows nothing, until what is known about the pod
// says that it is gone.
func (e *Engine) places(pod *Leaver, needs Needs, now time.Time) []Places {
	places := e.windows(pod, needs.Paces)
	if needs.Budget {
		is := e.budgets[pod.Budgets.Name]
		if is == nil {
			is = NewAllowance(now)
		}
		places = append(places, is)
	}
	return places
}

// objection returns why the budget of a pod that lacks places makes it wait. While the pod waits for a pace with which
// it leaves without asking, it has no place in its budget.
func (e *Engine) objection(pod *Leaver, needs Needs, now time.Time) Budgets {
	name := pod.Budgets.Name
	if name == "" {
		return Budgets{}
	}
	var lacks Why
	if is := e.budgets[name]; is != nil && needs.Budget {
		lacks = is.Lacks(now)
	}
	if !needs.Budget || len(needs.Paces) == 0 { // free places now are for other pods, which were due first
		lacks = cmp.Or(lacks, BudgetBusy)
	}
	return Budgets{Objects: lacks, Name: name}
}

// forgetIdle forgets empty windows, such as those of nodes that are gone.
func (e *Engine) forgetIdle(now time.Time) {
	for _, of := range e.paces {
		maps.DeleteFunc(of.windows, func(_ string, w *Window) bool { return w.Idle(now) })
	}
}
