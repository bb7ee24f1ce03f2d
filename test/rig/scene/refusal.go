// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// RefuseDeletes lets a policy refuse the deletes of the scene's pods, by anybody, until the function that it returns is
// called; to call it again does nothing. Both return when the API server has noticed, as a pod of the scene shows.
func (s Scene) RefuseDeletes(ctx context.Context, probe *corev1.Pod) (allow func() error, err error) {
	policies := s.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := s.Admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	policy, binding := s.refusal()
	if _, err := policies.Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("refuse deletes: %w", err)
	}
	if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("refuse deletes: %w", err)
	}
	after := context.WithoutCancel(ctx)
	allow = sync.OnceValue(func() error {
		return errors.Join(
			bindings.Delete(after, binding.Name, metav1.DeleteOptions{}),
			policies.Delete(after, policy.Name, metav1.DeleteOptions{}),
			s.AwaitDeletable(after, probe, true),
		)
	})
	if err := s.AwaitDeletable(ctx, probe, false); err != nil {
		return nil, errors.Join(err, allow())
	}
	return allow, nil
}

func (s Scene) refusal() (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	name := metav1.ObjectMeta{Name: "refuse-deletes-in-" + s.Namespace}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "pods are kept for now"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy.Name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	return policy, binding
}

// AwaitDeletable tries deletes that change nothing until they are allowed, or refused, as wanted. A policy takes
// effect, and stops taking effect, within a second or two. A pod that is already gone could be deleted.
func (s Scene) AwaitDeletable(ctx context.Context, probe *corev1.Pod, wanted bool) error {
	try := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	err := await.Poll(ctx, func(ctx context.Context) error {
		err := s.Admin.CoreV1().Pods(s.Namespace).Delete(ctx, probe.Name, try)
		if (err == nil || apierrors.IsNotFound(err)) == wanted {
			return nil
		}
		return cmp.Or(err, errors.New("a delete would be accepted"))
	})
	if err != nil {
		return fmt.Errorf("wait for the policy about deletes: %w", err)
	}
	return nil
}
