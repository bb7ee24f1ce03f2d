// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// protect refuses the delete of all pods of the scene, until the test is over.
func (s *scene) protect(t *testing.T) error {
	t.Helper()
	all := admin.AdmissionregistrationV1()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		must(t, all.ValidatingAdmissionPolicyBindings().Delete(ctx, s.namespace, metav1.DeleteOptions{}))
		must(t, all.ValidatingAdmissionPolicies().Delete(ctx, s.namespace, metav1.DeleteOptions{}))
	})
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "object != null", Message: "these pods are kept"}},
		},
	}
	if _, err := all.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        s.namespace,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.namespace},
			}},
		},
	}
	_, err := all.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	return err
}
