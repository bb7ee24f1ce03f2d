// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxy interferes with calls to an API server: they are refused, delayed or lost, and what watches bring comes
// late. It sits in the transport of a client of this process, or listens on the loopback interface for another process.
package proxy

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Config says what a proxy does with calls.
type Config struct {
	// Access is how the proxy reaches the API server.
	Access *rest.Config
	// Over returns the transport for calls, which passes them on to the next one. If Over is nil, nothing happens to them.
	// An error of the transport closes the caller's connection, which is what clients see when the API server is down.
	Over func(next http.RoundTripper) http.RoundTripper
	// Before returns a handler that calls pass before they are forwarded, and that sees their end. It may be nil.
	Before func(next http.Handler) http.Handler
}

// Proxy forwards the calls of another process to the API server. Callers talk plain HTTP to it and have no credentials.
type Proxy struct {
	server *http.Server
	host   string
}

// Serve starts a proxy, which serves until it is closed.
func Serve(cfg Config) (*Proxy, error) {
	transport, err := rest.TransportFor(cfg.Access)
	if err != nil {
		return nil, fmt.Errorf("make a transport to the API server: %w", err)
	}
	if cfg.Over != nil {
		transport = cfg.Over(transport)
	}
	target, err := url.Parse(cfg.Access.Host)
	if err != nil {
		return nil, fmt.Errorf("parse the address of the API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for calls to the API server: %w", err)
	}
	var handler http.Handler = &httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches bring their events at once
		ErrorHandler:  hangUp,
		ErrorLog:      log.New(io.Discard, "", 0), // the caller gets the error, too
	}
	if cfg.Before != nil {
		handler = cfg.Before(handler)
	}
	p := &Proxy{
		server: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute},
		host:   "http://" + listener.Addr().String(),
	}
	go func() { _ = p.server.Serve(listener) }() // until Close
	return p, nil
}

// During is [Serve] until a test ends.
func During(t testing.TB, cfg Config) *Proxy {
	t.Helper()
	p, err := Serve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // nothing calls it any longer
	return p
}

// hangUp closes the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }

// Access returns how to reach the API server through the proxy, as the user of [Config.Access].
func (p *Proxy) Access() *rest.Config { return &rest.Config{Host: p.host, QPS: -1} }

// Close ends the proxy and all connections through it.
func (p *Proxy) Close() error { return p.server.Close() }

// Calls tells which calls a fault concerns.
type Calls func(*http.Request) bool

// PodDeletes are the deletes of pods in a namespace.
func PodDeletes(namespace string) Calls { return podCalls(http.MethodDelete, namespace, "") }

// PodStatusPatches are the patches of the status of pods in a namespace.
func PodStatusPatches(namespace string) Calls {
	return podCalls(http.MethodPatch, namespace, "/status")
}

func podCalls(method, namespace, suffix string) Calls {
	prefix := "/api/v1/namespaces/" + namespace + "/pods/"
	return func(request *http.Request) bool {
		path := request.URL.Path
		return request.Method == method && strings.HasPrefix(path, prefix) && strings.HasSuffix(path, suffix)
	}
}

// PatchesOfNode are the patches of a node, without those of its status.
func PatchesOfNode(name string) Calls {
	return func(request *http.Request) bool {
		return request.Method == http.MethodPatch && request.URL.Path == "/api/v1/nodes/"+name
	}
}

// WatchesOfNodes are the watches of all nodes.
func WatchesOfNodes(request *http.Request) bool { return watchesOf("/api/v1/nodes", request) }

// WatchesOfPods are the watches of the pods of all namespaces.
func WatchesOfPods(request *http.Request) bool { return watchesOf("/api/v1/pods", request) }

func watchesOf(path string, request *http.Request) bool {
	watch := slices.Contains([]string{"true", "1"}, request.URL.Query().Get("watch"))
	return request.Method == http.MethodGet && request.URL.Path == path && watch
}
