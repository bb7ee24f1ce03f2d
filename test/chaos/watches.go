// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
)

// watches are the open watches of one replica: they can be cut, held up and, for a while, refused. Safe for concurrent
// use.
type watches struct {
	ledger *ledger
	gate   proxy.Gate

	mu           sync.Mutex
	open         []*watchBody
	heldUntil    time.Time
	refusedUntil time.Time
}

func newWatches(ledger *ledger) *watches { return &watches{ledger: ledger} }

// watchBody is the answer to a watch.
type watchBody struct {
	*proxy.Stream

	watches *watches
	stream  *stream
}

// admit makes an answer one that can be cut and held up.
func (w *watches) admit(ctx context.Context, c *call, body io.ReadCloser) io.ReadCloser {
	b := &watchBody{
		Stream:  w.gate.Stream(ctx, body),
		watches: w,
		stream:  &stream{replica: c.replica, run: c.run, kind: c.kind, opened: time.Now()},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Before(w.heldUntil) {
		b.stream.stalls = append(b.stream.stalls, oracle.Between(now, w.heldUntil))
	}
	w.ledger.open(b.stream)
	w.open = append(w.open, b)
	return b
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	err := b.Stream.Close()
	b.watches.ledger.close(b.stream, time.Now())
	b.watches.forget(b)
	return err
}

func (w *watches) forget(b *watchBody) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = slices.DeleteFunc(w.open, func(other *watchBody) bool { return other == b })
}

// cutSome cuts those of the open watches that the function picks, and returns how many there were.
func (w *watches) cutSome(pick func(open []*watchBody) []*watchBody) int {
	w.mu.Lock()
	picked := slices.Clone(pick(w.open))
	w.mu.Unlock()
	for _, b := range picked {
		b.Cut()
	}
	return len(picked)
}

// hold holds up all watches for a while.
func (w *watches) hold(d time.Duration) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heldUntil = oracle.Later(w.heldUntil, now.Add(d))
	w.gate.Hold()
	time.AfterFunc(d, w.letGo)
	for _, b := range w.open {
		w.ledger.stall(b.stream, oracle.Between(now, w.heldUntil))
	}
}

// letGo stops holding up watches, unless the time for which they are held up has been extended.
func (w *watches) letGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !time.Now().Before(w.heldUntil) {
		w.gate.Release()
	}
}

// refuse refuses new watches for a while.
func (w *watches) refuse(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusedUntil = oracle.Later(w.refusedUntil, time.Now().Add(d))
}

// release ends everything that was to last for a while.
func (w *watches) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heldUntil, w.refusedUntil = time.Time{}, time.Time{}
	w.gate.Release()
}

func (w *watches) refused(at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return at.Before(w.refusedUntil)
}

// disturb injects faults into the watches as the weather has it, until the context ends.
func (p *replicaProxy) disturb(ctx context.Context) {
	const look = 250 * time.Millisecond
	for ctx.Err() == nil {
		next, ok := p.weather.next()
		if !ok {
			pause(ctx, look)
			continue
		}
		pause(ctx, next.wait)
		if p.weather.intensity() != calm && ctx.Err() == nil {
			p.inject(next.fault, next.length)
		}
	}
}

// inject injects one fault into the watches. To refuse new watches for a while, it also cuts the open ones; otherwise
// few would notice.
func (p *replicaProxy) inject(fault faultKind, length time.Duration) {
	all := func(open []*watchBody) []*watchBody { return open }
	switch fault {
	case cutWatch:
		if p.watches.cutSome(p.one) > 0 {
			p.ledger.inject(cutWatch)
		}
	case cutAll:
		if p.watches.cutSome(all) > 0 {
			p.ledger.inject(cutAll)
		}
	case refusedWatch:
		p.watches.refuse(length)
		if p.watches.cutSome(all) > 0 {
			p.ledger.inject(cutAll)
		}
	case stalledWatch:
		p.watches.hold(length)
		p.ledger.inject(stalledWatch)
	}
}

// one picks one of the open watches, if there are any.
func (p *replicaProxy) one(open []*watchBody) []*watchBody {
	if len(open) == 0 {
		return nil
	}
	i := p.weather.pick(len(open))
	return open[i : i+1]
}
