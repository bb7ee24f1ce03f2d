// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
)

// guardedAddress returns a free address of the loopback interface that taintkeeper does not take for one: names other
// than localhost, in just this spelling, could be anything.
func guardedAddress(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	must(t, err)
	return net.JoinHostPort("LOCALHOST", port)
}

// serveMetrics is serve with metrics at an address; to make a certificate for them takes a moment.
func serveMetrics(t *testing.T, address string, args ...string) *process {
	t.Helper()
	p := serve(t, userConfig, append(args, "--leader-elect=false", "--metrics-bind-address="+address)...)
	p.says(t, "Serving metrics server")
	return p
}

// scraper returns a token of a new service account, which may read metrics or not.
func (s *scene) scraper(t *testing.T, name string, may bool) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := admin.CoreV1().ServiceAccounts(s.namespace).Create(t.Context(), account, metav1.CreateOptions{})
	must(t, err)
	if may {
		s.grantMetrics(t, name)
	}
	request, err := admin.CoreV1().ServiceAccounts(s.namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	return request.Status.Token
}

// grantMetrics gives a service account the rights of docs/metrics.md.
func (s *scene) grantMetrics(t *testing.T, account string) {
	t.Helper()
	roles, ctx := admin.RbacV1(), context.WithoutCancel(t.Context())
	meta := metav1.ObjectMeta{Name: s.namespace + "-" + account}
	_, err := roles.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, roles.ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{})) })
	_, err = roles.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: account}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, roles.ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{})) })
}

// scrape asks for metrics with a token, or without one, and returns the status and the body of the answer.
func scrape(t *testing.T, client *http.Client, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

func trusting(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

func TestMetricsThatLeaveTheLoopbackInterfaceAreForThoseWhoMayReadThem(t *testing.T) {
	s := newScene(t)
	address := guardedAddress(t)
	p := serveMetrics(t, address)
	anyone := trusting(&tls.Config{InsecureSkipVerify: true}) // its certificate is its own
	for _, test := range []struct {
		name, token string
		want        int
	}{
		{"nobody", "", http.StatusUnauthorized},
		{"somebody with a token that is none", "wrong", http.StatusInternalServerError}, // so says controller-runtime
		{"an account that may not", s.scraper(t, "may-not", false), http.StatusForbidden},
		{"an account that may", s.scraper(t, "may", true), http.StatusOK},
	} {
		code, body := scrape(t, anyone, "https://"+address+"/metrics", test.token)
		if told := strings.Contains(body, "taintkeeper_tainted_nodes"); code != test.want || told != (test.want == http.StatusOK) {
			t.Errorf("%s gets %d, want %d; with metrics: %t", test.name, code, test.want, told)
		}
	}
	if _, err := get(t.Context(), "http://"+address+"/metrics"); err == nil {
		t.Error("they are also told without TLS")
	}
	p.terminate(t)
}

func TestMetricsAreServedWithACertificateThatIsGiven(t *testing.T) {
	s := newScene(t)
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	must(t, err)
	dir, trusted := t.TempDir(), x509.NewCertPool()
	must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	trusted.AppendCertsFromPEM(cert)
	address := guardedAddress(t)
	serveMetrics(t, address, "--metrics-cert-dir="+dir)
	client := trusting(&tls.Config{RootCAs: trusted, ServerName: "localhost"})
	if code, _ := scrape(t, client, "https://"+address+"/metrics", s.scraper(t, "may", true)); code != http.StatusOK {
		t.Errorf("status %d", code)
	}
}

func TestRightsToAskWhoReadsMetricsAreMissedAtTheStartWhenTheyAreNeeded(t *testing.T) {
	nobody, err := cluster.ConfigFor("nobody")
	must(t, err)
	const needed = "create tokenreviews.authentication.k8s.io; create subjectaccessreviews.authorization.k8s.io"
	for address, want := range map[string]bool{"0": false, freeAddress(t): false, guardedAddress(t): true} {
		p := launch(t, "--kubeconfig="+kubeconfig(t, nobody), "--metrics-bind-address="+address)
		checkRefusal(t, p, "missing permissions")
		if said := strings.Contains(p.stderr.String(), needed); said != want {
			t.Errorf("--metrics-bind-address=%s: it says %q", address, p.stderr)
		}
	}
}
