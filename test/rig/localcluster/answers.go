// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// AwaitRight waits until the API server allows or refuses an action, as wanted. The API server sees changes of roles
// and bindings on a watch, so a call that follows at once can still get the old permissions.
func AwaitRight(
	ctx context.Context, admin kubernetes.Interface, asked authorizationv1.SubjectAccessReviewSpec, wanted bool,
) error {
	err := await.Poll(ctx, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: asked}
		answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && answer.Status.Allowed != wanted {
			err = fmt.Errorf("it is allowed: %t", answer.Status.Allowed)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait until user %s has the expected rights: %w", asked.User, err)
	}
	return nil
}

// WaitHeldOff waits until the API server refuses what the built-in would send, which takes a moment after the policy
// was created and the clock renewed. It asks with a dry run, about a pod that is never scheduled.
func (c *Cluster) WaitHeldOff(ctx context.Context) error {
	err := c.awaitAnswerToMark(ctx, func(err error) error {
		if apierrors.IsForbidden(err) {
			return nil
		}
		return cmp.Or(err, errors.New("it may mark a pod"))
	})
	if err != nil {
		return fmt.Errorf("the built-in is not kept from evicting: %w", err)
	}
	return nil
}

// WaitLetGo waits until the API server accepts what the built-in would send, a while after the clock has become stale.
func (c *Cluster) WaitLetGo(ctx context.Context) error {
	if err := c.awaitAnswerToMark(ctx, func(err error) error { return err }); err != nil {
		return fmt.Errorf("the built-in is kept from evicting: %w", err)
	}
	return nil
}

// awaitAnswerToMark asks, in a dry run, whether a pod may be marked as the built-in marks it, until nothing is wrong
// with the answer.
func (c *Cluster) awaitAnswerToMark(ctx context.Context, wrong func(error) error) error {
	const probe = "probe-of-coexistence"
	pods := c.client.CoreV1().Pods(metav1.NamespaceDefault)
	unscheduled := NewPod(probe, "", func(pod *corev1.Pod) { pod.Spec.SchedulerName = "nobody" })
	if _, err := pods.Create(ctx, unscheduled, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create a pod to ask about: %w", err)
	}
	mark := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","lastTransitionTime":%q,
		"reason":"DeletionByTaintManager","message":"Taint manager: deleting due to NoExecute taint"}]}}`,
		time.Now().UTC().Format(time.RFC3339))
	dryRun := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	err := await.Poll(ctx, func(ctx context.Context) error {
		_, err := pods.Patch(ctx, probe, types.StrategicMergePatchType, mark, dryRun, "status")
		return wrong(err)
	})
	if err != nil {
		return err
	}
	return pods.Delete(ctx, probe, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}
