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

func TestAGateHoldsBackWatchesOfNodesAndNothingElse(t *testing.T) {
	for path, held := range map[string]bool{
		"/api/v1/nodes?watch=true&resourceVersion=1": true, "/api/v1/nodes?watch=1": true,
		"/api/v1/pods?watch=true": false, "/api/v1/nodes": false, "/api/v1/nodes/a?watch=false": false, "/apis/apps/v1/daemonsets?watch=true": false,
	} {
		t.Run(path, func(t *testing.T) {
			server, events := newServer(t)
			gate, faults := &Gate{}, &Faults{}
			faults.During(t, WatchesOfNodes, gate.Answer)
			lines := watch(t, During(t, Config{Access: &rest.Config{Host: server.URL}, Over: faults.Over}), path)
			events <- "before"
			expect(t, lines, "before")
			gate.Hold()
			events <- "held"
			if held {
				select {
				case got := <-lines:
					t.Errorf("%q came through a gate that is closed", got)
				case <-time.After(100 * time.Millisecond):
				}
				gate.Release()
				gate.Release()
			}
			expect(t, lines, "held")
		})
	}
}
