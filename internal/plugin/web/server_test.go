// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// connection belongs to a page that can stop reading.
type connection struct {
	mu       sync.Mutex
	read     bytes.Buffer
	stuck    bool
	deadline time.Time
}

func (c *connection) Header() http.Header { return http.Header{} }
func (c *connection) WriteHeader(int)     {}
func (c *connection) Flush()              {}

// SetWriteDeadline is for http.ResponseController.
func (c *connection) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = at
	return nil
}

// Write implements io.Writer.
func (c *connection) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stuck {
		return c.read.Write(data)
	}
	<-time.After(time.Until(c.deadline))
	return 0, os.ErrDeadlineExceeded
}

// updates returns how many updates were read.
func (c *connection) updates() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.read.String(), "data: ")
}

func TestAPageThatDoesNotReadDelaysNobodyAndIsDisconnected(t *testing.T) {
	play(t, func(s *scene) {
		s.node("n")
		s.open()
		quick, slow := &connection{}, &connection{stuck: true}
		cutOff := make(chan struct{})
		request := httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "/", http.NoBody)
		go s.board.serveEvents(quick, request)
		go func() { defer close(cutOff); s.board.serveEvents(slow, request) }()
		synctest.Wait()
		for range 5 {
			before := quick.updates()
			s.node("n", tainted("k"))
			s.pass(time.Second)
			s.node("n")
			s.pass(time.Second)
			if quick.updates() < before+2 {
				t.Errorf("the quick page has read %d updates, and no more after two changes", before)
			}
		}
		s.pass(time.Second)
		select {
		case <-cutOff:
		default:
			t.Error("the slow page is still connected")
		}
	})
}

func TestAPageIsSentTheTimeEvenIfNothingChanges(t *testing.T) {
	play(t, func(s *scene) {
		s.open()
		quiet := &connection{}
		go s.board.serveEvents(quiet, httptest.NewRequestWithContext(s.t.Context(), http.MethodGet, "/", http.NoBody))
		synctest.Wait()
		before := quiet.updates()
		s.pass(time.Minute)
		if got := quiet.updates() - before; got < 12 {
			t.Errorf("it is sent %d updates in a minute", got)
		}
	})
}

// served answers one request to a board of a cluster with an odd name.
func served(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	return servedAt(t, "127.0.0.1:8080", method, path)
}

// servedAt does the same with a Host header.
func servedAt(t *testing.T, host, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	shown := New(Config{Cluster: "</style><script>alert(1)</script>", Now: time.Now})
	request := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	request.Host = host
	request.Header.Set("Origin", "http://evil.example")
	shown.Handler("secret").ServeHTTP(recorder, request)
	return recorder
}

func TestOnlyThisMachineIsAnswered(t *testing.T) {
	for _, host := range []string{"127.0.0.1:8080", "localhost:8080", "[::1]:8080", "127.0.0.1", "localhost"} {
		expect(t, host, servedAt(t, host, http.MethodGet, "/secret/").Code, http.StatusOK)
	}
	for _, host := range []string{"evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.1:8080", "0.0.0.0:8080", ""} {
		for _, path := range []string{"/secret/", "/secret/events"} {
			expect(t, host+path, servedAt(t, host, http.MethodGet, path).Code, http.StatusForbidden)
		}
	}
}

func TestNoOtherSiteMayReadIt(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodOptions} {
		for name := range served(t, method, "/secret/").Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s is answered with %s", method, name)
			}
		}
	}
}

func TestWithoutTheSecretThereIsNothing(t *testing.T) {
	for _, path := range []string{"/", "/events", "/secre/", "/secret", "/secrets/", "/secre/events", "//secret/", "/x/secret/", "/?token=secret"} {
		expect(t, path, served(t, http.MethodGet, path).Code, http.StatusNotFound)
	}
	expect(t, "with the secret", served(t, http.MethodGet, "/secret/").Code, http.StatusOK)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		expect(t, method, served(t, method, "/secret/").Code, http.StatusMethodNotAllowed)
	}
	if a, b := NewToken(), NewToken(); a == b || len(a) < 26 {
		t.Errorf("secrets are %q and %q", a, b)
	}
}

func TestThePageAsksForNothingButItsEvents(t *testing.T) {
	response := served(t, http.MethodGet, "/secret/")
	if strings.Contains(response.Body.String(), "<script>alert") {
		t.Error("the name of the cluster is run")
	}
	policy := response.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy is %q, without %q", policy, want)
		}
	}
	for _, never := range []string{"unsafe", "http:", "https:", "*"} {
		if strings.Contains(policy, never) {
			t.Errorf("the policy is %q, with %q", policy, never)
		}
	}
	for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin"} {
		expect(t, name, response.Header().Get(name), want)
	}
}
