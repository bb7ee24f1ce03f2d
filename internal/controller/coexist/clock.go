// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// needed are the permissions without which nothing is evicted.
var needed = []authorizationv1.ResourceAttributes{
	{Verb: "patch", Resource: "pods", Subresource: "status"},
	{Verb: "delete", Resource: "pods"},
	{Verb: "get", Resource: "nodes"},
}

// renew asks the API server whether we still may evict, and writes the server's time into the clock. A server that does
// not answer within the time between two renewals counts as gone.
func (k *Keeper) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	if err := k.mayEvict(ctx); err != nil {
		return err
	}
	at := k.config.Clock.Now()
	if err := k.config.Account.Renew(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	k.renewed = at
	k.mu.Unlock()
	k.metrics.renewed.Set(float64(k.config.Clock.Shown(at).Unix()))
	return nil
}

func (k *Keeper) mayEvict(ctx context.Context) error {
	for _, attributes := range needed {
		reviews := k.config.Client.AuthorizationV1().SelfSubjectAccessReviews()
		review, err := reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask the API server for our permissions: %w", err)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("missing permission: %s %s", attributes.Verb, attributes.Resource)
		}
	}
	return nil
}

// fresh reports whether a renewal of ours keeps the built-in from evicting now.
func (k *Keeper) fresh() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.renewed.IsZero() && k.config.Clock.Since(k.renewed) < Lapse
}
