// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/cluster/nodecache"
	"github.com/taintkeeper/taintkeeper/internal/policy"
)

// line knows which pods wait for the paces of policies and for budgets, and which leave. It is safe for concurrent use.
type line struct {
	now     func() time.Time
	changed chan struct{} // signals that a pod waits in line, or a place is free

	mu      sync.Mutex
	paced   map[string]*paced    // by policy
	budgets map[string][]*budget // by namespace
	waiting *policy.Line
}

// paced is a policy's pace in all its scopes.
type paced struct {
	pace    policy.Pace
	since   time.Time // since when departures have been known, or zero if all are
	windows map[string]*policy.Window
}

func newLine(now func() time.Time) *line {
	return &line{
		now: now, changed: make(chan struct{}, 1),
		paced: map[string]*paced{}, budgets: map[string][]*budget{}, waiting: policy.NewLine(),
	}
}

// follow applies the policies. Windows continue when a pace changes, unless its scope does. The windows of a changed
// scope count as full at first, and so do those of a pace that may be older than this process; seen says that new ones
// are not.
func (l *line) follow(all []followed, seen bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := map[string]*paced{}
	for _, p := range all {
		pace := p.Pace()
		if pace == nil {
			continue
		}
		known := l.paced[p.Name]
		if known != nil && known.pace.Scope == pace.Scope {
			known.change(*pace, l.now())
			next[p.Name] = known
			continue
		}
		next[p.Name] = &paced{pace: *pace, windows: map[string]*policy.Window{}}
		if known != nil || !seen {
			next[p.Name].since = l.now()
		}
	}
	l.paced = next
	l.wake()
}

// change changes a pace. Its scope stays as it is.
func (p *paced) change(pace policy.Pace, now time.Time) {
	p.since = p.pace.KnownSince(pace, p.since, now)
	for _, w := range p.windows {
		w.Change(pace, now)
	}
	p.pace = pace
}

// windows returns the windows in which policies count pods that leave a node. The caller holds the lock.
func (l *line) windows(all []*policy.Policy, node *nodecache.Node) (windows []policy.Places) {
	for _, p := range all {
		of := l.paced[p.Name]
		if of == nil {
			continue
		}
		scope := of.pace.In(node.Name, node.Labels[corev1.LabelTopologyZone])
		if of.windows[scope] == nil {
			of.windows[scope] = policy.NewWindow(of.pace, of.since)
		}
		windows = append(windows, of.windows[scope])
	}
	return windows
}

// places returns the places that a pod needs. The caller holds the lock.
func (l *line) places(needs needs, node *nodecache.Node) []policy.Places {
	places := l.windows(needs.paces, node)
	if needs.budget != nil {
		places = append(places, needs.budget)
	}
	return places
}

// set replaces which pods of a node need places, whether they have them or not.
func (l *line) set(name string, node *nodecache.Node, pods map[types.UID]needs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := make([]policy.Waiting, 0, len(pods))
	for uid, needs := range pods {
		waiting = append(waiting, policy.Waiting{UID: uid, Due: needs.due, Needs: l.places(needs, node)})
	}
	if l.waiting.Set(name, waiting, l.now()) {
		l.wake()
	}
}

// has reports whether a pod has all places that it needs.
func (l *line) has(needs needs, node *nodecache.Node, pod types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return policy.Has(pod, l.places(needs, node), l.now())
}

// lacks returns why the budget of that name makes a pod wait for its places. While the pod waits for a pace with which
// it leaves without asking, it has no place in its budget.
func (l *line) lacks(needs needs, name string) policy.Budgets {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case name == "":
		return policy.Budgets{}
	case needs.budget == nil:
		return policy.Budgets{Objects: policy.BudgetBusy, Name: name}
	}
	lacks := needs.budget.Lacks(l.now())
	if len(needs.paces) == 0 { // free places now are for other pods, which were due first
		lacks = cmp.Or(lacks, policy.BudgetBusy)
	}
	return policy.Budgets{Objects: lacks, Name: needs.budget.name}
}

// allowed returns how many disruptions a budget allows.
func (l *line) allowed(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	namespace, _, _ := strings.Cut(name, "/")
	for _, b := range l.budgets[namespace] {
		if b.name == name {
			return b.Allowed()
		}
	}
	return 0
}

func (l *line) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// begin takes the places of a pod, if it has all that it needs.
func (l *line) begin(needs, takes needs, node *nodecache.Node, pod types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !policy.Has(pod, l.places(needs, node), l.now()) {
		return false
	}
	l.waiting.Begin(node.Name, pod)
	for _, p := range l.places(takes, node) {
		p.Begin(pod, l.now())
	}
	return true
}

// left counts a pod that started to leave: in the paces of policies, and in all places that its eviction has taken.
func (l *line) left(all []*policy.Policy, node *nodecache.Node, pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.windows(all, node) {
		w.Left(pod, l.now())
	}
	l.mayHaveLeft(pod)
	l.wake()
}

// gone counts a pod that is gone, in all places that its eviction has taken.
func (l *line) gone(pod types.UID) { l.left(nil, nil, pod) }

// mayHaveLeft counts a pod in all places that its eviction has taken. The caller holds the lock.
func (l *line) mayHaveLeft(pod types.UID) {
	l.each(func(w policy.Places) {
		if w.Begun(pod) {
			w.Left(pod, l.now())
		}
	})
}

// ended notes that an eviction that has begun on a node has ended. The pod counts, unless it is known to stay.
func (l *line) ended(node string, pod types.UID, stays bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stays {
		l.each(func(w policy.Places) { w.Stays(pod) })
		l.waiting.Stays(node, pod, l.now())
	}
	l.mayHaveLeft(pod)
	l.wake()
}

// each calls a function for the places of each window and each budget. The caller holds the lock.
func (l *line) each(do func(policy.Places)) {
	for _, of := range l.paced {
		for _, w := range of.windows {
			do(w)
		}
	}
	for _, of := range l.budgets {
		for _, b := range of {
			do(b)
		}
	}
}

// call gives the free places to waiting pods. It returns the nodes about which to decide again, and when to call again;
// zero means only when a pod waits.
func (l *line) call() (nodes []string, again time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	called, again := l.waiting.Call(l.now())
	if l.waiting.Empty() {
		l.forgetIdle()
	}
	return slices.Sorted(maps.Keys(called)), again
}

// forgetIdle forgets empty windows, such as those of nodes that are gone. The caller holds the lock.
func (l *line) forgetIdle() {
	for _, of := range l.paced {
		maps.DeleteFunc(of.windows, func(_ string, w *policy.Window) bool { return w.Idle(l.now()) })
	}
}
