// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and the version of everything in this package.
var GroupVersion = schema.GroupVersion{Group: "taintkeeper.dev", Version: "v1alpha1"}

// AddToScheme makes the types of this package known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &EvictionPolicy{}, &EvictionPolicyList{}, &NodeTaintRule{}, &NodeTaintRuleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// NewScheme returns a scheme that knows the types of this package alone.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, AddToScheme(scheme)
}
