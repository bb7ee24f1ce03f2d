// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/proxy"
)

// replicaProxy forwards the calls of one replica to the API server, injects faults and records every call. The replica
// talks plain HTTP to it and has no credentials; the proxy uses those of the service account.
type replicaProxy struct {
	*proxy.Proxy

	replica string
	run     atomic.Int64 // of the replica's process that is running
	weather *weather
	draw    func(*call) plan // what happens to a call
	ledger  *ledger
	gate    proxy.Gate // through which all watches go

	mu           sync.Mutex
	open         []*watchBody
	heldUntil    time.Time // the watches, by the gate
	refusedUntil time.Time // new watches
}

// newProxy makes a proxy that reaches the API server by the given configuration. It serves until it is closed.
func newProxy(replica string, access *rest.Config, weather *weather, ledger *ledger) (*replicaProxy, error) {
	p := &replicaProxy{replica: replica, weather: weather, draw: weather.planFor, ledger: ledger}
	over := func(next http.RoundTripper) http.RoundTripper { return faulty{p, next} }
	var err error
	p.Proxy, err = proxy.Serve(proxy.Config{Access: access, Over: over, Before: p.before})
	if err != nil {
		return nil, fmt.Errorf("make a proxy for replica %s: %w", replica, err)
	}
	return p, nil
}

// passage is a call on its way through a proxy.
type passage struct {
	*call
	plan plan
}

type passageKey struct{}

// before notes a call, from its receipt to the end of its answer.
func (p *replicaProxy) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		received := time.Now()
		c, err := readCall(request, received)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.process = process{p.replica, int(p.run.Load())}
		defer func() { // also when the connection is closed, which is a panic in net/http
			c.told = time.Now()
			p.ledger.write(func(page *page) {
				page.calls = append(page.calls, c)
				if c.holder != "" {
					page.holders[c.holder] = c.process
				}
			})
		}()
		passing := &passage{call: c, plan: p.plan(c)}
		if passing.plan.fault != "" {
			passing.faults = append(passing.faults, passing.plan.fault)
			p.ledger.inject(passing.plan.fault)
		}
		next.ServeHTTP(w, request.WithContext(context.WithValue(request.Context(), passageKey{}, passing)))
	})
}

// plan draws what happens to a call. Watches may be refused for a while.
func (p *replicaProxy) plan(c *call) plan {
	if isWatch(c.kind) && p.refuses(c.received) {
		return plan{fault: refusedWatch}
	}
	return p.draw(c)
}

// faulty is the transport that does to a call what is planned.
type faulty struct {
	proxy *replicaProxy
	next  http.RoundTripper
}

var errDropped = errors.New("the proxy dropped the call")

// refusals are the faults that the proxy answers instead of the API server.
var refusals = map[faultKind]proxy.Refusal{
	conflict:      proxy.Conflicting,
	internalError: proxy.Failing,
	unavailable:   proxy.Unavailable,
	refusedWatch:  proxy.Unavailable,
}

// RoundTrip implements http.RoundTripper. A call or an answer that is dropped closes the replica's connection.
func (f faulty) RoundTrip(request *http.Request) (*http.Response, error) {
	passing := request.Context().Value(passageKey{}).(*passage)
	refusal, refused := refusals[passing.plan.fault]
	switch passing.plan.fault {
	case droppedCall:
		return nil, errDropped
	case delayedCall:
		pause(request.Context(), passing.plan.delay)
	case tooMany:
		passing.retry = passing.plan.retry
		refusal, refused = proxy.BusyFor(passing.retry), true
	}
	if refused {
		passing.heard = refusal.Code
		return refusal.Response(request), nil
	}
	passing.forwarded = time.Now()
	response, err := f.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	passing.answered, passing.answer = time.Now(), response.StatusCode
	return f.answer(request.Context(), passing, response)
}

// answer does to an answer what is planned, before it goes to the replica.
func (f faulty) answer(ctx context.Context, passing *passage, response *http.Response) (*http.Response, error) {
	switch passing.plan.fault {
	case droppedAnswer:
		return nil, errors.Join(errDropped, response.Body.Close())
	case delayedAnswer:
		pause(ctx, passing.plan.delay)
	}
	passing.heard = response.StatusCode
	if isWatch(passing.kind) && response.StatusCode == http.StatusOK {
		response.Body = f.proxy.admit(ctx, passing.call, response.Body)
	}
	return response, nil
}

// watchBody is the answer to a watch. It can be cut and held up.
type watchBody struct {
	*proxy.Stream

	proxy  *replicaProxy
	stream *stream
}

