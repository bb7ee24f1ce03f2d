// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/taints"
)

func deployment(t *testing.T) appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict(Deployment, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheDeploymentNeverEvictsItself(t *testing.T) {
	pod := deployment(t).Spec.Template.Spec
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		index, ok := taints.Matcher{}.First(pod.Tolerations, &corev1.Taint{Key: "any", Value: "thing", Effect: effect})
		if !ok || pod.Tolerations[index].TolerationSeconds != nil {
			t.Errorf("a taint with effect %s is not tolerated for ever", effect)
		}
	}
}

func TestTheDeploymentRunsAsTheAccountThatHasTheRights(t *testing.T) {
	d := deployment(t)
	if want := []byte("name: " + d.Spec.Template.Spec.ServiceAccountName + "\n"); !bytes.Contains(RBAC, want) || d.Namespace != "kube-system" {
		t.Errorf("rbac.yaml has no service account %s in %s", d.Spec.Template.Spec.ServiceAccountName, d.Namespace)
	}
}

func TestTheDeploymentSelectsItsOwnPods(t *testing.T) {
	d := deployment(t)
	for key, value := range d.Spec.Selector.MatchLabels {
		if got := d.Spec.Template.Labels[key]; got != value {
			t.Errorf("label %s of the pods is %q, the selector wants %q", key, got, value)
		}
	}
}

func TestRBACManifestsAreObjectsOfKubernetes(t *testing.T) {
	objects, err := Objects(RBAC)
	if err != nil {
		t.Fatal(err)
	}
	roles := 0
	for _, object := range objects {
		if object.GetName() != "taintkeeper" {
			t.Errorf("%T is called %q", object, object.GetName())
		}
		if role, ok := object.(*rbacv1.ClusterRole); ok {
			roles++
			rejectWildcards(t, role.Rules)
		}
	}
	if len(objects) != 7 || roles != 1 {
		t.Errorf("%d objects with %d cluster roles, want 7 with 1", len(objects), roles)
	}
}

func TestTheCRDIsAnObjectOfKubernetesForTheTypesOfTheAPI(t *testing.T) {
	objects, err := Objects(CRD)
	if err != nil {
		t.Fatal(err)
	}
	crd, ok := objects[0].(*apiextensionsv1.CustomResourceDefinition)
	if !ok || len(objects) != 1 {
		t.Fatalf("%d objects, the first a %T", len(objects), objects[0])
	}
	if crd.Spec.Group != v1alpha1.GroupVersion.Group || crd.Spec.Names.Kind != "NodeTaintRule" || crd.Spec.Scope != apiextensionsv1.ClusterScoped {
		t.Errorf("it defines %s %s in group %s", crd.Spec.Scope, crd.Spec.Names.Kind, crd.Spec.Group)
	}
	version := crd.Spec.Versions[0]
	if version.Name != v1alpha1.GroupVersion.Version || version.Subresources == nil || version.Subresources.Status == nil {
		t.Errorf("version %s with subresources %v", version.Name, version.Subresources)
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
