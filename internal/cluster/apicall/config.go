// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// Config returns the configuration of the client of Taintkeeper's controllers: protobuf on the wire, no rate limit (see
// [Token]), and no hidden retries. By default, client-go waits and repeats a call that was answered with a Retry-After,
// up to ten times, and a pod whose taint is gone meanwhile would still be deleted. Here the queue waits, and decides
// again afterwards; for lists and watches, the reflector waits.
func Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.RateLimiter = -1, 0, nil
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return impatient{next} })
	return config
}

// Apart returns the configuration of a client with a connection of its own, and a function that closes the connection:
// calls then fail, and watches restart on another.
func Apart(config *rest.Config) (*rest.Config, func()) {
	dialer := connrotation.NewDialer(dialOf(config))
	config = rest.CopyConfig(config)
	config.Dial = dialer.DialContext
	return config, dialer.CloseAll
}

// dialOf returns how the client of a configuration connects.
func dialOf(config *rest.Config) connrotation.DialFunc {
	if config.Dial != nil {
		return config.Dial
	}
	const limit = 30 * time.Second // client-go's own
	return (&net.Dialer{Timeout: limit, KeepAlive: limit}).DialContext
}

// impatient turns answers after which client-go would wait and retry into errors.
type impatient struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i impatient) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := i.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	retryable := response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError
	after := response.Header.Get("Retry-After")
	if !retryable || after == "" {
		return response, nil
	}
	return nil, refusal(request, response, after)
}

// WrappedRoundTripper implements net.RoundTripperWrapper of k8s.io/apimachinery, as package timeline's listener does.
func (i impatient) WrappedRoundTripper() http.RoundTripper { return i.next }

func refusal(request *http.Request, response *http.Response, after string) error {
	const enough = 4096
	said, _ := io.ReadAll(io.LimitReader(response.Body, enough))
	_ = response.Body.Close()
	seconds, err := strconv.Atoi(after)
	if err != nil {
		seconds = 1
	}
	// Method and URL are added by net/http, which wraps the error.
	return apierrors.NewGenericServerResponse(response.StatusCode, strings.ToLower(request.Method),
		schema.GroupResource{}, "", string(said), max(seconds, 1), true)
}

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
