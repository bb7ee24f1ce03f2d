// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// proxy stands between one replica and the API server: it injects faults into the calls and notes them all. The replica
// talks plain HTTP to it and has no credentials; the proxy has those of the service account.
type proxy struct {
	replica string
	run     atomic.Int64 // of the replica's process that is running
	weather *weather
	draw    func(*call) plan // what happens to a call
	ledger  *ledger
	watches *watches
	forward *httputil.ReverseProxy
	server  *http.Server
	address string
}

// newProxy makes a proxy that reaches the API server by the given configuration. It serves until close.
func newProxy(replica string, access *rest.Config, weather *weather, ledger *ledger) (*proxy, error) {
	transport, err := rest.TransportFor(access)
	if err != nil {
		return nil, fmt.Errorf("make a transport to the API server: %w", err)
	}
	target, err := url.Parse(access.Host)
	if err != nil {
		return nil, fmt.Errorf("understand the address of the API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for replica %s: %w", replica, err)
	}
	p := &proxy{
		replica: replica,
		weather: weather,
		draw:    weather.planFor,
		ledger:  ledger,
		watches: newWatches(ledger),
		address: "http://" + listener.Addr().String(),
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite:        func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:      timing{transport},
		FlushInterval:  -1, // watches bring their events at once
		ModifyResponse: p.answer,
		ErrorHandler:   hangUp,
		ErrorLog:       log.New(io.Discard, "", 0), // the replica gets the error too
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(listener) }() // until close
	return p, nil
}

// access is how the replica reaches the API server.
func (p *proxy) access() *rest.Config { return &rest.Config{Host: p.address} }

func (p *proxy) close() error { return p.server.Close() }

// passage is a call on its way through a proxy.
type passage struct {
	*call
	plan plan
}

type passageKey struct{}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, request *http.Request) {
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
	p.pass(w, request, passing)
}

// plan draws what happens to a call. Watches may be refused for a while.
func (p *proxy) plan(c *call) plan {
	if isWatch(c.kind) && p.watches.refused(c.received) {
		return plan{fault: refusedWatch}
	}
	return p.draw(c)
}

func isWatch(kind callKind) bool { return kind == watchPods || kind == watchNodes }

func (p *proxy) count(passing *passage) {
	if passing.plan.fault == "" {
		return
	}
	passing.faults = append(passing.faults, passing.plan.fault)
	p.ledger.inject(passing.plan.fault)
}

// pass does to a call what is planned before it is forwarded, and forwards it unless that is to end it.
func (p *proxy) pass(w http.ResponseWriter, request *http.Request, passing *passage) {
	switch passing.plan.fault {
	case droppedCall:
		panic(http.ErrAbortHandler)
	case delayedCall:
		pause(request.Context(), passing.plan.delay)
	case conflict:
		refuse(w, passing, http.StatusConflict, metav1.StatusReasonConflict)
		return
	case tooMany:
		passing.retry = passing.plan.retry
		w.Header().Set("Retry-After", strconv.Itoa(int(passing.retry.Seconds())))
		refuse(w, passing, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
		return
	case internalError:
		refuse(w, passing, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	case unavailable, refusedWatch:
		refuse(w, passing, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		return
	}
	p.forward.ServeHTTP(w, request.WithContext(context.WithValue(request.Context(), passageKey{}, passing)))
}

// refuse answers in the API server's place.
func refuse(w http.ResponseWriter, passing *passage, code int, reason metav1.StatusReason) {
	passing.heard = code
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// A replica that has gone needs no answer.
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "injected",
	})
}

var errDropped = errors.New("the answer is dropped")

// answer does to an answer what is planned, before it goes to the replica.
func (p *proxy) answer(response *http.Response) error {
	passing := passageOf(response.Request)
	switch passing.plan.fault {
	case droppedAnswer:
		return errDropped
	case delayedAnswer:
		pause(response.Request.Context(), passing.plan.delay)
	}
	passing.heard = response.StatusCode
	if isWatch(passing.kind) && response.StatusCode == http.StatusOK {
		response.Body = p.watches.admit(passing.call, response.Body)
	}
	return nil
}

// hangUp closes the connection without an answer: so it looks to a client when the API server is down, too.
func hangUp(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }

func passageOf(request *http.Request) *passage {
	return request.Context().Value(passageKey{}).(*passage)
}

// timing notes when a call was forwarded and when it was answered.
type timing struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t timing) RoundTrip(request *http.Request) (*http.Response, error) {
	c := passageOf(request).call
	c.forwarded = time.Now()
	response, err := t.next.RoundTrip(request)
	if err == nil {
		c.answered, c.answer = time.Now(), response.StatusCode
	}
	return response, err
}

// pause lets some time pass, unless the context ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
