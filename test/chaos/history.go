// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
)

// podState is what was true of a pod from one version to the next one that differs.
type podState struct {
	podFacts

	from    span      // when it was written
	visible time.Time // when every watch had it: when ours did
	bound   span      // when the pod was bound to its node
	number  uint64
	writer  string
}

// nodeState is what was true of a node's NoExecute taints from one version to the next one that differs.
type nodeState struct {
	from   span
	shown  []corev1.Taint
	taints []oracle.Taint
	number uint64
	writer string
	// handedBack says that a replica wrote it to give the evictions back to the built-in.
	handedBack bool
}

func (s podState) written() span  { return s.from }
func (s nodeState) written() span { return s.from }

// held is when one of several successive states can have held: from when it was written until the next one was.
func held[S interface{ written() span }](states []S, i int, end time.Time) span {
	all := oracle.Between(states[i].written().From, end)
	if i+1 < len(states) {
		all.To = states[i+1].written().To
	}
	return all
}

// pod is the history of a pod.
type pod struct {
	uid       types.UID
	name      string // with its namespace
	states    []podState
	deletions []deletion // accepted by the API server, by the audit log
}

// history is everything that is known after a run, and all that it is judged by.
type history struct {
	page
	audited

	pods  map[types.UID]*pod
	nodes map[string][]nodeState
	calm  time.Time // when the last fault ended
	end   time.Time // when the observer ended
}

// history makes the history of what was observed until now.
func (o *observer) history(known audited, calm, end time.Time) *history {
	h := &history{
		page: o.ledger.read(), audited: known, pods: map[types.UID]*pod{}, nodes: map[string][]nodeState{},
		calm: calm, end: end,
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for uid, known := range o.pods {
		deletions := h.deletions[uid]
		h.pods[uid] = &pod{uid: uid, name: known.name, states: podStates(known, deletions), deletions: deletions}
	}
	for name, known := range o.nodes {
		h.nodes[name] = nodeStates(known, h.handsBack)
	}
	return h
}

// writtenAt bounds when a version was written: by the audit log, or else by when it was seen and by the version before.
func writtenAt[F any](v *version[F], before span) span {
	switch {
	case v.written.From.IsZero(), !v.seen.IsZero() && v.seen.Before(v.written.From):
		return oracle.Between(before.From, v.seen)
	case v.seen.IsZero():
		return v.written
	}
	return v.written.Min(oracle.At(v.seen))
}

func podStates(known *chronicle[podFacts], deletions []deletion) []podState {
	var states []podState
	var before span
	for _, v := range known.inOrder() {
		next := podState{podFacts: v.facts, from: writtenAt(v, before), visible: v.seen, number: v.number, writer: v.writer}
		before = next.from
		// It was bound when it was first seen on its node, or at the end of the second that is recorded if that is earlier.
		next.bound = next.from.Min(oracle.At(oracle.EndOfSecond(next.recorded)))
		if len(states) > 0 {
			last := &states[len(states)-1]
			if last.node == next.node {
				next.bound = last.bound.Min(oracle.At(oracle.EndOfSecond(next.recorded)))
			}
			if last.same(next.podFacts) {
				last.bound = next.bound
				continue
			}
		}
		states = append(states, next)
	}
	for i := len(states) - 2; i >= 0; i-- {
		if states[i].visible.IsZero() { // our watch missed it, and brought the next one
			states[i].visible = states[i+1].visible
		}
	}
	return attribute(bury(states, known.gone), deletions)
}

// bury appends the end of a pod that is gone and was not seen to terminate: from then on it is like one that does.
func bury(states []podState, gone time.Time) []podState {
	if gone.IsZero() || len(states) == 0 || states[len(states)-1].terminating {
		return states
	}
	end := states[len(states)-1]
	end.terminating, end.visible, end.number, end.writer = true, gone, end.number+1, ""
	end.from = oracle.Between(end.from.From, gone)
	return append(states, end)
}

// attribute records whose DELETE made a pod terminate: the first that was accepted. If the pod was gone at once, the
// audit log does not say which version that DELETE wrote.
func attribute(states []podState, deletions []deletion) []podState {
	first := slices.IndexFunc(states, func(state podState) bool { return state.terminating })
	if first < 0 || len(deletions) == 0 || states[first].writer != "" {
		return states
	}
	state, d := &states[first], deletions[0]
	if state.visible.IsZero() || !d.From.After(state.visible) {
		state.writer, state.from = d.user, d.Min(oracle.At(oracle.Later(state.visible, d.From)))
	}
	return states
}

// handsBack reports whether what a replica wrote to a node at that time hands the evictions back to the built-in: a
// replica that was asked to end was ending.
func (p *page) handsBack(written span) bool {
	return slices.ContainsFunc(p.lives, func(l *life) bool {
		return !l.stopped.IsZero() && !written.To.Before(l.stopped) &&
			(l.ended.IsZero() || !written.From.After(l.ended))
	})
}

// nodeStates returns the states of a node. For controllers that look later, a hand-back makes the taints count again
// from then.
func nodeStates(known *chronicle[[]corev1.Taint], handsBack func(written span) bool) []nodeState {
	var states []nodeState
	var before span
	var taints []oracle.Taint
	for _, v := range known.inOrder() {
		next := nodeState{from: writtenAt(v, before), shown: v.facts, number: v.number, writer: v.writer}
		before = next.from
		byKeeper := v.writer == keeperUser
		if next.handedBack = byKeeper && handsBack(next.from); next.handedBack {
			taints = nil
		}
		next.taints = oracle.Next(taints, oracle.Version{At: next.from, Taints: v.facts, Ours: byKeeper})
		taints = next.taints
		if len(states) > 0 && slices.EqualFunc(states[len(states)-1].taints, next.taints, sameTaint) {
			continue
		}
		states = append(states, next)
	}
	return states
}

// sameTaint reports whether it makes no difference for the judgment which of two taints a node has.
func sameTaint(a, b oracle.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.TimeAdded.Equal(b.TimeAdded) && a.Since == b.Since &&
		len(a.Values) == len(b.Values)
}

// left returns when the pod began to leave, if it did.
func (p *pod) left() (podState, bool) {
	for _, state := range p.states {
		if state.terminating {
			return state, true
		}
	}
	return podState{}, false
}

// due says when a pod must leave a node with these taints, if it must while this program runs.
func (s podState) due(taints []oracle.Taint) (due span, leaves bool) {
	due = oracle.Rule{}.Due(oracle.Pod{Tolerations: s.tolerations, Bound: s.bound}, taints)
	return due, due.From.Before(distantFuture)
}

// byKeeper reports whether the pod began to leave because a replica deleted it.
func (p *pod) byKeeper() bool {
	state, ok := p.left()
	return ok && state.writer == keeperUser
}

// byBuiltIn reports whether the pod began to leave because the built-in deleted it.
func (p *pod) byBuiltIn() bool {
	state, ok := p.left()
	return ok && auditlog.Event{User: state.writer}.ByBuiltIn()
}

// guarded reports whether the webhook is asked about the pod.
func (p *pod) guarded() bool {
	return slices.ContainsFunc(p.states, func(state podState) bool { return state.guarded })
}
