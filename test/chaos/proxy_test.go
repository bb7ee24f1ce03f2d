// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// server replaces the API server: it counts what arrives and answers everything with 200. A watch returns the lines that
// are sent to the server's channel.
type server struct {
	url     string
	lines   chan string
	arrived atomic.Int64
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{lines: make(chan string)}
	serving := httptest.NewServer(s)
	t.Cleanup(func() {
		serving.CloseClientConnections()
		serving.Close()
	})
	s.url = serving.URL
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	s.arrived.Add(1)
	w.Header().Set("Content-Type", "application/json")
	if request.URL.Query().Get("watch") == "" {
		_, _ = io.WriteString(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"pod"}}`)
		return
	}
	for {
		w.(http.Flusher).Flush()
		select {
		case line := <-s.lines:
			_, _ = io.WriteString(w, line+"\n")
		case <-request.Context().Done():
			return
		}
	}
}

// newTestProxy returns a proxy in front of a server. The proxy does to each call what is planned.
func newTestProxy(t *testing.T, s *server, planned plan) *replicaProxy {
	t.Helper()
	p, err := newProxy("a", &rest.Config{Host: s.url}, newWeather(rand.New(rand.NewPCG(1, 1))), newLedger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	p.run.Store(1)
	p.draw = func(*call) plan { return planned }
	return p
}

// noted waits until the ledger has so many calls, which it gets when the proxy is done with them.
func noted(t *testing.T, p *replicaProxy, n int) []*call {
	t.Helper()
	for t.Context().Err() == nil {
		if page := p.ledger.read(); len(page.calls) >= n {
			return page.calls
		}
		pause(t.Context(), time.Millisecond)
	}
	t.Fatalf("the ledger has fewer than %d calls", n)
	return nil
}

// TestEachFaultOfACallDoesWhatItSays, to the DELETE of a client.
func TestEachFaultOfACallDoesWhatItSays(t *testing.T) {
	const delay = 50 * time.Millisecond
	tests := map[faultKind]struct {
		arrives int64 // calls at the API server
		heard   int   // by the replica; 0 if its connection is closed
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
	if len(tests) != 1+len(callFaults) {
		t.Error("a fault is not tested")
	}
	for fault, test := range tests {
		t.Run(string(fault), func(t *testing.T) {
			s := newServer(t)
			p := newTestProxy(t, s, plan{fault: fault, delay: delay, retry: 2 * time.Second})
			got := send(t, p, http.MethodDelete, "/api/v1/namespaces/default/pods/pod", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"1234"}}`)
			if s.arrived.Load() != test.arrives || got.status != test.heard || (got.retryAfter == "2") != (fault == tooMany) || test.delayed && got.took < delay {
				t.Errorf("the API server got %d calls, the replica %+v; want %+v", s.arrived.Load(), got, test)
			}
			want := call{process: process{"a", 1}, kind: deletePod, name: "default/pod", uid: "1234", heard: test.heard}
			if fault != "" {
				want.faults = []faultKind{fault}
			}
			checkNoted(t, p, want, test.arrives == 1)
		})
	}
}

// checkNoted checks what the ledger has of the only call.
func checkNoted(t *testing.T, p *replicaProxy, want call, accepted bool) {
	t.Helper()
	c := noted(t, p, 1)[0]
	got := call{process: c.process, kind: c.kind, name: c.name, uid: c.uid, heard: c.heard, faults: c.faults}
	if !reflect.DeepEqual(got, want) || c.accepted() != accepted || c.told.Before(c.received) {
		t.Errorf("the ledger has %+v, want %+v, accepted %t", c, want, accepted)
	}
	for _, fault := range want.faults {
		if p.ledger.read().injected[fault] != 1 {
			t.Errorf("%q is not counted", fault)
		}
	}
}

// answer is what a replica gets; nothing if its connection is closed.
type answer struct {
	status     int
	retryAfter string
	took       time.Duration
	lines      *bufio.Scanner
}

// send sends a call through the proxy.
func send(t *testing.T, p *replicaProxy, method, path, body string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, p.Access().Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}
	}
	t.Cleanup(func() { _ = got.Body.Close() })
	return answer{got.StatusCode, got.Header.Get("Retry-After"), time.Since(began), bufio.NewScanner(got.Body)}
}

