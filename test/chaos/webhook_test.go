// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// reviewer calls a webhook as the API server does.
type reviewer struct {
	client *http.Client
	url    string
}

func newTestWebhook(t *testing.T) (*webhook, reviewer) {
	t.Helper()
	w, err := newWebhook(rand.New(rand.NewPCG(1, 1)), newLedger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.close() })
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(w.bundle) {
		t.Fatal("the webhook has no certificate authority")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	t.Cleanup(client.CloseIdleConnections)
	return w, reviewer{client: client, url: w.url}
}

// ask asks about the deletion of the pod, for as long as the context lasts.
func (r reviewer) ask(ctx context.Context, t *testing.T) (allowed bool, err error) {
	t.Helper()
	asked := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "review", OldObject: runtime.RawExtension{Raw: []byte(podJSON("5", "", ""))},
	}}
	body, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Response == nil || answer.Response.UID != "review" {
		t.Fatalf("answered %+v, %v", answer.Response, err)
	}
	return answer.Response.Allowed, nil
}

func TestTheWebhookAdmitsEverythingAtOnceUnlessItIsToldOtherwise(t *testing.T) {
	w, asks := newTestWebhook(t)
	if allowed, err := asks.ask(t.Context(), t); !allowed || err != nil {
		t.Errorf("admitted %t, %v", allowed, err)
	}
	w.set(slowReview)
	began := time.Now()
	go w.endOnceUnderWay(t.Context(), slowReview, 2*shortestReview)
	if allowed, err := asks.ask(t.Context(), t); !allowed || err != nil || time.Since(began) < shortestReview {
		t.Errorf("while it is slow: admitted %t, %v after %s", allowed, err, time.Since(began))
	}
	if got := w.ledger.page().injected; got[slowReview] != 1 || len(got) != 1 {
		t.Errorf("injected %v, want one slow review", got)
	}
}

// endOnceUnderWay ends a fault a while after it has happened to a call.
func (w *webhook) endOnceUnderWay(ctx context.Context, fault faultKind, after time.Duration) {
	for ctx.Err() == nil && w.ledger.page().injected[fault] == 0 {
		pause(ctx, time.Millisecond)
	}
	pause(ctx, after)
	w.set("")
}

func TestAHangingWebhookAnswersNoCallUntilItIsOver(t *testing.T) {
	w, asks := newTestWebhook(t)
	w.set(hungReview)
	impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := asks.ask(impatient, t); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want no answer", err)
	}
	time.AfterFunc(100*time.Millisecond, func() { w.set("") })
	if allowed, err := asks.ask(t.Context(), t); !allowed || err != nil {
		t.Errorf("when it is over: admitted %t, %v", allowed, err)
	}
}

func TestAPodIsRefusedSoOftenAndNoMore(t *testing.T) {
	w, asks := newTestWebhook(t)
	w.set(refusedReview)
	for i := range mostRefusals + 1 {
		allowed, err := asks.ask(t.Context(), t)
		if err != nil || allowed != (i == mostRefusals) {
			t.Errorf("review %d: admitted %t, %v", i+1, allowed, err)
		}
	}
}

func TestTheWebhookIsAskedAboutEverythingInTurn(t *testing.T) {
	drawn := map[scope]bool{}
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		drawn[aScope(random)] = true
	}
	if want := 2 * 2 * 3; len(drawn) != want { // of what, with which failure policy, for how long
		t.Errorf("%d kinds of registrations, want %d", len(drawn), want)
	}
}
