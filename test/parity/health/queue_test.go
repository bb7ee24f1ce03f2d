// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
)

// queue is upstream's: the nodes of a zone that wait for a NoExecute taint, and their tokens.
type queue struct {
	tokens

	items []item          // the first is next
	set   map[string]bool // those that may not be added: they wait, or have been tainted
}

type item struct {
	name string
	ripe time.Duration // not before
}

func newQueue() *queue { return &queue{tokens: newTokens(), set: map[string]bool{}} }

func (q *queue) waits(name string) bool {
	return slices.ContainsFunc(q.items, func(i item) bool { return i.name == name })
}

func (q *queue) add(name string, at time.Duration) {
	if q.set[name] {
		return
	}
	q.set[name] = true
	q.items = append(q.items, item{name, at})
}

func (q *queue) remove(name string) {
	delete(q.set, name)
	q.done(name)
}

func (q *queue) done(name string) {
	q.items = slices.DeleteFunc(q.items, func(i item) bool { return i.name == name })
}

// swap changes the rate as upstream does: the first token at a new rate comes at once, unless there was none to give.
func (q *queue) swap(next float32, at time.Duration) {
	if q.rate == next {
		return
	}
	drained := !q.take(at)
	q.rate, q.limiter = next, rate.NewLimiter(rate.Limit(next), 1)
	if drained {
		q.take(at)
	}
}

// tick taints the nodes of a queue for which there is a token.
func (p *passes) tick(q *queue) {
	for {
		if !p.quirks.has(wastedTokens) {
			q.items = slices.DeleteFunc(q.items, func(i item) bool { return p.needsNone(i.name) })
		}
		if len(q.items) == 0 || !q.take(p.now) {
			return
		}
		slices.SortStableFunc(q.items, func(a, b item) int { return int(a.ripe - b.ripe) })
		head := &q.items[0]
		if p.now < head.ripe {
			return
		}
		node := p.cluster.nodes[head.name]
		switch {
		case node == nil:
			q.done(head.name)
		case readyStatus(node) == "":
			const retry = 50 * ms
			head.ripe = p.now + retry + 1
		default:
			name := head.name
			q.done(name)
			if key := readinessTaint(readyStatus(node)); key != "" {
				p.exchange(name, key)
			}
		}
	}
}

func (p *passes) needsNone(name string) bool {
	node := p.cluster.nodes[name]
	return node == nil || readyStatus(node) == "" || readyStatus(node) == corev1.ConditionTrue
}