func TestWatchesAreCutHeldUpAndRefused(t *testing.T) {
	s := newServer(t)
	p := newTestProxy(t, s, plan{})
	opened := func() (int, *bufio.Scanner) {
		got := send(t, p, http.MethodGet, "/api/v1/pods?watch=true", "")
		return got.status, got.lines
	}
	refuses := func(want bool) {
		t.Helper()
		if status, _ := opened(); (status == http.StatusServiceUnavailable) != want {
			t.Errorf("a new watch is answered %d", status)
		}
	}
	brings := func(lines *bufio.Scanner, line string) {
		t.Helper()
		s.lines <- line
		if !lines.Scan() || lines.Text() != line {
			t.Fatalf("the watch returns %q, %v", lines.Text(), lines.Err())
		}
	}
	ends := func(lines *bufio.Scanner) {
		t.Helper()
		if lines.Scan() || !errors.Is(lines.Err(), io.ErrUnexpectedEOF) {
			t.Errorf("the watch returns %q and ends with %v, want the connection closed", lines.Text(), lines.Err())
		}
	}
	_, lines := opened()
	brings(lines, "first")
	p.inject(cutWatch, 0)
	ends(lines)

	const held = 80 * time.Millisecond
	_, lines = opened()
	began := time.Now()
	p.inject(stalledWatch, held)
	brings(lines, "late")
	if took := time.Since(began); took < held {
		t.Errorf("the event came after %s, want at least %s", took, held)
	}
	p.inject(cutAll, 0)
	ends(lines)
	p.inject(cutAll, 0) // no watch is open, so this is nothing

	_, lines = opened()
	p.inject(refusedWatch, time.Hour)
	ends(lines)
	refuses(true)
	p.release()
	refuses(false)

	page := p.ledger.read()
	want := map[faultKind]int{cutWatch: 1, cutAll: 2, stalledWatch: 1, refusedWatch: 1}
	if fmt.Sprint(page.injected) != fmt.Sprint(want) {
		t.Errorf("injected %v, want %v", page.injected, want)
	}
	var noted []string
	for _, s := range page.streams {
		noted = append(noted, fmt.Sprintf("%s closed %t stalls %d", s.kind, !s.closed.IsZero(), len(s.stalls)))
	}
	const cut, stalled, still = "WATCH pods closed true stalls 0", "WATCH pods closed true stalls 1", "WATCH pods closed false stalls 0"
	if !slices.Equal(noted, []string{cut, stalled, cut, still}) {
		t.Errorf("the ledger has %v", noted)
	}
}

func TestTheProxyUnderstandsWhatAClientSends(t *testing.T) {
	p := newTestProxy(t, newServer(t), plan{})
	var want []types.UID
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		config := p.Access()
		config.ContentType = contentType
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, options := range []metav1.DeleteOptions{{Preconditions: metav1.NewUIDPreconditions("1234")}, {}} {
			if err := client.CoreV1().Pods("default").Delete(t.Context(), "pod", options); err != nil {
				t.Fatal(err)
			}
		}
		want = append(want, "1234", "")
	}
	var uids []types.UID
	for _, c := range noted(t, p, 4) {
		uids = append(uids, c.uid)
	}
	if !slices.Equal(uids, want) {
		t.Errorf("UID preconditions %q", uids)
	}
}

func TestWhatCallsAreOf(t *testing.T) {
	const holder = "host-1.local_01234567-89ab-cdef-0123-456789abcdef"
	const lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/taintkeeper"
	marking := `{"metadata":{"uid":"u"},"status":{"conditions":[{"type":"DisruptionTarget","status":"%s"}]}}`
	for sent, want := range map[string]call{
		"DELETE /api/v1/namespaces/ns/pods/p {}":                                     {kind: deletePod, name: "ns/p"},
		"GET /api/v1/namespaces/ns/pods/p {}":                                        {kind: getPod, name: "ns/p"},
		"PATCH /api/v1/namespaces/ns/pods/p/status {}":                               {kind: patchPod, name: "ns/p"},
		"PATCH /api/v1/namespaces/ns/pods/p/status " + fmt.Sprintf(marking, "True"):  {kind: patchPod, name: "ns/p", uid: "u"},
		"PATCH /api/v1/namespaces/ns/pods/p/status " + fmt.Sprintf(marking, "False"): {kind: keepPod, name: "ns/p", uid: "u"},
		"GET /api/v1/nodes/n {}":                                                     {kind: getNode, name: "n"},
		"PATCH /api/v1/nodes/n {}":                                                   {kind: patchNode, name: "n"},
		"GET /api/v1/pods?watch=true&fieldSelector=a {}":                             {kind: watchPods},
		"GET /api/v1/nodes?watch=1 {}":                                               {kind: watchNodes},
		"PATCH /api/v1/namespaces/ns/serviceaccounts/taintkeeper-eviction-clock {}":  {kind: clockCall},
		"PUT " + lease + ` {"spec":{"holderIdentity":"` + holder + `"}}`:             {kind: electCall, holder: holder},
		"GET /api/v1/nodes?limit=500 {}":                                             {kind: otherCall},
		"POST /api/v1/namespaces/ns/events {}":                                       {kind: otherCall},
		"DELETE /api/v1/namespaces/ns/pods {}":                                       {kind: otherCall},
		"PATCH /api/v1/namespaces/ns/pods/p {}":                                      {kind: otherCall},
		"DELETE /api/v1/nodes/n {}":                                                  {kind: otherCall},
	} {
		words := strings.SplitN(sent, " ", 3)
		request := httptest.NewRequest(words[0], words[1], strings.NewReader(words[2]))
		c, err := readCall(request, time.Now())
		if err != nil || c.kind != want.kind || want.kind != otherCall && c.name != want.name || c.uid != want.uid || c.holder != want.holder {
			t.Errorf("%s: %+v, %v", sent, c, err)
		}
		if body, err := io.ReadAll(request.Body); err != nil || string(body) != words[2] {
			t.Errorf("%s: the body is %q afterwards, %v", sent, body, err)
		}
	}
}
