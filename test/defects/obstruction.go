// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/admission"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// obstruction is a webhook that the API server asks before the contestant may delete some pods of a scene. It admits
// each delete, after a while.
type obstruction struct {
	length  time.Duration
	waiting atomic.Int32  // deletes that wait for its answer now
	first   chan struct{} // closed when the first delete waits
	once    sync.Once
	over    chan struct{} // closed at the end
}

const (
	// patienceOfServer is how long the API server waits for an answer; then it refuses the delete.
	patienceOfServer = 10 * time.Second
	// hanging is longer than that.
	hanging = time.Hour
	// reviewLabel is a label of the pods that the webhook is asked about.
	reviewLabel = "reviewed"
	// probeName is the name of a pod whose delete is refused at once, no matter who sends it.
	probeName = "probe"
)

func reviewed(pod *corev1.Pod) { pod.Labels = map[string]string{reviewLabel: ""} }

func newObstruction(length time.Duration) *obstruction {
	return &obstruction{length: length, first: make(chan struct{}), over: make(chan struct{})}
}

// review is an [admission.Reviewer].
func (o *obstruction) review(ctx context.Context, old *metav1.PartialObjectMetadata) *metav1.Status {
	if old.Name == probeName {
		return &metav1.Status{
			Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "the webhook is in effect",
		}
	}
	o.waiting.Add(1)
	defer o.waiting.Add(-1)
	o.once.Do(func() { close(o.first) })
	timer := time.NewTimer(o.length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.over:
	case <-ctx.Done():
	}
	return nil
}

// obstruct returns once the API server asks the webhook. That is undone when the scenario is over.
func (o *obstruction) obstruct(ctx context.Context, p *Play) error {
	if err := Alone(probeName, reviewed)(ctx, p); err != nil {
		return err
	}
	server, err := admission.Serve(o.review)
	if err != nil {
		return err
	}
	p.Finally(func(context.Context) error { return server.Close() })
	probe := p.Named(probeName).Pod
	configurations := p.Admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	wanted := webhookConfiguration(p, server)
	if _, err := configurations.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("register a webhook: %w", err)
	}
	p.Finally(func(ctx context.Context) error {
		close(o.over)
		return errors.Join(
			configurations.Delete(ctx, wanted.Name, metav1.DeleteOptions{}), p.AwaitDeletable(ctx, probe, true),
		)
	})
	return p.AwaitDeletable(ctx, probe, false)
}

func webhookConfiguration(p *Play, server *admission.Webhook) *admissionv1.ValidatingWebhookConfiguration {
	asked := fmt.Sprintf("request.name == %q || request.userInfo.username == %q", probeName, stageOf(p).contestant.user())
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "obstruct-" + p.Namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:         "obstruction.taintkeeper.dev",
			ClientConfig: admissionv1.WebhookClientConfig{URL: &server.URL, CABundle: server.Bundle},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Delete},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.Namespace}},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: reviewLabel, Operator: metav1.LabelSelectorOpExists,
			}}},
			MatchConditions:         []admissionv1.MatchCondition{{Name: "asked", Expression: asked}},
			FailurePolicy:           new(admissionv1.Fail),
			TimeoutSeconds:          new(int32(patienceOfServer.Seconds())),
			SideEffects:             new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

// asked returns when a delete waits for the webhook's answer.
func (o *obstruction) asked(ctx context.Context, _ *Play) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the webhook was not called"))
	defer cancel()
	select {
	case <-o.first:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hung tells how many deletes wait. Without any, the scenario proves nothing.
func (o *obstruction) hung(context.Context, *Play) (Finding, error) {
	waiting := o.waiting.Load()
	return Finding{Seen: fmt.Sprintf("%d deletes were hanging", waiting), Right: waiting > 0}, nil
}

const (
	// hungPods is how many pods cannot be deleted because of the webhook.
	hungPods = 200
	// seatsFollow is longer than the API server's flow control takes to give a level whose calls hang more seats: it
	// adjusts them every 10 seconds (apiserver/pkg/util/flowcontrol/apf_controller.go), and the first time may come
	// before all calls hang. Until then, the call for the healthy pod may wait for a hanging one to end.
	seatsFollow = 21 * time.Second
)

// hang lets the deletes of many pods hang while a pod that has nothing to do with them becomes due on another node.
func hang() Scenario {
	o := newObstruction(hanging)
	return Scenario{
		Given: []Step{
			o.obstruct, Node("stuck"), Crowd("stuck", hungPods, reviewed), Alone("healthy", scene.Tolerating("gone", 5)),
		},
		When:     []Step{Taint("stuck", "gone"), o.asked, After(seatsFollow), Taint("healthy", "gone")},
		Promised: []Check{ByRuleFor("healthy"), o.hung},
		Watched:  time.Minute,
	}
}

// cancelInFlight takes a taint back while the delete waits for the answer of a webhook. The pod must stay, and only
// then may an event say that its eviction was cancelled.
func cancelInFlight() Scenario {
	o := newObstruction(6 * time.Second)
	cancelled := func(ctx context.Context, p *Play) (Finding, error) {
		said, err := p.Events(ctx, "spared", Cancelling)
		return Finding{Seen: "event 'Cancelling deletion': " + Times(len(said)), Right: true}, err
	}
	return Scenario{
		Given:    []Step{o.obstruct, Alone("spared", reviewed)},
		When:     []Step{Taint("spared", "gone"), o.asked, After(2 * time.Second), Untaint("spared", "gone")},
		Promised: []Check{Stays("spared"), cancelled},
	}
}