// admit makes an answer one that can be cut and held up.
func (p *replicaProxy) admit(ctx context.Context, c *call, body io.ReadCloser) io.ReadCloser {
	now := time.Now()
	b := &watchBody{
		Stream: p.gate.Stream(ctx, body), proxy: p, stream: &stream{process: c.process, kind: c.kind, opened: now},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Before(p.heldUntil) {
		b.stream.stalls = append(b.stream.stalls, oracle.Between(now, p.heldUntil))
	}
	p.ledger.write(func(page *page) { page.streams = append(page.streams, b.stream) })
	p.open = append(p.open, b)
	return b
}

// Close implements io.Closer.
func (b *watchBody) Close() error {
	err := b.Stream.Close()
	closed := time.Now()
	b.proxy.ledger.write(func(*page) { b.stream.closed = closed })
	b.proxy.mu.Lock()
	defer b.proxy.mu.Unlock()
	b.proxy.open = slices.DeleteFunc(b.proxy.open, func(other *watchBody) bool { return other == b })
	return err
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
	switch fault {
	case cutWatch, cutAll:
		p.cut(fault)
	case refusedWatch:
		p.mu.Lock()
		p.refusedUntil = oracle.Later(p.refusedUntil, time.Now().Add(length))
		p.mu.Unlock()
		p.cut(cutAll)
	case stalledWatch:
		p.hold(length)
		p.ledger.inject(stalledWatch)
	}
}

// cut cuts one of the open watches, or all, and counts that if there are any.
func (p *replicaProxy) cut(fault faultKind) {
	p.mu.Lock()
	open := slices.Clone(p.open)
	p.mu.Unlock()
	if len(open) == 0 {
		return
	}
	if fault == cutWatch {
		i := p.weather.pick(len(open))
		open = open[i : i+1]
	}
	for _, b := range open {
		b.Cut()
	}
	p.ledger.inject(fault)
}

// hold holds up all watches for a while.
func (p *replicaProxy) hold(d time.Duration) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldUntil = oracle.Later(p.heldUntil, now.Add(d))
	p.gate.Hold()
	time.AfterFunc(d, p.letGo)
	held := oracle.Between(now, p.heldUntil)
	p.ledger.write(func(*page) {
		for _, b := range p.open {
			b.stream.stalls = append(b.stream.stalls, held)
		}
	})
}

// letGo stops holding up watches, unless the time for which they are held up has been extended.
func (p *replicaProxy) letGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !time.Now().Before(p.heldUntil) {
		p.gate.Release()
	}
}

// release ends everything that was to last for a while.
func (p *replicaProxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldUntil, p.refusedUntil = time.Time{}, time.Time{}
	p.gate.Release()
}

// refuses reports whether new watches are refused at an instant.
func (p *replicaProxy) refuses(at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return at.Before(p.refusedUntil)
}

// plan is what will happen to one call. The zero value lets it through.
type plan struct {
	fault faultKind
	delay time.Duration // for the delays
	retry time.Duration // for a 429: whole seconds
}

// intensity is how frequent and how long faults are.
type intensity struct {
	name    string
	share   float64       // of the calls that something happens to
	longest time.Duration // delay of a call or an answer
	quiet   time.Duration // on average, between two faults of a proxy's watches; zero means no faults
}

var (
	calm  = intensity{name: "calm"}
	mild  = intensity{name: "mild", share: 0.12, longest: 400 * time.Millisecond, quiet: 3 * time.Second}
	storm = intensity{name: "storm", share: 0.4, longest: 2 * time.Second, quiet: 1200 * time.Millisecond}
)

// weather decides what happens to the calls and the watches of one replica. Safe for concurrent use.
type weather struct {
	mu     sync.Mutex
	random *rand.Rand
	now    intensity
}

func newWeather(random *rand.Rand) *weather { return &weather{random: random, now: calm} }

func (w *weather) set(next intensity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = next
}

func (w *weather) intensity() intensity {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// planFor draws what happens to a call. Election calls get faults only half as often, because a leader that loses its
// Lease exits, and a few periods without a leader are enough.
func (w *weather) planFor(c *call) plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	share := w.now.share
	if c.kind == electCall {
		share /= 2
	}
	if w.random.Float64() >= share {
		return plan{}
	}
	return plan{
		fault: drawFault(w.random, callFaults, c.kind),
		delay: time.Duration(w.random.Int64N(int64(w.now.longest)) + 1),
		retry: time.Duration(1+w.random.IntN(3)) * time.Second,
	}
}

// interruption is what happens next to the watches of a replica.
type interruption struct {
	wait   time.Duration // until then
	fault  faultKind
	length time.Duration // of a fault that lasts
}

// next draws what happens next to the watches. It returns false while nothing does.
func (w *weather) next() (interruption, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.quiet == 0 {
		return interruption{}, false
	}
	return interruption{
		wait:   time.Duration((0.5 + w.random.Float64()) * float64(w.now.quiet)),
		length: 500*time.Millisecond + time.Duration(w.random.Int64N(int64(3500*time.Millisecond))),
		fault:  drawFault(w.random, watchFaults, watchPods),
	}, true
}

// pick draws one of n.
func (w *weather) pick(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// pause waits for some time, unless the context ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
