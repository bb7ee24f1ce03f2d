// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
	"github.com/taintkeeper/taintkeeper/test/web"
)

// get requests an address. The caller closes the body.
func get(t *testing.T, address string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func TestABoardIsServedUntilItIsInterruptedAndEndsItsPages(t *testing.T) {
	apiServer := answers(t, map[string]func(http.ResponseWriter){"version": status(http.StatusForbidden, "Forbidden")})
	address, end, err := web.Serve(t.Context(), "--server="+apiServer)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("the address is %s", address)
	}
	response := get(t, address+"events")
	defer response.Body.Close()
	events := bufio.NewReader(response.Body)
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatalf("the page has not been sent the node: %v", err)
		}
		if strings.Contains(line, `"nodes/n-1":`) {
			break
		}
	}
	if err := end(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	_, _ = io.Copy(io.Discard, events) // it ends
}

func TestAnErrorSaysThatAPortIsInUse(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	got := run(t, "board", "--server=http://127.0.0.1:1", "--port="+port)
	want := "error: serve on port " + port + ": it is in use: choose another --port, or remove --port to use a free one\n"
	if got.err != want || got.code != cmd.ExitFailed || got.out != "" {
		t.Errorf("it prints %q and %q with code %s, want %q", got.out, got.err, strconv.Itoa(got.code), want)
	}
}
