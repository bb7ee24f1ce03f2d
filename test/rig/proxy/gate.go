// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Gate can hold back what watches bring, so that a client's cache falls behind, as it can in any cluster. The zero
// value is open. It is safe for concurrent use.
type Gate struct {
	mu     sync.Mutex
	closed chan struct{} // the channel is closed when the gate opens, and nil while it is open
}

// Hold keeps back what watches bring from now on, and what had begun to come before.
func (g *Gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
}

// Release lets everything pass, including what was held back. Calling it again does nothing.
func (g *Gate) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

// released returns a channel that is closed once the gate opens, or nil while it is open.
func (g *Gate) released() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// Answer is an [Answer] to a watch: the API server's, through the gate.
func (g *Gate) Answer(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err == nil {
		response.Body = g.Stream(request.Context(), response.Body)
	}
	return response, err
}

// errCut is the error that a client of a cut stream gets.
var errCut = errors.New("the watch is cut")

// Stream is what a watch brings, behind a gate.
type Stream struct {
	io.ReadCloser

	gate *Gate
	ctx  context.Context // of the client's request
	cut  context.CancelFunc
}

// Stream puts the answer to a watch behind the gate, for as long as the client's request lasts.
func (g *Gate) Stream(ctx context.Context, body io.ReadCloser) *Stream {
	ctx, cut := context.WithCancel(ctx)
	return &Stream{ReadCloser: body, gate: g, ctx: ctx, cut: cut}
}

// Read implements io.Reader. What has been read waits until the gate is open: the read may have begun before it closed.
func (s *Stream) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	for {
		if s.ctx.Err() != nil {
			return 0, errCut
		}
		released := s.gate.released()
		if released == nil {
			return n, err
		}
		select {
		case <-released:
		case <-s.ctx.Done():
		}
	}
}

// Cut ends the stream in the middle.
func (s *Stream) Cut() {
	s.cut()
	// It ends a read that is waiting for the API server. An error changes nothing.
	_ = s.ReadCloser.Close()
}

// Close implements io.Closer.
func (s *Stream) Close() error {
	s.cut()
	return s.ReadCloser.Close()
}
