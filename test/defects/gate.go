// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// gate is a proxy in front of the API server that can hold back what watches of nodes bring, so that a client's cache
// of nodes is older than its cache of pods, as it can be in any cluster. It is safe for concurrent use.
type gate struct {
	server *httptest.Server

	mu   sync.Mutex
	open chan struct{} // closed while events pass
}

// newGate starts a gate, open, that reaches the API server as the user of access. It ends with ctx.
func newGate(ctx context.Context, access *rest.Config) (*gate, error) {
	transport, err := rest.TransportFor(access)
	if err != nil {
		return nil, fmt.Errorf("make a proxy for the API server: %w", err)
	}
	target, err := url.Parse(access.Host)
	if err != nil {
		return nil, fmt.Errorf("make a proxy for the API server: %w", err)
	}
	g := &gate{open: make(chan struct{})}
	close(g.open)
	g.server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:      transport,
		ModifyResponse: g.guard,
		FlushInterval:  -1,                         // watches bring their events at once
		ErrorLog:       log.New(io.Discard, "", 0), // the caller gets the error too
	})
	context.AfterFunc(ctx, func() {
		g.release()
		g.server.CloseClientConnections()
		g.server.Close()
	})
	return g, nil
}

// access returns how to reach the API server through the gate, which brings its own credentials.
func (g *gate) access() *rest.Config { return &rest.Config{Host: g.server.URL, QPS: -1} }

// hold keeps back the events of nodes until release.
func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// release lets pass what was held back, and all that follows. To do it again does nothing.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) passage() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

func (g *gate) guard(response *http.Response) error {
	if watchesNodes(response.Request.URL) {
		response.Body = &guarded{ReadCloser: response.Body, gate: g, ctx: response.Request.Context()}
	}
	return nil
}

func watchesNodes(address *url.URL) bool {
	watch := address.Query().Get("watch")
	return strings.HasSuffix(address.Path, "/api/v1/nodes") && (watch == "true" || watch == "1")
}

// guarded is the body of a watch behind the gate.
type guarded struct {
	io.ReadCloser
	gate *gate
	ctx  context.Context // of the client's request
}

// Read implements io.Reader: what has been read waits until the gate is open.
func (b *guarded) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	select {
	case <-b.gate.passage():
		return n, err
	case <-b.ctx.Done():
		return 0, context.Cause(b.ctx)
	}
}
