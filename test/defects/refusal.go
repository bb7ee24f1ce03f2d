// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// refusal is for how long deletes are refused: many times as long as upstream tries, and as short as the restart of
// an API server or of a webhook.
const refusal = 3 * time.Second

// playRefusal lets an admission policy refuse the deletes of pods for a while.
func playRefusal(ctx context.Context, s *scene) (finding, error) {
	pod, err := s.lonelyPod(ctx, "kept")
	if err != nil {
		return finding{}, err
	}
	allow, err := s.refuseDeletes(ctx, pod)
	if err != nil {
		return finding{}, err
	}
	_, err = s.taint(ctx, pod.Spec.NodeName, noExecute("gone"))
	err = errors.Join(err, pause(ctx, refusal), allow())
	if err != nil {
		return finding{}, err
	}
	// The pod is due by now. A retry with a backoff that doubles comes after at most as long again as it was refused.
	d, err := s.observer.departure(ctx, pod, time.Now(), 0, 20*time.Second)
	if d.left {
		return finding{seen: fmt.Sprintf("left %s after deletes were allowed again", seconds(d.after)), right: d.after <= 2*refusal+patience}, err
	}
	return finding{seen: fmt.Sprintf("still there %s after deletes were allowed again", seconds(d.watched))}, err
}

// refuseDeletes returns once no pod in the scene's namespace can be deleted. The function that it returns undoes it,
// and returns once they can.
func (s *scene) refuseDeletes(ctx context.Context, probe *corev1.Pod) (allow func() error, err error) {
	policies := s.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := s.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	policy, binding := refusingPolicy(s.namespace)
	if _, err := policies.Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("refuse deletes: %w", err)
	}
	if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("refuse deletes: %w", err)
	}
	allow = func() error {
		return errors.Join(
			bindings.Delete(ctx, binding.Name, metav1.DeleteOptions{}),
			policies.Delete(ctx, policy.Name, metav1.DeleteOptions{}),
			s.awaitDeletable(ctx, probe, true),
		)
	}
	if err := s.awaitDeletable(ctx, probe, false); err != nil {
		return nil, errors.Join(err, allow())
	}
	return allow, nil
}

func refusingPolicy(namespace string) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	name := metav1.ObjectMeta{Name: "refuse-deletes-in-" + namespace}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: name,
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
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

// awaitDeletable tries deletes that change nothing until they are allowed, or refused, as wanted. A policy comes into
// force, and out of it, within a second or two.
func (s *scene) awaitDeletable(ctx context.Context, probe *corev1.Pod, wanted bool) error {
	try := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := s.admin.CoreV1().Pods(s.namespace).Delete(ctx, probe.Name, try)
		return (err == nil) == wanted, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the policy about deletes: %w", err)
	}
	return nil
}
