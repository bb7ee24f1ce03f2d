// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

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
	watches *watches
}

// newProxy makes a proxy that reaches the API server by the given configuration. It serves until it is closed.
func newProxy(replica string, access *rest.Config, weather *weather, ledger *ledger) (*replicaProxy, error) {
	p := &replicaProxy{
		replica: replica, weather: weather, draw: weather.planFor, ledger: ledger, watches: newWatches(ledger),
	}
	var err error
	p.Proxy, err = proxy.Serve(proxy.Config{Access: access, Over: p.over, Before: p.before})
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
		c.replica, c.run = p.replica, int(p.run.Load())
		defer func() { // also when the connection is closed, which is a panic in net/http
			c.told = time.Now()
			p.ledger.note(c)
		}()
		passing := &passage{call: c, plan: p.plan(c)}
		p.count(passing)
		next.ServeHTTP(w, request.WithContext(context.WithValue(request.Context(), passageKey{}, passing)))
	})
}

// plan draws what happens to a call. Watches may be refused for a while.
func (p *replicaProxy) plan(c *call) plan {
	if isWatch(c.kind) && p.watches.refused(c.received) {
		return plan{fault: refusedWatch}
	}
	return p.draw(c)
}

func isWatch(kind callKind) bool { return kind == watchPods || kind == watchNodes }

func (p *replicaProxy) count(passing *passage) {
	if passing.plan.fault == "" {
		return
	}
	passing.faults = append(passing.faults, passing.plan.fault)
	p.ledger.inject(passing.plan.fault)
}

// over returns the transport that does to a call what is planned.
func (p *replicaProxy) over(next http.RoundTripper) http.RoundTripper { return faulty{p.watches, next} }

type faulty struct {
	watches *watches
	next    http.RoundTripper
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
		response.Body = f.watches.admit(ctx, passing.call, response.Body)
	}
	return response, nil
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
