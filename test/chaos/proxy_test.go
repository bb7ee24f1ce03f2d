// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// server replaces the API server: it notes what arrives and answers everything with 200. A watch returns the lines that
// are sent to the server's channel.
type server struct {
	*httptest.Server

	lines chan string

	mu      sync.Mutex
	arrived []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{lines: make(chan string)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *server) serve(w http.ResponseWriter, request *http.Request) {
	s.mu.Lock()
	s.arrived = append(s.arrived, request.Method)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if request.URL.Query().Get("watch") == "" {
		_, _ = io.WriteString(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"pod"}}`)
		return
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case line := <-s.lines:
			_, _ = io.WriteString(w, line+"\n")
			w.(http.Flusher).Flush()
		case <-request.Context().Done():
			return
		}
	}
}

func (s *server) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, arrived := range s.arrived {
		if arrived == method {
			n++
		}
	}
	return n
}

// newTestProxy returns a proxy in front of a server. The proxy does to each call what is planned.
func newTestProxy(t *testing.T, s *server, planned plan) *replicaProxy {
	t.Helper()
	p, err := newProxy("a", &rest.Config{Host: s.URL}, newWeather(rand.New(rand.NewPCG(1, 1))), newLedger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	p.run.Store(1)
	p.draw = func(*call) plan { return planned }
	return p
}

func TestEachFaultOfACallDoesWhatItSays(t *testing.T) {
	const delay = 50 * time.Millisecond
	tests := map[faultKind]struct {
		arrives int // calls at the API server
		heard   int // by the replica; 0 if its connection is closed
		delayed bool
	}{
		"":            {arrives: 1, heard: 200},
		delayedCall:   {arrives: 1, heard: 200, delayed: true},
		delayedAnswer: {arrives: 1, heard: 200, delayed: true},
		droppedCall:   {},
		droppedAnswer: {arrives: 1},
		conflict:      {heard: 409},
		tooMany:       {heard: 429},
		internalError: {heard: 500},
		unavailable:   {heard: 503},
	}
	for fault, test := range tests {
		t.Run(string(fault), func(t *testing.T) {
			s := newServer(t)
			p := newTestProxy(t, s, plan{fault: fault, delay: delay, retry: 2 * time.Second})
			began := time.Now()
			status, retryAfter, err := remove(t, p)
			took := time.Since(began)

			if s.count(http.MethodDelete) != test.arrives {
				t.Errorf("the API server got %d calls, want %d", s.count(http.MethodDelete), test.arrives)
			}
			switch {
			case test.heard == 0 && err == nil:
				t.Errorf("the replica was answered %d, want no answer", status)
			case test.heard != 0 && err != nil:
				t.Errorf("the replica was not answered: %v", err)
			case status != test.heard:
				t.Errorf("the replica was answered %d, want %d", status, test.heard)
			case fault == tooMany && retryAfter != "2":
				t.Errorf("Retry-After %q, want 2", retryAfter)
			}
			if test.delayed && took < delay {
				t.Errorf("it took %s, want at least %s", took, delay)
			}
			checkLedger(t, p, fault, test.arrives == 1, test.heard)
		})
	}
}

// remove deletes a pod through the proxy, with a UID precondition.
func remove(t *testing.T, p *replicaProxy) (status int, retryAfter string, err error) {
	t.Helper()
	body := `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"1234"}}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, p.Access().Host+"/api/v1/namespaces/default/pods/pod", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Header.Get("Retry-After"), err
}

func checkLedger(t *testing.T, p *replicaProxy, fault faultKind, carriedOut bool, heard int) {
	t.Helper()
	c := waitForCall(t, p)
	if c.kind != deletePod || c.name != "default/pod" || c.uid != "1234" || c.replica != "a" || c.run != 1 {
		t.Errorf("the ledger has %+v", c)
	}
	if c.accepted() != carriedOut || c.heard != heard {
		t.Errorf("the ledger says that the API server answered %d and the replica heard %d", c.answer, c.heard)
	}
	if times := []time.Time{c.received, c.told}; c.told.IsZero() || !slices.IsSortedFunc(times, time.Time.Compare) {
		t.Errorf("received %s, told %s", c.received, c.told)
	}
	if fault != "" {
		checkFault(t, p, c, fault)
	}
}

