// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// denyDeletes makes the API server refuse to delete pods, and returns when it does. What it returns ends that.
func denyDeletes(t *testing.T) (allow func()) {
	t.Helper()
	const name = "keep-pods"
	policies, bindings := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies(), admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := policies.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "pods are kept for now"}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = bindings.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	allow = sync.OnceFunc(func() {
		ctx := context.WithoutCancel(t.Context())
		must(t, bindings.Delete(ctx, name, metav1.DeleteOptions{}))
		must(t, policies.Delete(ctx, name, metav1.DeleteOptions{}))
	})
	t.Cleanup(allow)
	eventually(t, "a delete is refused", func(ctx context.Context) error {
		err := admin.CoreV1().Pods("default").Delete(ctx, "forgotten", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return errNotRefused{err}
	})
	return allow
}

// errNotRefused is the answer to a delete that was to be refused.
type errNotRefused struct{ answer error }

// Error implements error.
func (e errNotRefused) Error() string {
	if e.answer == nil {
		return "it is not refused"
	}
	return e.answer.Error()
}
