// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// AwaitRight waits until the API server allows what is asked about, or refuses it, as wanted. It sees a change of roles
// and bindings by a watch, so that whoever calls at once can meet the rights from before it.
func AwaitRight(
	ctx context.Context, admin kubernetes.Interface, asked authorizationv1.SubjectAccessReviewSpec, wanted bool,
) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, healthPeriod, startTimeout, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: asked}
		answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if last = err; err == nil && answer.Status.Allowed != wanted {
			last = fmt.Errorf("it is allowed: %t", answer.Status.Allowed)
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for what user %s may do: %w", asked.User, errors.Join(err, last))
	}
	return nil
}
