// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// withoutRightsToRules is an API server that allows everything except access to NodeTaintRules.
func withoutRightsToRules(resources ...*metav1.APIResourceList) *fake.Clientset {
	client := fake.NewClientset()
	client.Resources = resources
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = review.Spec.ResourceAttributes.Resource != rulesResource
		return true, review, nil
	})
	return client
}

func TestRightsToRulesAreNeededOnceTheResourceIsInstalled(t *testing.T) {
	installed := &metav1.APIResourceList{
		GroupVersion: v1alpha1.GroupVersion.String(),
		APIResources: []metav1.APIResource{{Name: rulesResource, Kind: "NodeTaintRule"}},
	}
	err := checkPermissions(t.Context(), withoutRightsToRules(installed), parse(t))
	const want = "missing permissions: list, watch nodetaintrules.taintkeeper.dev; patch nodetaintrules.taintkeeper.dev"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it says %v, want %q", err, want)
	}
	if err := checkPermissions(t.Context(), withoutRightsToRules(installed), parse(t, "--controllers=eviction")); err != nil {
		t.Errorf("evictions alone: %v", err)
	}
	if err := checkPermissions(t.Context(), withoutRightsToRules(), parse(t)); err != nil {
		t.Errorf("without the resource: %v", err)
	}
}

func TestRulesCountAsNotInstalledIfTheAPIServerDoesNotTellItsResources(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		stops  bool
	}{
		"it refuses to tell": {apierrors.NewForbidden(schema.GroupResource{}, "", nil), false},
		"it does not answer": {errors.New("connection refused"), true},
	} {
		client := withoutRightsToRules()
		client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, test.answer
		})
		if err := checkPermissions(t.Context(), client, parse(t)); (err != nil) != test.stops {
			t.Errorf("%s: %v", name, err)
		}
	}
}
