// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

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
