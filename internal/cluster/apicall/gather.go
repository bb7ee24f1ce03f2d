// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"bufio"
	"context"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// Gathered returns the configuration of a client for a watch that brings many small events, none of them urgent. What
// the API server sends is read at most once per interval, unless there is a lot of it, because nearly the whole cost of
// such an event is waking up for it. The client has a connection of its own.
func Gathered(config *rest.Config, every time.Duration) *rest.Config {
	dial := dialOf(config)
	config = rest.CopyConfig(config)
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gatheredConn{Conn: conn, reader: bufio.NewReaderSize(conn, gatheredBuffer), every: every}, nil
	}
	return config
}

// gatheredBuffer is how much is read at once. If a read fills at least a quarter of it, the next follows at once, so
// that a list does not take long.
const gatheredBuffer = 64 << 10

// gatheredConn is read by one goroutine at a time, as is every connection of net/http.
type gatheredConn struct {
	net.Conn

	reader *bufio.Reader
	every  time.Duration
	next   time.Time // when the next read is due
}

// Read implements net.Conn.
func (c *gatheredConn) Read(p []byte) (int, error) {
	if c.reader.Buffered() == 0 {
		time.Sleep(time.Until(c.next))
		if _, err := c.reader.Peek(1); err != nil {
			return 0, err
		}
		c.next = time.Time{}
		if c.reader.Buffered() < gatheredBuffer/4 {
			c.next = time.Now().Add(c.every)
		}
	}
	return c.reader.Read(p)
}
