// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// faults is a transport that does to some calls what a test asks for, on their way to a real API
// server. Safe for concurrent use.
type faults struct {
	next http.RoundTripper

	mu    *sync.RWMutex
	rules *[]*fault
}

// fault says what happens to the calls that it concerns.
type fault struct {
	concerns func(*http.Request) bool
	answer   func(*http.Request, http.RoundTripper) (*http.Response, error)
}

func newFaults() *faults { return &faults{mu: &sync.RWMutex{}, rules: &[]*fault{}} }

// over returns the transport that has these faults and the calls that nothing happens to go on to.
func (f *faults) over(next http.RoundTripper) http.RoundTripper {
	return &faults{next: next, mu: f.mu, rules: f.rules}
}

// RoundTrip implements http.RoundTripper.
func (f *faults) RoundTrip(request *http.Request) (*http.Response, error) {
	if rule := f.rule(request); rule != nil {
		return rule.answer(request, f.next)
	}
	return f.next.RoundTrip(request)
}

func (f *faults) rule(request *http.Request) *fault {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, rule := range *f.rules {
		if rule.concerns(request) {
			return rule
		}
	}
	return nil
}

// add lets something happen to calls until the test ends.
func (f *faults) add(t *testing.T, concerns func(*http.Request) bool, answer func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	rule := &fault{concerns: concerns, answer: answer}
	f.mu.Lock()
	defer f.mu.Unlock()
	*f.rules = append(*f.rules, rule)
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		*f.rules = slices.DeleteFunc(*f.rules, func(other *fault) bool { return other == rule })
	})
}

// Which calls a fault concerns.

func podDeletes(namespace string) func(*http.Request) bool {
	return podCalls(http.MethodDelete, namespace, "")
}

func podStatusPatches(namespace string) func(*http.Request) bool {
	return podCalls(http.MethodPatch, namespace, "/status")
}

func podCalls(method, namespace, suffix string) func(*http.Request) bool {
	prefix := "/api/v1/namespaces/" + namespace + "/pods/"
	return func(request *http.Request) bool {
		return request.Method == method && strings.HasPrefix(request.URL.Path, prefix) && strings.HasSuffix(request.URL.Path, suffix)
	}
}

func patchesOfNode(name string) func(*http.Request) bool {
	return func(request *http.Request) bool {
		return request.Method == http.MethodPatch && request.URL.Path == "/api/v1/nodes/"+name
	}
}

func watchesOfNodes(request *http.Request) bool { return watchesOf("/api/v1/nodes", request) }

func watchesOfPods(request *http.Request) bool { return watchesOf("/api/v1/pods", request) }

func watchesOf(path string, request *http.Request) bool {
	return request.Method == http.MethodGet && request.URL.Path == path && request.URL.Query().Get("watch") != ""
}

// instants notes when something happened. Safe for concurrent use.
type instants struct {
	mu  sync.Mutex
	all []time.Time
}

// note returns how often it has happened, this time included.
func (i *instants) note() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, time.Now())
	return len(i.all)
}

func (i *instants) get() []time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.all)
}

// refusal is how an API server refuses a call.
type refusal struct {
	code       int
	reason     metav1.StatusReason
	retryAfter string // seconds; empty: it does not say
}

var (
	failing    = refusal{code: http.StatusInternalServerError, reason: metav1.StatusReasonInternalError}
	forbidding = refusal{code: http.StatusForbidden, reason: metav1.StatusReasonForbidden}
)

func busyFor(seconds string) refusal {
	return refusal{code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests, retryAfter: seconds}
}

func (r refusal) response(request *http.Request) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(r.code), Reason: r.reason, Message: "not today",
	})
	if err != nil {
		panic(err) // a Status can always be encoded
	}
	response := &http.Response{
		StatusCode: r.code, Request: request, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if r.retryAfter != "" {
		response.Header.Set("Retry-After", r.retryAfter)
	}
	return response
}

// refusing refuses the first calls and passes the later ones on. It notes when each came.
type refusing struct {
	instants

	times int
	with  refusal
}

func (r *refusing) answer(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	if r.note() > r.times {
		return next.RoundTrip(request)
	}
	return r.with.response(request), nil
}

// delay sends calls on after a while, as a slow network or admission would.
type delay time.Duration

func (d delay) answer(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	timer := time.NewTimer(time.Duration(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return next.RoundTrip(request)
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

// stall can hold up the streams of watches, so that a cache falls behind.
type stall struct {
	mu   sync.Mutex
	held chan struct{} // nil: nothing is held up
}

func (s *stall) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = make(chan struct{})
}

// end lets go what is held up, if anything is.
func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		close(s.held)
		s.held = nil
	}
}

func (s *stall) wait() {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held != nil {
		<-held
	}
}

// watch is the answer to a watch whose stream can be held up.
func (s *stall) watch(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err == nil {
		response.Body = stalledBody{response.Body, s}
	}
	return response, err
}

type stalledBody struct {
	io.ReadCloser
	stall *stall
}

// Read returns what came only when nothing is held up: a read may have begun before the stall.
func (b stalledBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.stall.wait()
	return n, err
}

// proxy puts the faults between another process and the API server. It returns how to reach the
// API server through it, as our user.
func (f *faults) proxy(t *testing.T) *rest.Config {
	t.Helper()
	transport, err := rest.TransportFor(userConfig)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(userConfig.Host)
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(server) },
		Transport:     f.over(transport),
		FlushInterval: -1,                         // watches bring their events at once
		ErrorLog:      log.New(io.Discard, "", 0), // the caller gets the error too
	})
	t.Cleanup(func() {
		listener.CloseClientConnections()
		listener.Close()
	})
	return &rest.Config{Host: listener.URL}
}
