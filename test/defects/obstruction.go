// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/admission"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
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
	// probeName is the name of a pod whose delete is refused at once, whoever wants it.
	probeName = "probe"
)

func reviewed(pod *corev1.Pod) { pod.Labels = map[string]string{reviewLabel: ""} }

func newObstruction(length time.Duration) *obstruction {
	return &obstruction{length: length, first: make(chan struct{}), over: make(chan struct{})}
}

// review is an [admission.Reviewer].
func (o *obstruction) review(ctx context.Context, old *metav1.PartialObjectMetadata) *metav1.Status {
	if old.Name == probeName {
		return &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "it is asked"}
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

// obstruct returns once the API server asks a webhook that takes so long. The function that it returns undoes it.
func (s *scene) obstruct(ctx context.Context, length time.Duration) (o *obstruction, undo func() error, err error) {
	probe, err := s.lonelyPod(ctx, probeName, reviewed)
	if err != nil {
		return nil, nil, err
	}
	o = newObstruction(length)
	server, err := admission.Serve(o.review)
	if err != nil {
		return nil, nil, err
	}
	configurations := s.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	wanted := s.webhookConfiguration(server)
	if _, err := configurations.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("register a webhook: %w", err), server.Close())
	}
	undo = func() error {
		close(o.over)
		return errors.Join(
			configurations.Delete(ctx, wanted.Name, metav1.DeleteOptions{}),
			s.AwaitDeletable(ctx, probe, true),
			server.Close(),
		)
	}
	if err := s.AwaitDeletable(ctx, probe, false); err != nil {
		return nil, nil, errors.Join(err, undo())
	}
	return o, undo, nil
}

func (s *scene) webhookConfiguration(server *admission.Webhook) *admissionv1.ValidatingWebhookConfiguration {
	asked := fmt.Sprintf("request.name == %q || request.userInfo.username == %q", probeName, s.contestant.user())
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "obstruct-" + s.Namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:         "obstruction.taintkeeper.dev",
			ClientConfig: admissionv1.WebhookClientConfig{URL: &server.URL, CABundle: server.Bundle},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Delete},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
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

// awaitFirst returns when a delete waits for the webhook's answer.
func (o *obstruction) awaitFirst(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the webhook is not asked"))
	defer cancel()
	select {
	case <-o.first:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hungPods is how many pods cannot be deleted because of the webhook.
const hungPods = 200

// playHang lets the deletes of many pods hang while a pod that has nothing to do with them becomes due on another node.
func playHang(ctx context.Context, s *scene) (found finding, err error) {
	const tolerated = 5 * time.Second
	o, undo, err := s.obstruct(ctx, hanging)
	if err != nil {
		return finding{}, err
	}
	defer func() { err = errors.Join(err, undo()) }()
	stuck, err := s.node(ctx, "stuck")
	if err != nil {
		return finding{}, err
	}
	if _, err := s.Pods(ctx, hungPods, stuck, reviewed); err != nil {
		return finding{}, err
	}
	healthy, err := s.lonelyPod(ctx, "healthy", rig.Tolerating("gone", int64(tolerated.Seconds())))
	if err != nil {
		return finding{}, err
	}
	if _, err := s.taint(ctx, stuck, rig.NoExecute("gone")); err != nil {
		return finding{}, err
	}
	if err := o.awaitFirst(ctx); err != nil {
		return finding{}, err
	}
	began, err := s.taint(ctx, healthy.Spec.NodeName, rig.NoExecute("gone"))
	if err != nil {
		return finding{}, err
	}
	d, err := s.observer.departure(ctx, healthy, began, tolerated, time.Minute)
	return d.finding().and(fmt.Sprintf("%d deletes hung then", o.waiting.Load()), true), err
}

// playCancelInFlight takes a taint back while the delete waits for the answer of a webhook.
func playCancelInFlight(ctx context.Context, s *scene) (found finding, err error) {
	const (
		answersAfter = 6 * time.Second
		untaintAfter = 2 * time.Second
		watched      = 10 * time.Second
	)
	o, undo, err := s.obstruct(ctx, answersAfter)
	if err != nil {
		return finding{}, err
	}
	defer func() { err = errors.Join(err, undo()) }()
	pod, err := s.lonelyPod(ctx, "spared", reviewed)
	if err != nil {
		return finding{}, err
	}
	if _, err := s.taint(ctx, pod.Spec.NodeName, rig.NoExecute("gone")); err != nil {
		return finding{}, err
	}
	if err := errors.Join(o.awaitFirst(ctx), pause(ctx, untaintAfter)); err != nil {
		return finding{}, err
	}
	untainted, err := s.untaint(ctx, pod.Spec.NodeName, "gone")
	if err != nil {
		return finding{}, err
	}
	d, err := s.observer.departure(ctx, pod, untainted, never, watched)
	if err != nil {
		return finding{}, err
	}
	events, err := s.admin.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return finding{}, fmt.Errorf("list events: %w", err)
	}
	return judgeCancel(d, events.Items, pod), nil
}

// judgeCancel wants the pod to stay; that its eviction was cancelled may be said then only.
func judgeCancel(d departure, events []corev1.Event, pod *corev1.Pod) finding {
	cancelled := 0
	for _, event := range events {
		if event.InvolvedObject.Name == pod.Name && strings.HasPrefix(event.Message, "Cancelling deletion") {
			cancelled++
		}
	}
	return finding{
		seen:  fmt.Sprintf("%s; 'Cancelling deletion' said %s", d, times(cancelled)),
		right: d.right(),
	}
}
