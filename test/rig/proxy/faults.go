// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer answers a call instead of the next transport, or sends it on.
type Answer func(request *http.Request, next http.RoundTripper) (*http.Response, error)

// Faults makes calls to a real API server fail or wait, as a test asks. It is safe for concurrent use.
type Faults struct {
	mu    sync.RWMutex
	rules []*fault
}

// fault is what happens to the calls that it concerns.
type fault struct {
	concerns Calls
	answer   Answer
}

// Over returns the transport with these faults. Other calls are passed on to next.
func (f *Faults) Over(next http.RoundTripper) http.RoundTripper { return faulty{f, next} }

type faulty struct {
	*Faults

	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f faulty) RoundTrip(request *http.Request) (*http.Response, error) {
	if rule := f.rule(request); rule != nil {
		return rule.answer(request, f.next)
	}
	return f.next.RoundTrip(request)
}

func (f *Faults) rule(request *http.Request) *fault {
	f.mu.RLock()
	defer f.mu.RUnlock()
	i := slices.IndexFunc(f.rules, func(rule *fault) bool { return rule.concerns(request) })
	if i < 0 {
		return nil
	}
	return f.rules[i]
}

// Add adds a fault until the returned function is called. If several faults concern a call, the first counts.
func (f *Faults) Add(concerns Calls, answer Answer) (remove func()) {
	rule := &fault{concerns: concerns, answer: answer}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, rule)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rules = slices.DeleteFunc(f.rules, func(other *fault) bool { return other == rule })
	}
}

// During is [Faults.Add] until a test ends.
func (f *Faults) During(t testing.TB, concerns Calls, answer Answer) {
	t.Cleanup(f.Add(concerns, answer))
}

// Refusal is how an API server refuses a call.
type Refusal struct {
	Code       int
	Reason     metav1.StatusReason
	RetryAfter time.Duration // whole seconds; 0 for no Retry-After header
}

// Refusals that an API server knows.
var (
	Failing     = Refusal{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
	Conflicting = Refusal{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
	Unavailable = Refusal{Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable}
)

// BusyFor asks the caller to try again after a while.
func BusyFor(d time.Duration) Refusal {
	return Refusal{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, RetryAfter: d}
}

// Response is the answer to a call that is refused.
func (r Refusal) Response(request *http.Request) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(r.Code), Reason: r.Reason, Message: "not today",
	})
	if err != nil {
		panic(err) // a Status can always be encoded
	}
	response := &http.Response{
		StatusCode: r.Code, Request: request, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if r.RetryAfter > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(r.RetryAfter.Seconds())))
	}
	return response
}

// Instants records when something happened. It is safe for concurrent use.
type Instants struct {
	mu  sync.Mutex
	all []time.Time
}

// Note says that it has happened.
func (i *Instants) Note() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, time.Now())
}

// All returns when it happened, in order.
func (i *Instants) All() []time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.all)
}

// Delay sends calls on after a while, as a slow network or admission would.
func Delay(d time.Duration) Answer {
	return func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return next.RoundTrip(request)
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
}
