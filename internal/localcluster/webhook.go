// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

// largestReview bounds what a webhook reads of one question, in bytes.
const largestReview = 8 << 20

// Review decides about a request: nil admits it, anything else refuses it. The context ends when the API server
// does not wait for the answer any more.
type Review func(ctx context.Context, request *admissionv1.AdmissionRequest) *metav1.Status

// Webhook is a validating admission webhook that is served by this process.
type Webhook struct {
	server *http.Server
	url    string
	bundle []byte
}

// StartWebhook starts a webhook on the loopback interface. It serves until it is closed.
func StartWebhook(review Review) (*Webhook, error) {
	const host = "127.0.0.1"
	chain, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the webhook: %w", err)
	}
	certificate, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the webhook: %w", err)
	}
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		return nil, fmt.Errorf("listen for the webhook: %w", err)
	}
	w := &Webhook{
		url: "https://" + listener.Addr().String(), bundle: chain,
		server: &http.Server{
			Handler:           review,
			ReadHeaderTimeout: time.Minute,
			TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
			ErrorLog:          log.New(io.Discard, "", 0), // an API server that was killed hangs up
		},
	}
	go func() { _ = w.server.ServeTLS(listener, "", "") }() // until Close
	return w, nil
}

// Close ends the webhook. Who still waits for an answer gets none.
func (w *Webhook) Close() error { return w.server.Close() }

// ClientConfig tells the API server where the webhook is and whom to trust.
func (w *Webhook) ClientConfig() admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: &w.url, CABundle: w.bundle}
}

// ServeHTTP implements http.Handler.
func (r Review) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(io.LimitReader(request.Body, largestReview)).Decode(&review); err != nil || review.Request == nil {
		http.Error(out, "this is no admission review", http.StatusBadRequest)
		return
	}
	refusal := r(request.Context(), review.Request)
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: refusal == nil, Result: refusal}
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) // an API server that does not wait any more needs no answer
}
