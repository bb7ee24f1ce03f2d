// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// link is the network between a machine and the API server. While it is cut, it behaves like a cable that was pulled:
// connections stay open and bring nothing, in both directions, and what was sent arrives once it is healed.
type link struct {
	listener net.Listener
	to       string
	ended    context.Context
	end      context.CancelFunc

	mu     sync.Mutex
	healed chan struct{} // closed unless the link is cut
}

// newLink listens on a socket file and forwards connections to an address.
func newLink(ctx context.Context, socket, to string) (*link, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, to: to, healed: make(chan struct{})}
	close(l.healed)
	l.ended, l.end = context.WithCancel(context.WithoutCancel(ctx))
	go l.serve()
	return l, nil
}

func (l *link) serve() {
	for {
		from, err := l.listener.Accept()
		if err != nil { // it was closed
			return
		}
		go l.forward(from.(*net.UnixConn))
	}
}

// cut lets nothing pass until heal is called.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.healed:
		l.healed = make(chan struct{})
	default:
	}
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.healed:
	default:
		close(l.healed)
	}
}

// close ends the link and all its connections.
func (l *link) close() error {
	l.end()
	err := l.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// pass waits while the link is cut. It reports whether the link still exists.
func (l *link) pass() bool {
	l.mu.Lock()
	healed := l.healed
	l.mu.Unlock()
	select {
	case <-healed:
		return l.ended.Err() == nil
	case <-l.ended.Done():
		return false
	}
}

func (l *link) forward(from *net.UnixConn) {
	defer from.Close()
	if !l.pass() {
		return
	}
	dialed, err := new(net.Dialer).DialContext(l.ended, "tcp", l.to)
	if err != nil {
		return
	}
	to := dialed.(*net.TCPConn)
	defer to.Close()
	defer context.AfterFunc(l.ended, func() { _, _ = from.Close(), to.Close() })()
	var both sync.WaitGroup
	both.Go(func() { l.copy(to, from); _ = to.CloseWrite() })
	both.Go(func() { l.copy(from, to); _ = from.CloseWrite() })
	both.Wait()
}

// copy returns when there is nothing more to copy, which the other end learns no earlier than anything else.
func (l *link) copy(to io.Writer, from io.Reader) {
	chunk := make([]byte, 32<<10)
	for {
		n, err := from.Read(chunk)
		if !l.pass() {
			return
		}
		if n > 0 {
			if _, err := to.Write(chunk[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
