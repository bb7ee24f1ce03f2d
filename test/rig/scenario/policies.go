// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// objects is the administrator's client for our resources. It wants a stage that has one.
func (p *Play) objects() client.Client {
	return p.Stage.(interface{ Objects() client.Client }).Objects()
}

// Follow creates a policy for the pods of the scene, which lasts until the end, and waits until it is followed.
func Follow(spec v1alpha1.EvictionPolicySpec) Step {
	return func(ctx context.Context, p *Play) error {
		object := &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}, Spec: spec}
		object.Spec.NamespaceSelector = &v1alpha1.Selector{MatchLabels: map[string]v1alpha1.LabelValue{
			corev1.LabelMetadataName: v1alpha1.LabelValue(p.Namespace),
		}}
		if err := p.objects().Create(ctx, object); err != nil {
			return err
		}
		p.Finally(func(ctx context.Context) error { return client.IgnoreNotFound(p.objects().Delete(ctx, object)) })
		return AwaitPolicy(ctx, p, "it is not followed", func(status *v1alpha1.EvictionPolicyStatus) bool {
			return meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAccepted) != nil
		})
	}
}

// Unfollow deletes the policy of the scene.
func Unfollow(ctx context.Context, p *Play) error {
	err := p.objects().Delete(ctx, &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}})
	p.Excuse(time.Now())
	return err
}

// Held waits until the policy of the scene holds this many pods.
func Held(pods int32) Step {
	return func(ctx context.Context, p *Play) error {
		return AwaitPolicy(ctx, p, fmt.Sprintf("it does not hold %d pods", pods), func(status *v1alpha1.EvictionPolicyStatus) bool {
			return status.Held == pods
		})
	}
}

// AwaitPolicy waits until the status of the policy of the scene is as it should be.
func AwaitPolicy(ctx context.Context, p *Play, isNot string, is func(*v1alpha1.EvictionPolicyStatus) bool) error {
	return await.Poll(ctx, func(ctx context.Context) error {
		var object v1alpha1.EvictionPolicy
		if err := p.objects().Get(ctx, client.ObjectKey{Name: p.Namespace}, &object); err != nil {
			return err
		}
		if !is(&object.Status) {
			return fmt.Errorf("%s: %+v", isNot, object.Status)
		}
		return nil
	})
}

// Budget makes a PodDisruptionBudget for an app whose pods are ready, and waits until it counts them.
func Budget(app string, minAvailable int) Step {
	return func(ctx context.Context, p *Play) error {
		budgets := p.Admin.PolicyV1().PodDisruptionBudgets(p.Namespace)
		least := intstr.FromInt(minAvailable)
		_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: app},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return await.Poll(ctx, func(ctx context.Context) error {
			found, err := budgets.Get(ctx, app, metav1.GetOptions{})
			if err == nil && (found.Status.ExpectedPods == 0 || found.Status.CurrentHealthy < found.Status.ExpectedPods) {
				err = fmt.Errorf("the budget does not count its pods: %+v", found.Status)
			}
			return err
		})
	}
}
