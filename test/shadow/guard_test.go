// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"

	"github.com/taintkeeper/taintkeeper/internal/controller/shadow"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

func TestBeyondTheLoopbackInterfaceTheReportIsForThoseWhoMayReadIt(t *testing.T) {
	address := rig.GuardedAddress(t)
	process, err := cluster.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{
		Binary: binary, Name: "guarded", Args: []string{"--shadow", "--metrics-bind-address=" + address},
	})
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, process.Stop()) })
	await.Eventually(t, "the report is served; making a certificate takes a moment", func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"nobody":                  {"", http.StatusUnauthorized},
		"an account that may not": {stage.Reader(t, "reader-of-nothing", "/metrics"), http.StatusForbidden},
		"an account that may":     {stage.Reader(t, "reader-of-the-report", shadow.Path), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, "https://"+address+shadow.Path, test.token); got != test.want {
				t.Errorf("the answer is %d, want %d", got, test.want)
			}
		})
	}
}

// ask requests a URL with a token, or without one, and returns the status of the answer. It trusts any certificate: the
// server makes one of its own.
func ask(t *testing.T, url, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	await.Must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	await.Must(t, err)
	await.Must(t, answer.Body.Close())
	return answer.StatusCode
}
