// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// newServer returns a stand-in for an API server. Its watches return a line for each word sent on events.
func newServer(t *testing.T) (server *httptest.Server, events chan string) {
	t.Helper()
	events = make(chan string)
	server = httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		writer.WriteHeader(http.StatusOK)
		for {
			_ = http.NewResponseController(writer).Flush()
			select {
			case word := <-events:
				_, _ = fmt.Fprintln(writer, word)
			case <-request.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return server, events
}

// watch returns the lines that come through the gate.
func watch(t *testing.T, p *Proxy, path string) <-chan string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Access().Host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-t.Context().Done():
				return
			}
		}
	}()
	return lines
}

// openGate returns a gate for watches of nodes, and the proxy that contains it, which is in front of the server.
func openGate(t *testing.T, server *httptest.Server) (*Gate, *Proxy) {
	t.Helper()
	gate, faults := &Gate{}, &Faults{}
	faults.During(t, WatchesOfNodes, gate.Answer)
	return gate, During(t, Config{Access: &rest.Config{Host: server.URL}, Over: faults.Over})
}

func expect(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	select {
	case got := <-lines:
		if got != want {
			t.Errorf("%q came, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%q did not come", want)
	}
}

func TestAGateHoldsBackWatchesOfNodesUntilItIsReleased(t *testing.T) {
	server, events := newServer(t)
	gate, p := openGate(t, server)
	nodes := watch(t, p, "/api/v1/nodes?watch=true&resourceVersion=1")
	events <- "before"
	expect(t, nodes, "before")

	gate.Hold()
	events <- "held"
	select {
	case got := <-nodes:
		t.Errorf("%q came through a gate that is closed", got)
	case <-time.After(300 * time.Millisecond):
	}
	gate.Release()
	gate.Release()
	expect(t, nodes, "held")
}

func TestAGateLetsPassWhatIsNotAWatchOfNodes(t *testing.T) {
	for _, path := range []string{"/api/v1/pods?watch=true", "/api/v1/nodes", "/api/v1/nodes/a?watch=false", "/apis/apps/v1/daemonsets?watch=true"} {
		t.Run(path, func(t *testing.T) {
			server, events := newServer(t)
			gate, p := openGate(t, server)
			gate.Hold()
			lines := watch(t, p, path)
			events <- "through"
			expect(t, lines, "through")
		})
	}
}
