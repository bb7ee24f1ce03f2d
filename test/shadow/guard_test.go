// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/shadow"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

func TestBeyondTheLoopbackInterfaceTheReportIsForThoseWhoMayReadIt(t *testing.T) {
	address := guardedAddress(t)
	process, err := cluster.StartTaintkeeper(t.Context(), localcluster.TaintkeeperConfig{
		Binary: binary, Name: "guarded", Args: []string{"--shadow", "--metrics-bind-address=" + address},
	})
	must(t, err)
	t.Cleanup(func() { must(t, process.Stop()) })
	eventually(t, "the report is served; to make a certificate takes a moment", func(ctx context.Context) error {
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
		"an account that may not": {reader(t, "reader-of-nothing", "/metrics"), http.StatusForbidden},
		"an account that may":     {reader(t, "reader-of-the-report", shadow.Path), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, "https://"+address+shadow.Path, test.token); got != test.want {
				t.Errorf("the answer is %d, want %d", got, test.want)
			}
		})
	}
}

// guardedAddress returns a free address of the loopback interface that taintkeeper does not take for one: names other
// than localhost, in just this spelling, could be anything.
func guardedAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	must(t, listener.Close())
	return net.JoinHostPort("LOCALHOST", port)
}

// reader returns a token of a new service account that may get a URL.
func reader(t *testing.T, name, url string) string {
	t.Helper()
	accounts, ctx := admin.CoreV1().ServiceAccounts("default"), t.Context()
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	_, err = admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{url}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}, metav1.CreateOptions{})
	must(t, err)
	request, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	return request.Status.Token
}

// ask asks for a URL with a token, or without one, and returns the status of the answer. It trusts any certificate: the
// server makes one of its own.
func ask(t *testing.T, url, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode
}
