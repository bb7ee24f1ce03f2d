// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

func TestRBACManifestsAreObjectsOfKubernetes(t *testing.T) {
	objects, err := Objects(RBAC)
	if err != nil {
		t.Fatal(err)
	}
	roles, narrowing := 0, 0
	for _, object := range objects {
		name := "taintkeeper"
		switch is := object.(type) {
		case *rbacv1.ClusterRole:
			roles++
			rejectWildcards(t, is.Rules)
		case *admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			narrowing++
			name = "taintkeeper-tolerations"
		case *rbacv1.Role:
			rejectWildcards(t, is.Rules)
			if is.Name == v1alpha1.ShadowConfigMap {
				name = is.Name
			}
		case *rbacv1.RoleBinding:
			name = is.RoleRef.Name
		}
		if object.GetName() != name {
			t.Errorf("%T is called %q", object, object.GetName())
		}
	}
	if len(objects) != 11 || roles != 1 || narrowing != 2 {
		t.Errorf("%d objects with %d cluster roles and %d for the admission policy, want 11 with 1 and 2", len(objects), roles, narrowing)
	}
}

// The role for people on call writes only EvictionPolicies and nodes. It reads nothing: they have the other role, too.
func TestTheRolesForUsersReadNoSecretsAndWriteLittle(t *testing.T) {
	writes := map[string][]string{}
	for _, role := range all[*rbacv1.ClusterRole](t, Viewer) {
		rejectWildcards(t, role.Rules)
		for _, rule := range role.Rules {
			if !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
				writes[role.Name] = append(writes[role.Name], fmt.Sprint(rule.Resources, " ", rule.Verbs))
			}
			report := slices.Equal(rule.ResourceNames, []string{v1alpha1.ShadowConfigMap})
			if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "configmaps") && !report {
				t.Errorf("%s has rights to %s %s", role.Name, rule.Resources, rule.ResourceNames)
			}
		}
	}
	want := map[string][]string{
		"taintkeeper-operator": {"[evictionpolicies] [create patch delete]", "[nodes] [patch]"},
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestCoexistenceAddsARightToOneObjectOnly(t *testing.T) {
	role := theOne[*rbacv1.Role](t, Coexistence)
	clock := theOne[*corev1.ServiceAccount](t, Coexistence)
	if len(role.Rules) != 1 || !slices.Equal(role.Rules[0].ResourceNames, []string{clock.Name}) || role.Namespace != clock.Namespace {
		t.Errorf("rights %+v in %s, want one to %s/%s", role.Rules, role.Namespace, clock.Namespace, clock.Name)
	}
	rejectWildcards(t, role.Rules)
}

func TestTheAdmissionPoliciesOfCoexistenceAreBound(t *testing.T) {
	clock := theOne[*corev1.ServiceAccount](t, Coexistence)
	params := map[string]*admissionregistrationv1.ParamRef{}
	for _, binding := range all[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, Coexistence) {
		params[binding.Spec.PolicyName] = binding.Spec.ParamRef
	}
	for _, policy := range all[*admissionregistrationv1.ValidatingAdmissionPolicy](t, Coexistence) {
		param, bound := params[policy.Name]
		if !bound || (policy.Spec.ParamKind == nil) != (param == nil) {
			t.Errorf("%s: bound: %t, to the parameter %v of the kind %v", policy.Name, bound, param, policy.Spec.ParamKind)
		}
		delete(params, policy.Name)
		if policy.Name == "taintkeeper-coexistence" && (param.Name != clock.Name || param.Namespace != clock.Namespace) {
			t.Errorf("%s looks at %s/%s, not at the clock", policy.Name, param.Namespace, param.Name)
		}
	}
	if len(params) > 0 {
		t.Errorf("bindings of policies that do not exist: %v", params)
	}
}

func TestEachPolicyIsBoundAndSaysWhatAnErrorMeans(t *testing.T) {
	policies, bound := policiesAndBindings(t)
	for name, decided := range policies {
		if !decided || !bound[name] {
			t.Errorf("%s: failurePolicy without a parameter object: %t, bound: %t", name, decided, bound[name])
		}
	}
	if len(policies) != 11 || len(bound) != len(policies) {
		t.Errorf("%d policies, of which %d are bound, want 11", len(policies), len(bound))
	}
}

// policiesAndBindings returns the policies, each with whether it sets failurePolicy and has no parameter object, and
// those that are bound.
func policiesAndBindings(t *testing.T) (policies, bound map[string]bool) {
	t.Helper()
	objects, err := Objects(Policies)
	if err != nil {
		t.Fatal(err)
	}
	policies, bound = map[string]bool{}, map[string]bool{}
	for _, object := range objects {
		switch object := object.(type) {
		case *admissionregistrationv1.MutatingAdmissionPolicy:
			policies["mutating "+object.Name] = object.Spec.FailurePolicy != nil && object.Spec.ParamKind == nil
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			policies["validating "+object.Name] = object.Spec.FailurePolicy != nil && object.Spec.ParamKind == nil
		case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
			bound["mutating "+object.Spec.PolicyName] = true
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			bound["validating "+object.Spec.PolicyName] = true
		default:
			t.Errorf("%T %s is not a policy", object, object.GetName())
		}
	}
	return policies, bound
}

func TestTheCRDsAreObjectsOfKubernetesForTheTypesOfTheAPI(t *testing.T) {
	var kinds []string
	for _, crd := range all[*apiextensionsv1.CustomResourceDefinition](t, CRD) {
		kinds = append(kinds, crd.Spec.Names.Kind)
		if crd.Spec.Group != v1alpha1.GroupVersion.Group || crd.Spec.Scope != apiextensionsv1.ClusterScoped {
			t.Errorf("it defines %s %s in group %s", crd.Spec.Scope, crd.Spec.Names.Kind, crd.Spec.Group)
		}
		version := crd.Spec.Versions[0]
		if version.Name != v1alpha1.GroupVersion.Version || version.Subresources == nil || version.Subresources.Status == nil {
			t.Errorf("%s: version %s with subresources %v", crd.Name, version.Name, version.Subresources)
		}
	}
	if !slices.Equal(kinds, []string{"NodeTaintRule", "EvictionPolicy"}) {
		t.Errorf("it defines %q", kinds)
	}
}

func rejectWildcards(t *testing.T, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, rule := range rules {
		for _, word := range append(append(rule.Verbs, rule.Resources...), rule.APIGroups...) {
			if word == rbacv1.VerbAll {
				t.Errorf("rule %v is wider than what is needed", rule)
			}
		}
	}
}
