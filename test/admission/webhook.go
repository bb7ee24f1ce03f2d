// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission serves a validating admission webhook to an API server on the same machine, so that a test can make
// requests hang, take long or be refused, as webhooks of real clusters do.
package admission

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
)

// largestReview limits how much of a review is read.
const largestReview = 1 << 20

// Reviewer decides about a change of an object, given as it was before. It returns nil to admit the change, or else the
// status with which the API server refuses it. The context ends when the API server does not wait for the answer any
// longer.
type Reviewer func(ctx context.Context, old *metav1.PartialObjectMetadata) *metav1.Status

// Webhook is a webhook that listens on the loopback interface.
type Webhook struct {
	URL    string
	Bundle []byte // of the authority that signed its certificate

	review Reviewer
	server *http.Server
}

// Serve starts a webhook. It serves until Close.
func Serve(review Reviewer) (*Webhook, error) {
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
	w := &Webhook{URL: "https://" + listener.Addr().String(), Bundle: chain, review: review}
	w.server = &http.Server{
		Handler:           w,
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ErrorLog:          log.New(io.Discard, "", 0), // an API server that was killed hangs up
	}
	go func() { _ = w.server.ServeTLS(listener, "", "") }() // until Close
	return w, nil
}

// Close ends the webhook, and the reviews that are under way.
func (w *Webhook) Close() error { return w.server.Close() }

// ServeHTTP implements http.Handler.
func (w *Webhook) ServeHTTP(out http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	err := json.NewDecoder(io.LimitReader(request.Body, largestReview)).Decode(&review)
	if err != nil || review.Request == nil {
		http.Error(out, "this is not an admission review", http.StatusBadRequest)
		return
	}
	var old metav1.PartialObjectMetadata
	if err := json.Unmarshal(review.Request.OldObject.Raw, &old); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	refusal := w.review(request.Context(), &old)
	if request.Context().Err() != nil { // nothing waits any longer; over TLS an answer could still arrive
		panic(http.ErrAbortHandler)
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: refusal == nil, Result: refusal}
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) // a caller that hangs up now needs no answer
}
