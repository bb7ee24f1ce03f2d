// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/util/cert"
)

func TestACertificateForMetricsThatIsWrongIsNamedWithItsFile(t *testing.T) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	damaged := []byte(strings.Replace(string(certificate), "MII", "AAA", 1))
	for name, test := range map[string]struct {
		certificate, key []byte // nil if there is no such file
		says             []string
	}{
		"both are right":                {certificate, key, nil},
		"no certificate":                {nil, key, []string{"tls.crt", "no such file"}},
		"no key":                        {certificate, nil, []string{"tls.key", "no such file"}},
		"neither":                       {nil, nil, []string{"tls.crt", "tls.key"}},
		"an empty certificate":          {[]byte{}, key, []string{"tls.crt", "does not contain any valid"}},
		"an empty key":                  {certificate, []byte{}, []string{"tls.key", "does not contain a valid"}},
		"a damaged certificate":         {damaged, key, []string{"tls.crt", "x509"}},
		"certificate and key swapped":   {key, certificate, []string{"tls.crt", "tls.key"}},
		"the key of another":            {certificate, other, []string{"tls.crt and tls.key", "does not match"}},
		"a certificate that is not PEM": {[]byte("Y2VydA=="), key, []string{"tls.crt", "does not contain any valid"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, data := range map[string][]byte{"tls.crt": test.certificate, "tls.key": test.key} {
				if data == nil {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := parse(t, "--metrics-bind-address=:8443", "--metrics-cert-dir="+dir).validateMetricsCertDir()
			if (err == nil) != (test.says == nil) {
				t.Fatalf("it says %v", err)
			}
			for _, words := range test.says {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("it says %q, want %q", err, words)
				}
			}
		})
	}
}

func TestMetricsAreRefusedWithTheStatusThatSaysWhy(t *testing.T) {
	known := func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
	}
	var failing authorizer.AuthorizerFunc = func(
		context.Context, authorizer.Attributes,
	) (authorizer.Decision, string, error) {
		return authorizer.DecisionNoOpinion, "", errors.New("unreachable")
	}
	for name, test := range map[string]struct {
		authenticate authenticator.RequestFunc
		authorize    authorizer.Authorizer
		want         int
	}{
		"no token": {
			func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil },
			authorizerfactory.NewAlwaysAllowAuthorizer(), http.StatusUnauthorized,
		},
		"a token that is not valid": {
			func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, errors.New("invalid") },
			authorizerfactory.NewAlwaysAllowAuthorizer(), http.StatusUnauthorized,
		},
		"a user without the right": {known, authorizerfactory.NewAlwaysDenyAuthorizer(), http.StatusForbidden},
		"a user with the right":    {known, authorizerfactory.NewAlwaysAllowAuthorizer(), http.StatusOK},
		"the API server cannot tell": {
			known, failing, http.StatusInternalServerError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
			answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
			guard{test.authenticate, test.authorize, logr.Discard(), next}.ServeHTTP(answer, request)
			if answer.Code != test.want {
				t.Errorf("status %d, want %d", answer.Code, test.want)
			}
		})
	}
}
