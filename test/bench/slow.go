// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/admission"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

const (
	// slowNodes is the number of nodes over which the pods with slow deletes are spread.
	slowNodes = 100
	// slowReview is how long the webhook takes for one.
	slowReview = 2 * time.Second
	// slowTimeout is how long the API server would wait for it, in seconds.
	slowTimeout = 10
	// slowWebhook is its name.
	slowWebhook = "slow.bench.taintkeeper.dev"
)

// slow is a storm whose deletes take two seconds each, as a webhook takes its time over them. The built-in with its
// default limits would be as slow as in any storm, and the floor would only show how many workers it has, so these two
// take no part.
func (b *bench) slow(ctx context.Context) (err error) {
	if err := b.ensureNodes(ctx, slowNodes); err != nil {
		return err
	}
	webhook, err := admission.Serve(takeTime)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, webhook.Close()) }()
	configurations := b.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := configurations.Create(ctx, slowConfiguration(webhook), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("register the webhook: %w", err)
	}
	defer func() { err = errors.Join(err, configurations.Delete(ctx, slowWebhook, metav1.DeleteOptions{})) }()

	b.say("\nslow: %d pods on %d nodes are due at once, and each delete takes %s", stormPods, slowNodes, slowReview)
	err = b.inRounds(ctx, b.slowStormOf, []string{nameOurs, nameUnlimited}, []string{namePrevious})
	b.report.printStorm(b.out, stormSlow)
	return err
}

func (b *bench) slowStormOf(ctx context.Context, c contestant) error {
	if err := b.createStormPods(ctx, slowNodes); err != nil {
		return err
	}
	p, err := b.launch(ctx, c)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := await.Pause(ctx, settleTime); err != nil {
		return err
	}
	return b.weather(ctx, p, stormSlow, slowNodes)
}

// takeTime admits everything, but only after a while.
func takeTime(ctx context.Context, _ *metav1.PartialObjectMetadata) *metav1.Status {
	_ = await.Pause(ctx, slowReview) // when it ends earlier, nobody waits for the answer any longer
	return nil
}

// slowConfiguration makes the API server ask the webhook about the pods of the storm, and only when a contestant
// deletes them.
func slowConfiguration(webhook *admission.Webhook) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: slowWebhook},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         slowWebhook,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &webhook.URL, CABundle: webhook.Bundle},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
				},
			}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{partLabel: partStorm}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name: "contestants", Expression: fmt.Sprintf("request.userInfo.username != %q", adminUser),
			}},
			FailurePolicy:           new(admissionregistrationv1.Fail),
			TimeoutSeconds:          new(int32(slowTimeout)),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
