// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	certutil "k8s.io/client-go/util/cert"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// serveMetrics is serve with metrics at an address; making a certificate for them takes a moment.
func serveMetrics(t *testing.T, address string, args ...string) *process {
	t.Helper()
	p := serve(t, userConfig, append(args, "--leader-elect=false", "--metrics-bind-address="+address)...)
	p.says(t, "Serving metrics server")
	return p
}

// scrape asks for metrics with a token, or without one, and returns the status and the body of the answer.
func scrape(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	await.Must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	await.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	await.Must(t, err)
	return response.StatusCode, string(body)
}

func trusting(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

func TestMetricsThatLeaveTheLoopbackInterfaceAreForThoseWhoMayReadThem(t *testing.T) {
	s := newScene(t)
	address := rig.GuardedAddress(t)
	p := serveMetrics(t, address)
	anyone := trusting(&tls.Config{InsecureSkipVerify: true}) // its certificate is self-signed
	for _, test := range []struct {
		name, token string
		want        int
	}{
		{"nobody", "", http.StatusUnauthorized},
		{"an invalid token", "wrong", http.StatusUnauthorized},
		{"an account that may not", s.Reader(t, "may-not", "/elsewhere"), http.StatusForbidden},
		{"an account that may", s.Reader(t, "may", "/metrics"), http.StatusOK},
	} {
		code, body := scrape(t, anyone, "https://"+address+"/metrics", test.token)
		if told := strings.Contains(body, "taintkeeper_tainted_nodes"); code != test.want || told != (test.want == http.StatusOK) {
			t.Errorf("%s gets %d, want %d; with metrics: %t", test.name, code, test.want, told)
		}
	}
	if _, err := get(t.Context(), "http://"+address+"/metrics"); err == nil {
		t.Error("they are served without TLS, too")
	}
	p.terminate(t)
}

func TestMetricsAreServedWithACertificateThatIsGiven(t *testing.T) {
	s := newScene(t)
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	await.Must(t, err)
	dir, trusted := t.TempDir(), x509.NewCertPool()
	await.Must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
	await.Must(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	trusted.AppendCertsFromPEM(cert)
	address := rig.GuardedAddress(t)
	serveMetrics(t, address, "--metrics-cert-dir="+dir)
	client := trusting(&tls.Config{RootCAs: trusted, ServerName: "localhost"})
	if code, _ := scrape(t, client, "https://"+address+"/metrics", s.Reader(t, "may", "/metrics")); code != http.StatusOK {
		t.Errorf("status %d", code)
	}
}

func TestMissingRightsToAuthorizeReadersOfMetricsAreReportedAtTheStart(t *testing.T) {
	nobody, err := cluster.ConfigFor("nobody")
	await.Must(t, err)
	const needed = "create tokenreviews.authentication.k8s.io; create subjectaccessreviews.authorization.k8s.io"
	for address, want := range map[string]bool{"0": false, rig.FreeAddress(t): false, rig.GuardedAddress(t): true} {
		p := launch(t, "--kubeconfig="+kubeconfig(t, nobody), "--metrics-bind-address="+address)
		checkRefusal(t, p, "missing permissions")
		if said := strings.Contains(p.stderr.String(), needed); said != want {
			t.Errorf("--metrics-bind-address=%s: it says %q", address, p.stderr)
		}
	}
}
