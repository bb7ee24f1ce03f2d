// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// post calls a webhook as an API server does, and returns the status code and the body of its answer.
func post(t *testing.T, webhook *Webhook, body string) (code int, answer []byte) {
	t.Helper()
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(webhook.Bundle) {
		t.Fatal("the webhook has no certificate authority")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	t.Cleanup(client.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, webhook.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

// refuseKept refuses changes of objects named kept.
func refuseKept(_ context.Context, old *metav1.PartialObjectMetadata) *metav1.Status {
	if old.Name == "kept" {
		return &metav1.Status{Code: http.StatusForbidden, Message: "it is kept"}
	}
	return nil
}

func serve(t *testing.T) *Webhook {
	t.Helper()
	webhook, err := Serve(refuseKept)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = webhook.Close() })
	return webhook
}

func TestTheAnswerIsThatOfTheReviewer(t *testing.T) {
	webhook := serve(t)
	for name, allowed := range map[string]bool{"kept": false, "other": true} {
		_, body := post(t, webhook, `{"request":{"uid":"review","oldObject":{"metadata":{"name":"`+name+`"}}}}`)
		var answer admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &answer); err != nil || answer.Response == nil {
			t.Fatalf("%s: answered %+v, %v", name, answer, err)
		}
		got := answer.Response
		if got.UID != "review" || got.Allowed != allowed || (got.Result == nil) != allowed {
			t.Errorf("%s: answered %+v, want allowed %t", name, got, allowed)
		}
	}
}

func TestACallerThatNoLongerWaitsGetsNoAnswer(t *testing.T) {
	webhook := serve(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	body := strings.NewReader(`{"request":{"uid":"review","oldObject":{"metadata":{"name":"other"}}}}`)
	answer := httptest.NewRecorder()
	defer func() {
		why, _ := recover().(error)
		if !errors.Is(why, http.ErrAbortHandler) || answer.Body.Len() > 0 {
			t.Errorf("the handler ends with %v and answers %q", why, answer.Body)
		}
	}()
	webhook.ServeHTTP(answer, httptest.NewRequestWithContext(over, http.MethodPost, "/", body))
}

func TestAnythingButAReviewIsABadRequest(t *testing.T) {
	webhook := serve(t)
	for _, body := range []string{"", "{}", `{"request":{"uid":"review","oldObject":[]}}`} {
		if code, _ := post(t, webhook, body); code != http.StatusBadRequest {
			t.Errorf("%q: %d", body, code)
		}
	}
}
