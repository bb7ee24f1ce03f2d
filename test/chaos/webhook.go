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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/admission"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
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

	mu      sync.Mutex
	random  *rand.Rand
	fault   faultKind     // what happens to a review; empty for nothing
	over    chan struct{} // closed when that is over
	refused map[types.UID]int
}

// newWebhook makes a webhook. It serves until close.
func newWebhook(random *rand.Rand, ledger *ledger) (*webhook, error) {
	w := &webhook{ledger: ledger, random: random, over: make(chan struct{}), refused: map[types.UID]int{}}
	var err error
	w.server, err = admission.Serve(w.review)
	return w, err
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
	fault, wait, over := w.draw(pod.UID)
	if fault == "" {
		return nil
	}
	w.ledger.inject(fault)
	if fault == refusedReview {
		return &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "injected"}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
	case <-ctx.Done():
	}
	return nil
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
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &w.server.URL, CABundle: w.server.Bundle},
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

// quarantine is the key of the taint that makes guarded pods leave. Nothing else sets or removes it.
const quarantine = "quarantine"

// crowd is how many guarded pods must leave at once: more than a replica has workers.
const crowd = 40

// obstruct makes a crowd of pods due while something happens to the reviews of their evictions, and then lets them
// leave. Sometimes the crowd may stay before that, while its DELETEs wait.
func obstruct(fault faultKind) func(*actor, context.Context) error {
	return func(a *actor, ctx context.Context) error {
		asked := aScope(a.random)
		if err := a.webhook.register(ctx, a.client, asked); err != nil {
			return err
		}
		nodes := []string{pick(a.random, a.nodes...), pick(a.random, a.nodes...)}
		if err := a.gather(ctx, nodes); err != nil {
			return err
		}
		isolated := corev1.Taint{Key: quarantine, Effect: corev1.TaintEffectNoExecute}
		began := time.Now()
		a.webhook.set(fault)
		a.say("%s: %s", fault, asked)
		err := a.changeNodes(ctx, nodes, setTaints(isolated))
		pause(ctx, a.pace()/2)
		if err == nil && a.chance(0.5) {
			err = a.changeNodes(ctx, nodes, unsetTaint(isolated))
		}
		pause(ctx, a.pace()/2)
		a.webhook.set("")
		a.ledger.write(func(p *page) {
			p.reviews = append(p.reviews, episode{oracle.Between(began, time.Now()), string(fault)})
		})
		if err != nil {
			return err
		}
		a.wait(ctx, a.pace()/2, a.pace())
		// This fails at the end of the run: pods that must leave then should do so.
		return a.changeNodes(ctx, nodes, unsetTaint(isolated))
	}
}

// gather creates guarded pods on nodes. They tolerate everything except isolation, so nothing else makes them leave.
func (a *actor) gather(ctx context.Context, nodes []string) error {
	for range crowd {
		a.made++
		pod := a.aNewPod(fmt.Sprintf("%s-%d", a.series, a.made))
		pod.Labels[guarded] = ""
		pod.Spec.NodeName, pod.Spec.SchedulerName, pod.Spec.Tolerations = pick(a.random, nodes...), "", nil
		for _, key := range toleratedKeys {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
		delete(pod.Annotations, corev1.MirrorPodAnnotationKey)
		if err := a.create(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}
