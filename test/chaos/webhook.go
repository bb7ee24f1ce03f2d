// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/admission"
)

// guarded is the label of the pods that the webhook is asked about; its value does not matter.
const guarded = "chaos.taintkeeper.dev/guarded"

const (
	// shortestReview and longestReview bound how long a slow webhook takes.
	shortestReview = 200 * time.Millisecond
	longestReview  = 10 * time.Second
	// mostRefusals is how often one pod is refused. After eight refusals in a row a replica may already wait for half a
	// minute before it tries again, and the run must see that end.
	mostRefusals = 8
)

// webhook is a validating admission webhook that the API server asks about what the replicas do to some of the pods. It
// admits everything at once, unless it is told otherwise. Safe for concurrent use.
type webhook struct {
	ledger *ledger
	server *admission.Webhook
	url    string
	bundle []byte // of the authority that signed its certificate

	mu      sync.Mutex
	random  *rand.Rand
	fault   faultKind     // what happens to a review; empty for nothing
	over    chan struct{} // closed when that is over
	refused map[types.UID]int
}

// newWebhook makes a webhook. It serves until close.
func newWebhook(random *rand.Rand, ledger *ledger) (*webhook, error) {
	w := &webhook{ledger: ledger, random: random, over: make(chan struct{}), refused: map[types.UID]int{}}
	server, err := admission.Serve(w.review)
	if err != nil {
		return nil, err
	}
	w.server, w.url, w.bundle = server, server.URL, server.Bundle
	return w, nil
}

func (w *webhook) close() error { return w.server.Close() }

// set says what happens to all reviews from now on. Those that are under way are admitted.
func (w *webhook) set(fault faultKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.over)
	w.fault, w.over = fault, make(chan struct{})
}

// review is an [admission.Reviewer].
func (w *webhook) review(ctx context.Context, pod *metav1.PartialObjectMetadata) *metav1.Status {
	if w.admit(ctx, pod.UID) {
		return nil
	}
	return &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "injected"}
}

// admit reviews a change of a pod, and takes its time over it.
func (w *webhook) admit(ctx context.Context, uid types.UID) bool {
	fault, wait, over := w.draw(uid)
	if fault == "" {
		return true
	}
	w.ledger.inject(fault)
	if fault == refusedReview {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
	case <-ctx.Done():
	}
	return true
}

// draw says what happens to the review of a pod, how long that takes, and which channel closes if it ends earlier.
func (w *webhook) draw(uid types.UID) (fault faultKind, wait time.Duration, over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.fault {
	case slowReview:
		wait = shortestReview + time.Duration(w.random.Int64N(int64(longestReview-shortestReview)))
	case hungReview:
		wait = time.Hour
	case refusedReview:
		if w.refused[uid] == mostRefusals {
			return "", 0, w.over
		}
		w.refused[uid]++
	}
	return w.fault, wait, w.over
}

// scope is what the API server asks the webhook about, and what it does if the webhook does not answer.
type scope struct {
	resource  string // pods or pods/status
	operation admissionregistrationv1.OperationType
	failure   admissionregistrationv1.FailurePolicyType
	timeout   int32 // in seconds
}

func (s scope) String() string {
	return fmt.Sprintf("%s %s, failurePolicy %s, timeout %d s", s.operation, s.resource, s.failure, s.timeout)
}

// aScope draws one.
func aScope(random *rand.Rand) scope {
	s := scope{
		resource: "pods", operation: admissionregistrationv1.Delete,
		failure: pick(random, admissionregistrationv1.Fail, admissionregistrationv1.Ignore),
		timeout: pick(random, int32(2), 10, 30),
	}
	if random.IntN(3) == 0 { // the condition that a replica sets before it deletes
		s.resource, s.operation = "pods/status", admissionregistrationv1.Update
	}
	return s
}

// register makes the API server ask the webhook, and only the replicas wait for it.
func (w *webhook) register(ctx context.Context, client kubernetes.Interface, s scope) error {
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	wanted := w.configuration(s)
	return persist(ctx, "register the webhook", func(ctx context.Context) error {
		if err := configurations.Delete(ctx, wanted.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, err := configurations.Create(ctx, wanted, metav1.CreateOptions{})
		return err
	})
}

func (w *webhook) configuration(s scope) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "chaos"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "guard.chaos.taintkeeper.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &w.url, CABundle: w.bundle},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{s.operation},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{s.resource},
				},
			}},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: guarded, Operator: metav1.LabelSelectorOpExists,
			}}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name: "replicas", Expression: fmt.Sprintf("request.userInfo.username == %q", keeperUser),
			}},
			FailurePolicy: &s.failure, TimeoutSeconds: &s.timeout,
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