func checkFault(t *testing.T, p *replicaProxy, c *call, fault faultKind) {
	t.Helper()
	if page := p.ledger.page(); page.injected[fault] != 1 || !slices.Equal(c.faults, []faultKind{fault}) {
		t.Errorf("counted %v, noted %v, want one %s", page.injected, c.faults, fault)
	}
}

// waitForCall waits until the ledger has the call, which it gets when the proxy is done with it.
func waitForCall(t *testing.T, p *replicaProxy) *call {
	t.Helper()
	for {
		if page := p.ledger.page(); len(page.calls) > 0 {
			return page.calls[0]
		}
		if t.Context().Err() != nil {
			t.Fatal("the ledger has no call")
		}
		pause(t.Context(), time.Millisecond)
	}
}

// openWatch opens a watch of pods through the proxy, and returns its lines.
func openWatch(t *testing.T, p *replicaProxy) (status int, lines *bufio.Scanner) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Access().Host+"/api/v1/pods?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer.StatusCode, bufio.NewScanner(answer.Body)
}

func TestACutWatchEndsInTheMiddle(t *testing.T) {
	s := newServer(t)
	p := newTestProxy(t, s, plan{})
	_, lines := openWatch(t, p)
	s.lines <- "first"
	if !lines.Scan() || lines.Text() != "first" {
		t.Fatalf("the watch returns %q, %v", lines.Text(), lines.Err())
	}
	p.inject(cutAll, 0)
	if lines.Scan() || !errors.Is(lines.Err(), io.ErrUnexpectedEOF) {
		t.Errorf("the watch returns %q and ends with %v, want the connection closed", lines.Text(), lines.Err())
	}
	page := p.ledger.page()
	if len(page.streams) != 1 || page.streams[0].kind != watchPods || page.streams[0].closed.IsZero() || page.injected[cutAll] != 1 {
		t.Errorf("the ledger has %+v, injected %v", page.streams, page.injected)
	}
}

func TestAWatchThatIsHeldUpBringsItsEventsAfterwards(t *testing.T) {
	const held = 80 * time.Millisecond
	s := newServer(t)
	p := newTestProxy(t, s, plan{})
	_, lines := openWatch(t, p)
	began := time.Now()
	p.inject(stalledWatch, held)
	s.lines <- "late"
	if !lines.Scan() || lines.Text() != "late" {
		t.Fatalf("the watch returns %q, %v", lines.Text(), lines.Err())
	}
	if took := time.Since(began); took < held {
		t.Errorf("the event came after %s, want at least %s", took, held)
	}
	if page := p.ledger.page(); len(page.streams) != 1 || len(page.streams[0].stalls) != 1 || page.injected[stalledWatch] != 1 {
		t.Errorf("the ledger has %+v, injected %v", page.streams, page.injected)
	}
}

func TestWatchesAreRefusedForAWhile(t *testing.T) {
	s := newServer(t)
	p := newTestProxy(t, s, plan{})
	openWatch(t, p)
	p.inject(refusedWatch, time.Hour)
	if status, _ := openWatch(t, p); status != http.StatusServiceUnavailable {
		t.Errorf("a new watch is answered %d, want 503", status)
	}
	p.watches.release()
	if status, _ := openWatch(t, p); status != http.StatusOK {
		t.Errorf("a new watch is answered %d, want 200", status)
	}
	if injected := p.ledger.page().injected; injected[cutAll] != 1 || injected[refusedWatch] != 1 {
		t.Errorf("injected %v, want the open watch cut and the next one refused", injected)
	}
}

func TestTheProxyUnderstandsWhatAClientSends(t *testing.T) {
	s := newServer(t)
	p := newTestProxy(t, s, plan{})
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		config := p.Access()
		config.ContentType = contentType
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		err = client.CoreV1().Pods("default").Delete(t.Context(), "pod", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("1234")})
		if err != nil {
			t.Fatal(err)
		}
		if err := client.CoreV1().Pods("default").Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitForCall(t, p)
	var uids []string
	for len(uids) < 4 && t.Context().Err() == nil {
		uids = nil
		for _, c := range p.ledger.page().calls {
			uids = append(uids, string(c.uid))
		}
	}
	if !slices.Equal(uids, []string{"1234", "", "1234", ""}) {
		t.Errorf("UID preconditions %q", uids)
	}
}
