// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// guard serves metrics only to clients that the API server authenticates and authorizes.
type guard struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	log           logr.Logger
	next          http.Handler
}

// guardMetrics makes a guard that asks the API server with TokenReview and SubjectAccessReview. It does the same as
// controller-runtime's filters.WithAuthenticationAndAuthorization, except that the latter answers an invalid token with
// 500.
func guardMetrics(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	tokens, err := authenticationv1.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	access, err := authorizationv1.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	backoff := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	authentication, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:  tokens,
		TokenAccessReviewTimeout: 10 * time.Second,
		CacheTTL:                 time.Minute,
		WebhookRetryBackoff:      backoff,
	}.New()
	if err != nil {
		return nil, err
	}
	authorization, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: access,
		AllowCacheTTL:             5 * time.Minute,
		DenyCacheTTL:              30 * time.Second,
		WebhookRetryBackoff:       backoff,
	}.New()
	if err != nil {
		return nil, err
	}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return guard{authentication, authorization, log, next}, nil
	}, nil
}

// ServeHTTP answers 401 to every client that is not authenticated, as Kubernetes' own components do. The log has the
// reason: the API server did not accept the token, or did not answer.
func (g guard) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	who, known, err := g.authenticator.AuthenticateRequest(request)
	if err != nil {
		g.log.Error(err, "Cannot authenticate a client of the metrics")
	}
	if err != nil || !known {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	decision, reason, err := g.authorizer.Authorize(request.Context(), authorizer.AttributesRecord{
		User: who.User, Verb: strings.ToLower(request.Method), Path: request.URL.Path,
	})
	user := who.User.GetName()
	switch {
	case err != nil:
		g.log.Error(err, "Cannot check whether a user may read the metrics", "user", user)
		http.Error(w, "Cannot check whether user "+user+" may read this", http.StatusInternalServerError)
	case decision != authorizer.DecisionAllow:
		g.log.V(4).Info("A user may not read the metrics", "user", user, "reason", reason)
		http.Error(w, "User "+user+" may not read this", http.StatusForbidden)
	default:
		g.next.ServeHTTP(w, request)
	}
}

// validateMetricsCertDir reads the certificate and its key, and names the file that is wrong. If the certificate were
// missing, the server would generate one and not say so.
func (o *options) validateMetricsCertDir() error {
	if o.metricsCertDir == "" {
		return nil
	}
	if !o.guardsMetrics() {
		return fmt.Errorf("--metrics-cert-dir=%s: --metrics-bind-address=%s is on the loopback interface, "+
			"where metrics are served without TLS; remove one of the two", o.metricsCertDir, o.metricsAddress)
	}
	certFile := filepath.Join(o.metricsCertDir, corev1.TLSCertKey)
	keyFile := filepath.Join(o.metricsCertDir, corev1.TLSPrivateKeyKey)
	_, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil {
		return nil
	}
	_, certErr := cert.CertsFromFile(certFile)
	_, keyErr := keyutil.PrivateKeyFromFile(keyFile)
	if inFile := errors.Join(certErr, keyErr); inFile != nil {
		return fmt.Errorf("--metrics-cert-dir=%s: %w", o.metricsCertDir, inFile)
	}
	return fmt.Errorf("--metrics-cert-dir=%s: %s and %s: %w",
		o.metricsCertDir, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
}
